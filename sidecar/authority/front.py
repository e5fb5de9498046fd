"""What stands in front of every source: freshness, the newest record, the floor, and what a change sets off.

Theory of operation. A read's result goes through one door, :meth:`Front._take`, one at a time: the floor is raised (on
disk, where there is one) before a record is acted on, the record becomes the newest, the flow cuts what it revokes, and
only then whoever waited for that read gets its answer. So nothing that a record revokes is left when a claim is
answered on it, whoever fetched it: a claim's own read, the watch, or the clock.

Beside the claims' reads there is one after each hint of the source, and one at least every ``revalidate`` seconds. If
no good read is younger than ``max_staleness``, ``on_stale`` is called: established connections rest on nothing then.

Owns the authority's tasks (:meth:`Front.run`). Knows no connection; ``app`` passes in what a change sets off.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import trio

from sidecar.assignment import Assignment, Reading, Regressed, Unassigned, Unavailable
from sidecar.authority.newest import Newest
from sidecar.authority.reads import SharedReads
from sidecar.authority.source import Source, SourceUnavailable
from sidecar.floor import BelowFloor, FloorKeeper, FloorUnavailable
from sidecar.identity import Generation
from sidecar.metrics import Metrics, ReadResult


@dataclass(frozen=True, slots=True)
class FrontTimes:
    """Limits in seconds; None: never."""

    read: float  # for one read
    revalidate: float  # between two reads, at most
    max_age: float | None  # of a remembered assignment that stands in for a silent authority; None: none does
    max_staleness: float | None


class Front:
    """An authority over any source.

    ``floor_fault`` says why the newest record's generation couldn't be kept; empty: it is.
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
    ) -> None:
        self._source = source
        self._floor = floor
        self._times = times
        self._metrics = metrics
        self._on_change = on_change
        self._on_stale = on_stale
        self._newest = Newest()
        self._reads = SharedReads(self._read_once)
        self._taking = trio.Lock()
        self._remembered: Assignment | None = None
        self._good_at: float | None = None  # when the youngest good read began
        self._was_good = trio.Event()
        self.floor_fault = ""

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

    async def read(self) -> Reading:
        """What a read that began after this call brought, once everything that it revokes is cut."""
        return await self._reads.fresh()

    async def run(self) -> None:
        """The reads' tasks, the watch and the clock. Runs until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._reads.run)
            nursery.start_soon(self._watch)
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
            await self._floor.reopen()
        record = self._floor.current
        floor = record.generation if record is not None else None
        taken = self._newest.take(number, result, floor=floor, begun=self._reads.begun)
        reading = taken.reading
        if isinstance(reading, Unavailable | Regressed):
            return reading
        self._good_at = max(began, self._good_at or began)
        self._was_good.set()
        if taken.changed:
            self._remembered = None  # until what the new record revokes is gone, nothing stands in for anything
        if isinstance(reading, Assignment) and reading.generation is not None:
            await self._raise_floor(reading.generation)
        if taken.changed:
            await self._on_change(reading)
        self._remembered = reading if isinstance(reading, Assignment) else None
        return reading

    async def _raise_floor(self, generation: Generation) -> None:
        """Where it can't be written in time, decisions say so; what the record revokes is cut all the same."""
        fault = f"the floor couldn't be written within {self._times.read:g} s"
        with trio.move_on_after(self._times.read):
            try:
                await self._floor.raise_generation(generation)
            except BelowFloor:
                fault = ""  # a newer record has raised it meanwhile
            except FloorUnavailable as error:
                fault = str(error)
            else:
                fault = ""
        self.floor_fault = fault


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
