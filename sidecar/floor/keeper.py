"""Who keeps the floor while the process runs: a file, or memory alone.

Theory of operation. A floor counts once it is known to be on disk, and only then may it be acted on; so ``current``
changes after the write, never before. Writes happen in a thread, one at a time. A write belongs to the keeper and not
to the claim that caused it: a claim that gives up leaves the thread to finish by itself, so that a disk that hangs
holds neither a claim beyond its time nor the end of the process, and nothing is ever half done.

A write that fails may have reached the disk all the same. It counts as not done: nothing was acted on. The next start
may find it, and refuses a little more than it must; a later write replaces it.

That a write has failed is remembered (``write_fault``) until ``reopen`` has seen one pass, so that nobody misses it:
what is known already may go on to be acted on, but this is no place to send a new leader to. A directory that was
removed and made again is taken anew, with what is in memory, where nothing can be undercut by that: it is in the same
place, nobody else has it, and nothing in it is another's or higher.

Owns this order. Called by ``app``, which opens one, and by the flow, which reads and raises it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, Protocol

import trio

from sidecar.errors import StartError
from sidecar.floor.record import FloorDamaged, FloorRecord, FloorUnavailable, StoredFloor, decode, encode
from sidecar.floor.state_dir import FILE, StateDir, read_kept
from sidecar.identity import Epoch, Generation, Identity

PATIENCE_SECONDS: Final = 1.0  # a write that hasn't ended by then, when its claim gives up, is one that can't be done

Change = Callable[[FloorRecord], FloorRecord]


class FloorKeeper(Protocol):
    """What the flow asks of a floor, wherever it is kept."""

    @property
    def current(self) -> FloorRecord | None:
        """The floor that holds now. None: it is damaged, and everything is ``floor_unavailable``."""

    @property
    def fault(self) -> str:
        """What is wrong where ``current`` is None, and what to do about it."""

    @property
    def write_fault(self) -> str:
        """Why the last write failed, in words; empty: it didn't, or one has passed since that ``reopen`` tried."""

    async def raise_generation(self, generation: Generation) -> None:
        """Have *generation* kept, so that it may be acted on; nothing changes where it is the floor already.

        Raises:
            BelowFloor: it is below the floor.
            FloorUnavailable: it can't be kept.
        """

    async def raise_epoch(self, scope: str, epoch: Epoch) -> None:
        """Have *epoch* kept for *scope*. Otherwise like ``raise_generation``."""

    async def reopen(self) -> None:
        """Look again at a floor that is damaged or couldn't be written: that may have been put right meanwhile."""

    def close(self) -> None:
        """Let go of it."""


