"""The one door for every reading: the floor first, then the cuts, then the answers."""

from __future__ import annotations

import pytest
import trio
from prometheus_client import CollectorRegistry
from trio.testing import wait_all_tasks_blocked

from sidecar.assignment import Assignment, Regressed, Unassigned, Unavailable
from sidecar.authority.front import FLOOR_SECONDS, Front, FrontTimes
from sidecar.authority.source import SourceUnavailable
from sidecar.floor import FloorInMemory, FloorUnavailable
from sidecar.identity import Epoch, Generation
from sidecar.metrics import Metrics

SIX, SEVEN, EIGHT = (Assignment(Generation(number)) for number in (6, 7, 8))


class ScriptedSource:
    """Says what it is told to, as long as it is told to take, and hints when it is told to."""

    def __init__(self, says=SEVEN):
        self.says = says
        self.takes = 0.0
        self.fixed = False
        self.reads = 0
        self.changed = trio.Event()

    def now(self):
        return self.says if self.fixed else None

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
        self.broken = ""
        self.looks = 0

    async def raise_generation(self, generation):
        self._write()
        await super().raise_generation(generation)
        self.events.append(("floor", generation.value))

    async def raise_epoch(self, scope, epoch):
        self._write()
        await super().raise_epoch(scope, epoch)

    async def reopen(self):
        await trio.lowlevel.checkpoint()
        self.looks += 1
        self.write_fault = self.broken

    def _write(self):
        if self.fault:
            raise FloorUnavailable(self.fault)
        if self.broken:
            self.write_fault = self.write_fault or self.broken
            raise FloorUnavailable(self.broken)


class House:
    def __init__(self, nursery, *, max_age=None, max_staleness=None, revalidate=10.0):
        self.nursery = nursery
        self.events = []
        self.floor_said = []
        self.cut = trio.Event()  # what a change revokes is gone
        self.cut.set()
        self.good_until = []
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
            on_good=self.good_until.append,
            on_floor=self.floor_said.append,
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
    house.floor.broken = "disk full"
    await house.run()
    assert house.front.floor_fault
    assert house.events == [("change", SEVEN)]
    house.floor.broken = ""
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


async def test_that_a_floor_cannot_be_kept_is_said_once_for_each_change_of_the_words(nursery, autojump_clock):
    house = House(nursery, revalidate=0.1)
    house.floor.broken = "disk full"
    await house.run()
    assert house.floor_said == ["disk full"]
    await trio.sleep(60)
    assert house.floor_said == ["disk full"]
    house.floor.broken = "read-only"
    await trio.sleep(1.5 * FLOOR_SECONDS)
    house.floor.broken = ""
    await trio.sleep(60)
    assert house.floor_said == ["disk full", "read-only", ""]
    assert house.front.floor_trouble == house.front.floor_fault == ""


async def test_an_epoch_that_cannot_be_kept_is_trouble_until_a_write_passes_that_nobody_asked_for(
    nursery, autojump_clock
):
    """Where readiness is off, the claim that would write again may not come."""
    house = House(nursery, revalidate=3600)
    await house.run()
    house.floor.broken = "disk full"
    for epoch in (5, 6):
        with pytest.raises(FloorUnavailable):
            await house.floor.raise_epoch("s", Epoch(epoch))
    assert house.front.floor_trouble == "disk full"
    assert house.front.floor_fault == "", "what is kept already may be acted on"
    await trio.sleep(60)
    assert house.floor_said == ["disk full"]
    house.floor.broken = ""
    await trio.sleep(1.5 * FLOOR_SECONDS)
    assert house.floor_said == ["disk full", ""]
    assert house.front.floor_trouble == ""


async def test_a_write_that_failed_and_passed_again_before_anybody_looked_is_said_too(nursery, autojump_clock):
    house = House(nursery)
    await house.run()
    house.floor.broken = "disk full"
    with pytest.raises(FloorUnavailable):
        await house.floor.raise_epoch("s", Epoch(5))
    house.floor.broken = ""
    await house.floor.raise_epoch("s", Epoch(5))
    await trio.sleep(1.5 * FLOOR_SECONDS)
    assert house.floor_said == ["disk full", ""]


async def test_a_generation_that_could_not_be_kept_is_kept_as_soon_as_it_can_be(nursery, autojump_clock):
    """Without another read."""
    house = House(nursery, revalidate=3600)
    house.floor.broken = "disk full"
    await house.run()
    house.floor.broken = ""
    await trio.sleep(1.5 * FLOOR_SECONDS)
    assert house.floor_said == ["disk full", ""]
    assert house.floor.current.generation == Generation(7)


async def test_a_record_without_a_generation_needs_no_floor_whatever_was_before(nursery, autojump_clock):
    house = House(nursery)
    house.floor.broken = "disk full"
    await house.run()
    house.source.says = Unassigned(pending=False)
    await house.front.read()
    assert house.front.floor_fault == ""


async def test_a_damaged_floor_is_said_and_looked_at_again_with_each_read(nursery, autojump_clock):
    house = House(nursery)
    house.floor.fault, house.floor.current = "damaged", None
    await house.run()
    looks = house.floor.looks
    await house.front.read()
    assert house.floor.looks == looks + 1
    assert house.floor_said == ["damaged"]
    assert house.front.floor_trouble == "damaged"


async def test_a_floor_whose_disk_hangs_holds_no_read_beyond_its_time(nursery, autojump_clock):
    house = House(nursery, revalidate=3600)
    await house.run()
    house.floor.write_fault = "the disk doesn't answer"
    house.floor.reopen = trio.sleep_forever
    house.source.says = EIGHT
    for _ in range(10):
        await trio.sleep(FLOOR_SECONDS / 3)
        began = trio.current_time()
        assert await house.front.read() == EIGHT
        assert trio.current_time() == began
    house.floor.fault, house.floor.current = "damaged", None
    began = trio.current_time()
    await house.front.read()
    assert trio.current_time() - began <= 4


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


async def test_each_good_read_says_until_when_connections_may_rest_on_it(nursery, autojump_clock):
    house = House(nursery, max_staleness=30.0)
    began = trio.current_time()
    await house.run()
    await trio.sleep(10.5)
    assert house.good_until == [began + 30, began + 40]
    house.source.says = SourceUnavailable("down")
    await trio.sleep(60)
    assert house.good_until == [began + 30, began + 40]


async def test_what_never_changes_needs_no_read_once_it_has_been_taken(nursery, autojump_clock):
    house = House(nursery)
    house.source.fixed = True
    assert house.front.read_now() is None, "nothing has been acted on yet"
    await house.run()
    assert house.front.read_now() is SEVEN
    house.source.fixed = False
    assert house.front.read_now() is None


async def test_while_the_floor_cannot_be_kept_even_what_never_changes_is_read(nursery, autojump_clock):
    house = House(nursery)
    house.source.fixed, house.floor.broken = True, True
    await house.run()
    assert house.front.read_now() is None
    house.floor.broken = False
    await house.front.read()
    assert house.front.read_now() is SEVEN
