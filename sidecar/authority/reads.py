"""Reads of a source, shared by all who wait at the same moment.

Theory of operation. Whoever asks gets the result of a read that *began* after the question: nothing older can answer
it. A burst must not become a burst of reads, so those who wait together share one: at most two are under way, one that
had begun before the newest question, and one that everybody since then waits for. Only when one of them has ended may a
third begin. Reads belong to this object and not to those who ask: a claim that gives up ends no read that others wait
for, and one that is past its time is abandoned, so that the next can begin. Rejected: a read for each claim (a burst
floods the store), and answering from the last result (a claim that is right by now would be refused on it).

Owns the order of reads. Knows nothing of assignments; called by ``front``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Generic, TypeVar

import trio

Result = TypeVar("Result")

MAX_UNDER_WAY: Final = 2


class _Read(Generic[Result]):
    """One read: when it began, in the order of all, and what became of it."""

    __slots__ = ("ended", "number", "result")

    def __init__(self, number: int) -> None:
        self.number = number
        self.ended = trio.Event()
        self.result: Result | None = None


class SharedReads(Generic[Result]):
    """Runs reads and shares their results.

    Args:
        read: does one read and returns its result, given its number; numbers grow in the order in which reads begin. It
            raises nothing and bounds its own time.
    """

    def __init__(self, read: Callable[[int], Awaitable[Result]]) -> None:
        self._read = read
        self._begun = 0
        self._under_way = 0
        self._next: _Read[Result] | None = None  # wanted, and not begun for want of a place
        self._nursery: trio.Nursery | None = None

    @property
    def begun(self) -> int:
        """The number of the latest read that has begun."""
        return self._begun - (self._next is not None)

    async def run(self) -> None:
        """Be where the reads' tasks live. Runs until cancelled; whoever asks before waits for it to begin."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._begin_next()
            await trio.sleep_forever()

    async def fresh(self) -> Result:
        """The result of a read that begins after this call."""
        if self._next is None:
            self._begun += 1
            self._next = _Read(self._begun)
        wanted = self._next
        self._begin_next()
        await wanted.ended.wait()
        assert wanted.result is not None, "an ended read has a result"  # noqa: S101
        return wanted.result

    def _begin_next(self) -> None:
        if self._next is not None and self._nursery is not None and self._under_way < MAX_UNDER_WAY:
            read, self._next = self._next, None
            self._under_way += 1
            self._nursery.start_soon(self._run_one, read)

    async def _run_one(self, read: _Read[Result]) -> None:
        read.result = await self._read(read.number)
        self._under_way -= 1
        read.ended.set()
        self._begin_next()
