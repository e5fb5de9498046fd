"""What is looked at now and then, on a clock that jumps."""

from types import SimpleNamespace

import pytest
import trio

from sidecar.vitals import HOUSEKEEPING_SECONDS, LAG_SECONDS, Vitals


class Gauge:
    def __init__(self):
        self.values = []

    def set(self, value):
        self.values.append(value)


class House:
    """Everything that is looked at, and everybody who is told."""

    def __init__(self):
        self.metrics = SimpleNamespace(loop_lag=Gauge(), relay_lag=Gauge(), relay_pipes=Gauge())
        self.looks = {"log": 0, "state": 0}
        self.vitals = Vitals(
            self.metrics,
            SimpleNamespace(statistics=lambda: SimpleNamespace(lag=0.003, pipes=2)),
            SimpleNamespace(flush=lambda: self.look("log")),
            SimpleNamespace(refresh=lambda: self.look("state")),
        )

    def look(self, what):
        self.looks[what] += 1


async def test_both_loops_are_looked_at_again_and_again(nursery, autojump_clock):
    house = House()
    nursery.start_soon(house.vitals.run)
    await trio.sleep(4.5 * LAG_SECONDS)
    assert house.metrics.loop_lag.values == [pytest.approx(0, abs=1e-6)] * 4
    assert house.metrics.relay_lag.values == [0.003] * 4
    assert house.metrics.relay_pipes.values == [2] * 4


async def test_the_log_and_the_state_are_looked_at_now_and_then(nursery, autojump_clock):
    house = House()
    nursery.start_soon(house.vitals.run)
    await trio.sleep(3.5 * HOUSEKEEPING_SECONDS)
    assert house.looks == {"log": 3, "state": 3}
