"""The one door for every reading: the floor first, then the cuts, then the answers."""

from __future__ import annotations

import pytest
import trio
from prometheus_client import CollectorRegistry
from trio.testing import wait_all_tasks_blocked

from sidecar.assignment import Assignment, Regressed, Unassigned, Unavailable
from sidecar.authority.front import Front, FrontTimes
from sidecar.authority.source import SourceUnavailable
from sidecar.floor import FloorInMemory, FloorUnavailable
from sidecar.identity import Generation
from sidecar.metrics import Metrics

SIX, SEVEN, EIGHT = (Assignment(Generation(number)) for number in (6, 7, 8))


class ScriptedSource:
    """Says what it is told to, as long as it is told to take, and hints when it is told to."""

    def __init__(self, says=SEVEN):
        self.says = says
        self.takes = 0.0
        self.reads = 0
        self.changed = trio.Event()

    async def read(self):
        self.reads += 1
        await trio.sleep(self.takes)
        if isinstance(self.says, Exception):
            raise self.says
        return self.says

    async def wait_hint(self):
        await self.changed.wait()
        self.changed = trio.Event()

    def pending(self):
        return []


class Floor(FloorInMemory):
    """Notes what happens, and fails when it is told to."""

    def __init__(self, events):
        super().__init__()
        self.events = events
        self.broken = False

    async def raise_generation(self, generation):
        if self.broken:
            raise FloorUnavailable("disk full")
        await super().raise_generation(generation)
        self.events.append(("floor", generation.value))


class House:
    def __init__(self, nursery, *, max_age=None, max_staleness=None, revalidate=10.0):
        self.nursery = nursery
        self.events = []
        self.cut = trio.Event()  # what a change revokes is gone
        self.cut.set()
        self.source = ScriptedSource()
        self.floor = Floor(self.events)
        self.registry = CollectorRegistry()
        self.front = Front(
            self.source,
            self.floor,
            FrontTimes(read=2.0, revalidate=revalidate, max_age=max_age, max_staleness=max_staleness),
            Metrics(self.registry, listeners=[], wall_clock=lambda: 1000.0),
            on_change=self._changed,
            on_stale=lambda: self.events.append(("stale", trio.current_time())),
        )

    async def _changed(self, reading):
        self.events.append(("change", reading))
        assert self.front.newest == reading, "decisions from now on are on the new record"
        await self.cut.wait()

    async def run(self):
        self.nursery.start_soon(self.front.run)
        await wait_all_tasks_blocked()

    def count(self, result):
        return self.registry.get_sample_value("identity_sidecar_authority_reads_total", {"result": result})


async def test_the_floor_is_raised_before_a_record_is_acted_on(nursery, autojump_clock):
    house = House(nursery)
    await house.run()
    assert house.events == [("floor", 7), ("change", SEVEN)]
    assert await house.front.read() == SEVEN


async def test_nobody_is_answered_before_what_the_record_revokes_is_gone(nursery, autojump_clock):
    house = House(nursery)
    await house.run()
    house.source.says, house.cut = EIGHT, trio.Event()
    answers = []

    async def ask():
        answers.append(await house.front.read())

    nursery.start_soon(ask)
    await trio.sleep(1)
    assert house.front.newest == EIGHT
    assert answers == []
    house.cut.set()
    await wait_all_tasks_blocked()
    assert answers == [EIGHT]


async def test_a_hint_sets_off_a_read_and_so_does_time(nursery, autojump_clock):
    house = House(nursery, revalidate=10)
    await house.run()
    house.source.says = EIGHT
    house.source.changed.set()
    await trio.sleep(0.1)
    assert house.front.newest == EIGHT
    reads = house.source.reads
    await trio.sleep(35)
    assert house.source.reads == reads + 3


async def test_a_source_that_fails_is_unavailable_and_changes_nothing(nursery, autojump_clock):
    house = House(nursery)
    await house.run()
    house.source.says = SourceUnavailable("malformed")
    assert await house.front.read() == Unavailable("malformed")
    assert house.front.newest == SEVEN
    assert house.front.latest == Unavailable("malformed")
    assert house.count("unavailable") == 1


async def test_a_read_beyond_its_time_is_abandoned(nursery, autojump_clock):
    house = House(nursery)
    await house.run()
    house.source.takes = 3600
    began = trio.current_time()
    assert await house.front.read() == Unavailable("no answer within 2 s")
    assert trio.current_time() - began <= 4, "its own two seconds, and at most those of one before it"