class FloorInMemory:
    """A floor that ends with the process: for where no ``state_dir`` is configured."""

    fault = ""
    write_fault = ""

    def __init__(self) -> None:
        self.current = FloorRecord()

    async def raise_generation(self, generation: Generation) -> None:
        """Keep *generation*. Raises BelowFloor."""
        self.current = self.current.with_generation(generation)
        await trio.lowlevel.checkpoint()

    async def raise_epoch(self, scope: str, epoch: Epoch) -> None:
        """Keep *epoch*. Raises BelowFloor."""
        self.current = self.current.with_epoch(scope, epoch)
        await trio.lowlevel.checkpoint()

    async def reopen(self) -> None:
        """Nothing to do: memory isn't damaged."""
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Nothing to do."""


class FloorFile:
    """A floor in a directory that is locked for it. Made by :meth:`open`.

    While it is damaged it isn't locked: nothing is written then, and whoever resets it needs the lock.
    """

    def __init__(self, directory: StateDir, stored: StoredFloor, fault: str = "") -> None:
        self.fault = fault
        self.write_fault = ""
        self._directory = directory
        self._slot = stored.slot
        self._series = stored.series
        self._current = stored.record
        self._writer = trio.CapacityLimiter(1)

    @classmethod
    def open(cls, state_dir: Path, *, slot: Identity, series: int) -> FloorFile:
        """Lock *state_dir* and go on from the floor in it; blocks.

        Args:
            state_dir: made where only itself is missing.
            slot: whose floor it is.
            series: a larger one than before starts new floors.

        Raises:
            StartError: the directory is in use or can't be used, or the floor in it is another slot's or of a larger
                series. A damaged floor is no such error: see ``current``.
        """
        directory = StateDir.open(state_dir)
        with ExitStack() as unless_open:
            unless_open.callback(directory.close)
            floor = cls._load(directory, StoredFloor(slot, series))
            unless_open.pop_all()
        return floor

    @classmethod
    def _load(cls, directory: StateDir, fresh: StoredFloor) -> FloorFile:
        try:
            stored = read_floor(directory.path)
        except FloorUnavailable as error:
            directory.close()
            return cls(directory, fresh, fault=str(error))
        if stored is not None:
            stored.check_fits(fresh.slot, fresh.series)
        try:
            if stored is not None and stored.series == fresh.series:
                directory.sync()  # the process that wrote it may have ended before it was on disk
                return cls(directory, stored)
            directory.replace(encode(fresh))  # at once: the directory is this slot's from now on, and the series begun
        except FloorUnavailable as error:
            raise StartError(f"state_dir: {error}: give a directory that this user may write to") from error
        return cls(directory, fresh)

    async def reopen(self) -> None:
        """See :class:`FloorKeeper`."""
        if self.fault or self.write_fault:
            with suppress(RuntimeError):  # without a thread for it, the next look will do
                await trio.to_thread.run_sync(self._reopen, abandon_on_cancel=True, limiter=self._writer)
        else:
            await trio.lowlevel.checkpoint()

    def _reopen(self) -> None:
        try:
            if self.fault:
                self._open_again()
            elif self.write_fault:
                self._write_again()
        except (StartError, FloorUnavailable) as error:
            if self.fault:
                self.fault = str(error)  # somebody is resetting it, or it is another's by now
            else:
                self.write_fault = str(error)

    def _open_again(self) -> None:
        found = FloorFile.open(self._directory.path, slot=self._slot, series=self._series)
        self._directory, self._current = found._directory, found._current  # noqa: SLF001  of our own kind
        self.fault = found.fault

    def _write_again(self) -> None:
        if self._directory.is_in_place():
            self._directory.replace(self._encoded(self._current))
        else:
            self._move()
        self.write_fault = ""

    def _move(self) -> None:
        """Go on in the directory that was made in the place of the one that was removed."""
        with ExitStack() as unless_moved:
            successor = self._directory.open_successor()
            unless_moved.callback(successor.close)
            self._check_free(successor.path)
            successor.replace(self._encoded(self._current))
            unless_moved.pop_all()
        self._directory.close()
        self._directory = successor

    def _check_free(self, path: Path) -> None:
        """Raises StartError and FloorUnavailable where what is kept at *path* can't give way to what is in memory."""
        try:
            stored = read_floor(path)
        except FloorDamaged as error:
            raise FloorUnavailable(f"{path} was replaced by one with a damaged floor: `sidecar floor reset`") from error
        if stored is None:
            return
        stored.check_fits(self._slot, self._series)
        if stored.series == self._series and not self._current.covers(stored.record):
            raise FloorUnavailable(
                f"{path} was replaced by one with a higher floor: restart the sidecar, for it to go on"
            )

    @property
    def current(self) -> FloorRecord | None:
        """The floor that holds now; None where it is damaged."""
        return None if self.fault else self._current

    async def raise_generation(self, generation: Generation) -> None:
        """See :class:`FloorKeeper`."""
        await self._raise(lambda record: record.with_generation(generation))

    async def raise_epoch(self, scope: str, epoch: Epoch) -> None:
        """See :class:`FloorKeeper`."""
        await self._raise(lambda record: record.with_epoch(scope, epoch))

    def close(self) -> None:
        """Unlock the directory. While a write hangs it stays locked until the process ends."""
        if not self.fault and not self._writer.borrowed_tokens:  # else the write would go on, into others' descriptors
            self._directory.close()

    async def _raise(self, change: Change) -> None:
        if self.fault:
            raise FloorUnavailable(self.fault)
        if change(self._current) == self._current:
            await trio.lowlevel.checkpoint()
            return
        began = trio.current_time()
        try:
            await trio.to_thread.run_sync(self._change, change, abandon_on_cancel=True, limiter=self._writer)
        except RuntimeError as error:  # the process may have no more threads
            fault = f"the floor can't be written: {error}"
            self._note(fault)
            raise FloorUnavailable(fault) from error
        except trio.Cancelled:
            if trio.current_time() - began >= PATIENCE_SECONDS:
                self._note(f"{self._directory.path / FILE} can't be written: the disk doesn't answer")
            raise

    def _change(self, change: Change) -> None:
        record = change(self._current)
        if record == self._current:  # another write may have got there first
            return
        try:
            self._directory.replace(self._encoded(record))
        except FloorUnavailable as error:
            self._note(str(error))
            raise
        self._current = record

    def _note(self, fault: str) -> None:
        """Remember that a write has failed; what ``reopen`` has found out since the first one says more."""
        self.write_fault = self.write_fault or fault

    def _encoded(self, record: FloorRecord) -> bytes:
        return encode(StoredFloor(self._slot, self._series, record))


def read_floor(state_dir: Path) -> StoredFloor | None:
    """The floor in *state_dir*, locked or not; None where there is none yet; blocks.

    Raises:
        FloorDamaged: it isn't what was written; the text says what to do.
        FloorUnavailable: it can't be read.
    """
    content = read_kept(state_dir)
    try:
        return decode(content) if content is not None else None
    except FloorDamaged as error:
        raise FloorDamaged(
            f"{state_dir / FILE} {error}: every claim is refused with floor_unavailable until `sidecar floor reset`"
        ) from error
