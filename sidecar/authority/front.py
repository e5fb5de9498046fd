"""What stands in front of every source: freshness, the newest record, the floor, and what a change sets off.

Theory of operation. A read's result goes through one door, :meth:`Front._take`, one at a time: the floor is raised (on
disk, where there is one) before a record is acted on, the record becomes the newest, the flow cuts what it revokes, and
only then whoever waited for that read gets its answer. So nothing that a record revokes is left when a claim is
answered on it, whoever fetched it: a claim's own read, the watch, or the clock.

Beside the claims' reads there is one after each hint of the source, and one at least every ``revalidate`` seconds. If
no good read is younger than ``max_staleness``, ``on_stale`` is called: established connections rest on nothing then.

A floor that couldn't be written, whoever wanted it, is tried again every second: the claim that would do so may not
come any more where readiness is off. ``on_floor`` is told of each change.

Owns the authority's tasks (:meth:`Front.run`). Knows no connection; ``app`` passes in what a change sets off.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import trio

from sidecar.assignment import Assignment, Reading, Regressed, Unassigned, Unavailable
from sidecar.authority.newest import Newest
from sidecar.authority.reads import SharedReads
from sidecar.authority.source import Source, SourceUnavailable
from sidecar.floor import BelowFloor, FloorKeeper, FloorUnavailable
from sidecar.metrics import Metrics, ReadResult

FLOOR_SECONDS: Final = 1.0  # between two looks at the floor


@dataclass(frozen=True, slots=True)
class FrontTimes:
    """Limits in seconds; None: never."""

    read: float  # for one read
    revalidate: float  # between two reads, at most
    max_age: float | None  # of a remembered assignment that stands in for a silent authority; None: none does
    max_staleness: float | None


class Front:
    """An authority over any source.

    ``floor_fault`` says why the newest record's generation couldn't be kept; empty: it is. Nothing may rest on such a
    record. ``floor_trouble`` is the word for whether the floor can be kept at all, and for people.
    """

    def __init__(
        self,
        source: Source,
        floor: FloorKeeper,
        times: FrontTimes,
        metrics: Metrics,
        *,
        on_change: Callable[[Reading], Awaitable[None]],
        on_stale: Callable[[], None],
        on_good: Callable[[float], None],
        on_floor: Callable[[str], None],
    ) -> None:
        self._source = source
        self._floor = floor
        self._times = times
        self._metrics = metrics
        self._on_change = on_change
        self._on_stale = on_stale
        self._on_good = on_good
        self._on_floor = on_floor
        self._newest = Newest()
        self._reads = SharedReads(self._read_once)
        self._taking = trio.Lock()
        self._remembered: Assignment | None = None
        self._good_at: float | None = None  # when the youngest good read began
        self._was_good = trio.Event()
        self._told_of_floor = ""
        self.floor_fault = ""

    @property
    def floor_trouble(self) -> str:
        """Why the floor can't be read or written, the generation's or an epoch's; empty: it can."""
        return self._floor.fault or self._floor.write_fault or self.floor_fault

    @property
    def newest(self) -> Reading:
        """The newest record; before the first one, why there is none."""
        return self._newest.record

    @property
    def latest(self) -> Reading:
        """What the latest read brought, good or not."""
        return self._newest.latest

    def last_known(self) -> Assignment | None:
        """The remembered assignment, as long as it may stand in for a silent authority."""
        max_age = self._times.max_age
        if self._remembered is None or max_age is None or self._good_at is None or self.stale:
            return None
        return self._remembered if trio.current_time() - self._good_at <= max_age else None

    @property
    def stale(self) -> bool:
        """Whether no good read is younger than ``max_staleness``: then nothing may rest on what was read."""
        max_staleness = self._times.max_staleness
        if max_staleness is None:
            return False
        return self._good_at is None or trio.current_time() - self._good_at >= max_staleness

    def forget(self) -> None:
        """A higher generation was heard of: what is remembered must not admit anybody any more."""
        self._remembered = None

    def read_now(self) -> Reading | None:
        """What a read would bring, where it is known without one; None: it isn't, or a floor is still to be kept."""
        kept = self._floor.current is not None and not self.floor_fault
        return self.newest if kept and self._source.now() is self.newest else None

    async def read(self) -> Reading:
        """What a read that began after this call brought, once everything that it revokes is cut."""
        return await self._reads.fresh()

    async def run(self) -> None:
        """The reads' tasks, the watch and the clock. Runs until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._reads.run)
            nursery.start_soon(self._watch)
            nursery.start_soon(self._watch_floor)
            if self._times.max_staleness is not None:
                nursery.start_soon(self._watch_staleness, self._times.max_staleness)

    async def _watch(self) -> None:
        while True:
            await self.read()
            with trio.move_on_after(self._times.revalidate):
                await self._source.wait_hint()

    async def _watch_staleness(self, max_staleness: float) -> None:
        began = trio.current_time()
        while True:
            good_at = self._good_at if self._good_at is not None else began
            with trio.move_on_at(good_at + max_staleness) as patience:
                await self._was_good.wait()
            if patience.cancelled_caught:
                self._on_stale()
                await self._was_good.wait()
            self._was_good = trio.Event()

    async def _watch_floor(self) -> None:
        while True:
            self._tell_of_floor()
            if self._floor.write_fault or self.floor_fault:
                await self._keep_again()
            await trio.sleep(FLOOR_SECONDS)

    async def _keep_again(self) -> None:
        """Try whether what couldn't be written can be by now."""
        with trio.move_on_after(self._times.read):
            await self._floor.reopen()
        if self.floor_fault and not self._floor.write_fault:
            async with self._taking:
                await self._raise_floor(self._newest.record)
        self._tell_of_floor()

    def _tell_of_floor(self) -> None:
        if self.floor_trouble != self._told_of_floor:
            self._told_of_floor = self.floor_trouble
            self._on_floor(self._told_of_floor)

    async def _read_once(self, number: int) -> Reading:
        began = trio.current_time()
        result: Assignment | Unassigned | Unavailable = Unavailable(f"no answer within {self._times.read:g} s")
        try:
            with trio.move_on_after(self._times.read):
                result = await self._source.read()
        except SourceUnavailable as error:
            result = Unavailable(str(error))
        async with self._taking:
            reading = await self._take(number, result, began)
        self._metrics.authority_read(_kind(reading), trio.current_time() - began)
        return reading

    async def _take(self, number: int, result: Assignment | Unassigned | Unavailable, began: float) -> Reading:
        if self._floor.current is None:
            with trio.move_on_after(self._times.read):
                await self._floor.reopen()
        record = self._floor.current
        floor = record.generation if record is not None else None
        taken = self._newest.take(number, result, floor=floor, begun=self._reads.begun)
        reading = taken.reading
        if isinstance(reading, Unavailable | Regressed):
            return reading
        self._good_at = max(began, self._good_at or began)
        if self._times.max_staleness is not None:
            self._on_good(self._good_at + self._times.max_staleness)
        self._was_good.set()
        if taken.changed:
            self._remembered = None  # until what the new record revokes is gone, nothing stands in for anything
        await self._raise_floor(reading)
        if taken.changed:
            await self._on_change(reading)
        self._remembered = reading if isinstance(reading, Assignment) else None
        return reading

    async def _raise_floor(self, reading: Reading) -> None:
        """Where it can't be written in time, decisions say so; what the record revokes is cut all the same."""
        if not isinstance(reading, Assignment) or reading.generation is None:
            self.floor_fault = ""
            return
        fault = f"the floor couldn't be written within {self._times.read:g} s"
        with trio.move_on_after(self._times.read):
            try:
                await self._floor.raise_generation(reading.generation)
            except BelowFloor:
                fault = ""  # a newer record has raised it meanwhile
            except FloorUnavailable as error:
                fault = str(error)
            else:
                fault = ""
        self.floor_fault = fault
        self._tell_of_floor()


def _kind(reading: Reading) -> ReadResult:
    match reading:
        case Assignment():
            return ReadResult.ASSIGNED
        case Unassigned():
            return ReadResult.UNASSIGNED
        case Regressed():
            return ReadResult.REGRESSED
        case _:
            return ReadResult.UNAVAILABLE
