"""From start to exit, on a clock that jumps: the order of the end, and what each moment says."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from sidecar.lifecycle import Lifecycle
from sidecar.metrics import State
from sidecar.reasons import End, Reason
from sidecar.roster import Roster, Step
from sidecar.standing import Obstacle
from tests.names import inet


class House:
    """A lifecycle and connections that end when they are told to, or after their time."""

    def __init__(self, nursery, *, delay=0.0, timeout=25.0):
        self.nursery = nursery
        self.roster = Roster(connections=99, pending=99)
        self.states = []
        self.ends = []
        self.obstacles = []
        self.lifecycle = Lifecycle(
            self.roster,
            obstacles=lambda: self.obstacles,
            delay=delay,
            timeout=timeout,
            on_state=self.states.append,
        )
        self.lifecycle.start()

    def connect(self, *, lives=float("inf"), step=Step.ADMITTED):
        peer = inet("192.0.2.1", 51000)
        connection = self.roster.enter("compute", peer, peer, trio.current_time())
        self.roster.wait(connection)
        if step is not Step.PREFACE:
            assert self.roster.take_place(connection)
        connection.step = step
        self.nursery.start_soon(self._live, connection, lives)
        return connection

    async def _live(self, connection, lives):
        with trio.CancelScope() as scope:
            connection.interrupt = scope.cancel
            await trio.sleep(lives)
        self.ends.append((trio.current_time(), connection.ended_by))
        self.roster.leave(connection)

    async def end(self):
        await self.lifecycle.wait_drained()
        return await self.lifecycle.wait_gone()


async def test_it_is_ready_once_started(nursery):
    house = House(nursery)
    assert house.lifecycle.not_ready() == []
    assert house.states == [State.READY]
    assert not house.lifecycle.refusing


async def test_what_stands_in_the_way_of_readiness_is_said_and_is_the_state(nursery):
    house = House(nursery)
    house.obstacles = [Obstacle(State.REGRESSED, "6 after 7"), Obstacle(State.PENDING, "pending: /etc/x")]
    assert house.lifecycle.not_ready() == ["6 after 7", "pending: /etc/x"]
    house.lifecycle.refresh()
    assert house.states[-1] is State.REGRESSED
    house.lifecycle.started = False
    assert house.lifecycle.not_ready()[0] == "listeners don't accept yet"
    assert house.lifecycle.state is State.PENDING
    house.lifecycle.shutdown()
    assert house.lifecycle.state is State.STOPPING


async def test_other_limits_hold_for_a_drain_that_has_not_begun(nursery, autojump_clock):
    house = House(nursery, timeout=3600)
    began = trio.current_time()
    house.connect()
    house.lifecycle.retime(delay=2, timeout=5)
    house.lifecycle.shutdown()
    assert await house.end() == 0
    assert trio.current_time() - began == pytest.approx(7.5)


async def test_a_drain_refuses_and_ends_nothing(nursery, autojump_clock):
    house = House(nursery)
    connection = house.connect()
    house.lifecycle.drain()
    house.lifecycle.drain()
    assert house.lifecycle.refusing
    assert house.lifecycle.not_ready() == ["draining"]
    assert house.states == [State.READY, State.DRAINING]
    await trio.sleep(1000)
    assert connection.ended_by is None
    nursery.cancel_scope.cancel()


async def test_with_nobody_here_the_end_comes_at_once(nursery, autojump_clock):
    house = House(nursery)
    began = trio.current_time()
    house.lifecycle.shutdown()
    assert await house.end() == 0
    assert trio.current_time() == began
    assert house.states == [State.READY, State.STOPPING, State.STOPPING]


async def test_connections_that_end_by_themselves_are_waited_for_and_no_longer(nursery, autojump_clock):
    house = House(nursery)
    began = trio.current_time()
    house.connect(lives=3)
    house.connect(lives=7)
    house.lifecycle.shutdown()
    assert await house.end() == 0
    assert trio.current_time() - began == 7
    assert [why for _, why in house.ends] == [None, None]


async def test_what_outlives_the_drain_is_cut_but_not_all_at_one_moment(nursery, autojump_clock):
    house = House(nursery, timeout=5)
    began = trio.current_time()
    for _ in range(10):
        house.connect()
    house.lifecycle.shutdown()
    assert await house.end() == 0
    assert {why for _, why in house.ends} == {End.DRAIN_TIMEOUT}
    times = [when - began for when, _ in house.ends]
    assert times[0] == 5
    assert times[-1] <= 5 + 0.5, "a tenth of the drain's time"
    assert len(set(times)) == 10


async def test_the_spread_of_the_cuts_is_never_more_than_a_second(nursery, autojump_clock):
    house = House(nursery, timeout=3600)
    began = trio.current_time()
    for _ in range(4):
        house.connect()
    house.lifecycle.shutdown()
    assert await house.end() == 0
    assert 3600 < trio.current_time() - began <= 3601


async def test_in_the_delay_readiness_is_off_and_claims_are_still_admitted(nursery, autojump_clock):
    house = House(nursery, delay=2)
    house.connect(lives=60)
    nursery.start_soon(house.end)
    house.lifecycle.shutdown()
    await trio.sleep(1)
    assert house.lifecycle.not_ready() == ["stopping"]
    assert not house.lifecycle.refusing
    await trio.sleep(1.5)
    assert house.lifecycle.refusing
    nursery.cancel_scope.cancel()


async def test_a_second_signal_cuts_at_once_whatever_the_moment(nursery, autojump_clock):
    house = House(nursery, delay=10)
    began = trio.current_time()
    house.connect()
    house.lifecycle.shutdown()
    nursery.start_soon(lambda: _later(3, house.lifecycle.abort))
    assert await house.end() == 1
    assert trio.current_time() - began == 3
    assert house.ends == [(began + 3, End.ABORTED)]


async def test_a_second_signal_counts_until_the_very_end(nursery, autojump_clock):
    house = House(nursery)
    began = trio.current_time()
    house.connect(step=Step.PREFACE)
    house.lifecycle.shutdown()
    nursery.start_soon(lambda: _later(1, house.lifecycle.abort))
    assert await house.end() == 1
    assert trio.current_time() - began == 1
    nursery.cancel_scope.cancel()


async def test_an_abort_without_a_shutdown_before_is_one_too(nursery, autojump_clock):
    house = House(nursery)
    house.connect()
    house.lifecycle.abort()
    assert await house.end() == 1
    assert [why for _, why in house.ends] == [End.ABORTED]


async def test_one_that_is_about_to_be_admitted_is_refused_and_not_cut(nursery, autojump_clock):
    house = House(nursery, timeout=5)
    house.connect()
    house.connect(step=Step.DIAL)
    house.lifecycle.shutdown()
    assert await house.end() == 0
    assert {why for _, why in house.ends} == {End.DRAIN_TIMEOUT, Reason.DRAINING}


async def test_those_without_a_verdict_get_one_after_the_listeners_have_closed(nursery, autojump_clock):
    """Their preface may have arrived and only not been read yet."""
    house = House(nursery)
    began = trio.current_time()
    house.connect(step=Step.PREFACE, lives=0.5)
    house.lifecycle.shutdown()
    assert await house.end() == 0
    assert house.ends == [(began + 0.5, None)]


async def test_one_that_only_lingers_holds_the_end_up_for_a_moment_at_most(nursery, autojump_clock):
    house = House(nursery)
    began = trio.current_time()
    house.roster.linger(house.connect(step=Step.PREFACE))
    house.lifecycle.shutdown()
    await house.lifecycle.wait_drained()
    assert trio.current_time() == began
    assert await house.lifecycle.wait_gone() == 0
    assert trio.current_time() - began == pytest.approx(2)
    nursery.cancel_scope.cancel()


async def test_an_end_that_never_begins_is_waited_for(nursery):
    house = House(nursery)
    nursery.start_soon(house.end)
    await wait_all_tasks_blocked()
    assert house.lifecycle.not_ready() == []
    nursery.cancel_scope.cancel()


async def _later(seconds, act):
    await trio.sleep(seconds)
    act()