async def test_going_back_is_a_regress_and_cuts_nobody(nursery, autojump_clock):
    house = House(nursery)
    await house.run()
    house.source.says = SIX
    reading = await house.front.read()
    assert isinstance(reading, Regressed)
    assert house.front.newest == SEVEN
    assert house.events == [("floor", 7), ("change", SEVEN)]
    assert house.count("regressed") == 1


async def test_a_floor_from_before_the_start_counts(nursery, autojump_clock):
    house = House(nursery)
    await house.floor.raise_generation(Generation(8))
    await house.run()
    assert isinstance(house.front.newest, Unavailable | Regressed)
    house.source.says = EIGHT
    assert await house.front.read() == EIGHT


async def test_a_floor_that_cannot_be_written_is_said_until_it_can_and_the_cuts_are_made(nursery, autojump_clock):
    house = House(nursery)
    house.floor.broken = True
    await house.run()
    assert house.front.floor_fault
    assert house.events == [("change", SEVEN)]
    house.floor.broken = False
    await house.front.read()
    assert not house.front.floor_fault


async def test_a_floor_that_hangs_is_not_waited_for_and_the_cuts_are_made(nursery, autojump_clock):
    house = House(nursery)

    async def hang(generation):
        await trio.sleep_forever()

    house.floor.raise_generation = hang
    nursery.start_soon(house.front.run)
    await trio.sleep(3)
    assert house.front.floor_fault
    assert house.events == [("change", SEVEN)]


async def test_a_new_record_stands_in_for_nothing_before_what_it_revokes_is_gone(nursery, autojump_clock):
    house = House(nursery, max_age=60.0)
    await house.run()
    assert house.front.last_known() == SEVEN
    house.source.says, house.cut = EIGHT, trio.Event()
    house.source.changed.set()
    await trio.sleep(1)
    assert house.front.newest == EIGHT
    assert house.front.last_known() is None
    house.cut.set()
    await wait_all_tasks_blocked()
    assert house.front.last_known() == EIGHT


async def test_an_instance_alone_needs_no_floor(nursery, autojump_clock):
    house = House(nursery)
    house.source.says = Assignment()
    await house.run()
    assert house.events == [("change", Assignment())]


@pytest.mark.parametrize("max_age", [None, 30.0])
async def test_what_is_remembered_stands_in_for_its_age_where_it_may_at_all(nursery, autojump_clock, max_age):
    house = House(nursery, max_age=max_age)
    await house.run()
    house.source.says = SourceUnavailable("down")
    await trio.sleep(29)
    assert house.front.last_known() == (SEVEN if max_age else None)
    await trio.sleep(2)
    assert house.front.last_known() is None


async def test_what_is_remembered_can_be_forgotten_until_the_next_good_read(nursery, autojump_clock):
    house = House(nursery, max_age=30.0)
    await house.run()
    house.front.forget()
    assert house.front.last_known() is None
    await house.front.read()
    assert house.front.last_known() == SEVEN


async def test_without_a_young_enough_read_everything_is_stale_once(nursery, autojump_clock):
    house = House(nursery, max_staleness=30.0)
    began = trio.current_time()
    await house.run()
    house.source.says = SourceUnavailable("down")
    await trio.sleep(100)
    assert [event for event in house.events if event[0] == "stale"] == [("stale", began + 30)]


async def test_what_is_too_old_stands_in_for_nothing(nursery, autojump_clock):
    house = House(nursery, max_age=60.0, max_staleness=30.0)
    assert house.front.stale
    await house.run()
    assert not house.front.stale
    house.source.says = SourceUnavailable("down")
    await trio.sleep(31)
    assert house.front.stale
    assert house.front.last_known() is None


async def test_good_reads_keep_everything_fresh_and_staleness_begins_anew_after_them(nursery, autojump_clock):
    house = House(nursery, max_staleness=30.0)
    await house.run()
    await trio.sleep(300)
    assert not [event for event in house.events if event[0] == "stale"]
    house.source.says = SourceUnavailable("down")
    await trio.sleep(60)
    house.source.says = SEVEN
    await trio.sleep(60)
    house.source.says = SourceUnavailable("down")
    await trio.sleep(60)
    assert len([event for event in house.events if event[0] == "stale"]) == 2


async def test_an_assignment_that_is_gone_is_a_change(nursery, autojump_clock):
    house = House(nursery)
    await house.run()
    house.source.says = Unassigned(pending=False)
    assert await house.front.read() == Unassigned(pending=False)
    assert house.events[-1] == ("change", Unassigned(pending=False))
    assert house.front.last_known() is None
