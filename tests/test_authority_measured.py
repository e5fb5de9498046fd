"""Reads are counted by what they brought, and timed."""

import pytest
import trio
from prometheus_client import CollectorRegistry

from sidecar.admission import Assignment, Regressed, Unassigned, Unavailable
from sidecar.authority.measured import Measured
from sidecar.identity import Generation
from sidecar.metrics import Metrics


class Scripted:
    def __init__(self, reading, takes=0.0):
        self.newest = reading
        self._takes = takes

    async def read(self):
        await trio.sleep(self._takes)
        return self.newest


@pytest.fixture
def registry():
    return CollectorRegistry()


def measured(registry, authority):
    return Measured(authority, Metrics(registry, listeners=[], wall_clock=lambda: 1000.0))


def value(registry, name, **labels):
    return registry.get_sample_value(f"identity_sidecar_authority_{name}", labels or None)


@pytest.mark.parametrize(
    ("reading", "result", "good"),
    [
        (Assignment(Generation(7)), "assigned", True),
        (Unassigned(pending=True), "unassigned", True),
        (Unavailable("down"), "unavailable", False),
        (Regressed("6 after 7"), "regressed", False),
    ],
)
async def test_each_kind_of_reading_is_counted_as_itself(registry, reading, result, good):
    authority = measured(registry, Scripted(reading))
    assert await authority.read() is reading
    assert authority.newest is reading
    assert value(registry, "reads_total", result=result) == 1
    assert (value(registry, "last_success_timestamp_seconds") == 1000.0) == good


async def test_reads_are_timed(registry, autojump_clock):
    await measured(registry, Scripted(Assignment(), takes=2)).read()
    assert value(registry, "read_duration_seconds_sum") == 2


async def test_a_read_that_is_given_up_counts_as_unavailable(registry, autojump_clock):
    with trio.move_on_after(5):
        await measured(registry, Scripted(Assignment(), takes=60)).read()
    assert value(registry, "reads_total", result="unavailable") == 1
    assert value(registry, "read_duration_seconds_sum") == 5
