"""A directory that belongs to one process, and the one file that it keeps there.

Owns the system calls: the lock, which the kernel releases whatever becomes of the process, and the replacement of the
file, after which either the old or the new content is there, whole, whenever the power fails. Knows nothing of what the
content means. All of it blocks; called by ``keeper`` and by the ``floor`` command.
"""

from __future__ import annotations

import fcntl
import itertools
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

from sidecar.errors import StartError
from sidecar.floor.record import FloorUnavailable

FILE: Final = "floor.json"
MAX_BYTES: Final = 1024 * 1024

_NEW: Final = "floor.json.new"
_LOCK: Final = "lock"


def read_kept(directory: Path) -> bytes | None:
    """The file's content; None where there is no file. Needs no lock. Raises FloorUnavailable."""
    with _translated(directory / FILE, "read"):
        try:
            with (directory / FILE).open("rb") as file:
                return file.read(MAX_BYTES)
        except FileNotFoundError:
            return None


class StateDir:
    """A directory that this process has locked. To be closed."""

    def __init__(self, path: Path, directory: int, lock: int) -> None:
        self.path = path
        self._directory = directory
        self._lock = lock

    @classmethod
    def open(cls, path: Path) -> StateDir:
        """Lock *path*; the directory is made where only itself is missing.

        Raises:
            StartError: another process has it, or it can't be used.
        """
        with ExitStack() as unless_locked:
            try:
                _make(path)
                directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
                unless_locked.callback(os.close, directory)
                lock = os.open(_LOCK, os.O_RDWR | os.O_CREAT, 0o600, dir_fd=directory)
                unless_locked.callback(os.close, lock)
                _take(lock, path)
            except OSError as error:
                raise StartError(
                    f"state_dir: {path} can't be used: {error.strerror}: give a directory that this user may write to"
                ) from error
            unless_locked.pop_all()
        return cls(path, directory, lock)

    def is_in_place(self) -> bool:
        """Whether it is still what its path leads to. Raises FloorUnavailable: nothing stands there."""
        with _translated(self.path, "found"):
            try:
                return os.path.samestat(os.fstat(self._directory), self.path.stat())
            except FileNotFoundError as error:
                raise FloorUnavailable(f"{self.path} is gone: make it again, or mount it") from error

    def mount(self) -> str:
        """Which mount it is seen through, as the kernel numbers them (proc(5), "fdinfo"). Raises FloorUnavailable."""
        with _translated(self.path, "placed"):
            lines = Path(f"/proc/self/fdinfo/{self._directory}").read_text().splitlines()
        return next(line for line in lines if line.startswith("mnt_id:"))

    def open_successor(self) -> StateDir:
        """Lock the directory that its path leads to by now: it was removed, and made again.

        Raises:
            FloorUnavailable: it is no such directory, but one from elsewhere that was mounted or uncovered there.
            StartError: another process has it, or it can't be used.
        """
        successor = StateDir.open(self.path)
        if successor.mount() != self.mount():
            successor.close()
            raise FloorUnavailable(
                f"{self.path} is on another volume than when this sidecar started: mount the right one and restart the "
                "sidecar"
            )
        return successor

    def replace(self, content: bytes) -> None:
        """Put *content* in the file's place: on disk once this returns. Raises FloorUnavailable: maybe there, then."""
        with _translated(self.path / FILE, "written"):
            self._write_new(content)
            os.rename(_NEW, FILE, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        self.sync()
        if read_kept(self.path) != content:  # by its path, as the next start will
            raise FloorUnavailable(
                f"{self.path / FILE} reads back other than it was written: something else changes it"
            )

    def sync(self) -> None:
        """Have it on disk that the file is the one that is found now. Raises FloorUnavailable."""
        with _translated(self.path / FILE, "written"):
            os.fsync(self._directory)

    def set_aside(self) -> Path:
        """Rename the file, so that there is none any more; its new path. Raises FloorUnavailable."""
        candidates = (self.path / f"{FILE}.damaged-{number}" for number in itertools.count(1))
        aside = next(path for path in candidates if not os.path.lexists(path))
        with _translated(self.path / FILE, "renamed"):
            os.rename(FILE, aside.name, src_dir_fd=self._directory, dst_dir_fd=self._directory)
        self.sync()
        return aside

    def close(self) -> None:
        """Let another process have it."""
        os.close(self._lock)
        os.close(self._directory)
        self._lock = self._directory = -1  # the kernel soon gives these numbers to somebody else

    def _write_new(self, content: bytes) -> None:
        new = os.open(_NEW, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600, dir_fd=self._directory)
        try:
            while content:
                content = content[os.write(new, content) :]
            os.fsync(new)
        finally:
            os.close(new)


def _make(path: Path) -> None:
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return
    except FileNotFoundError as error:
        raise StartError(f"state_dir: {path.parent} doesn't exist: make it, or mount a volume there") from error
    parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(parent)  # or the floors in it are lost with it when the power fails
    finally:
        os.close(parent)


def _take(lock: int, path: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(lock, 20, 0).decode("ascii", "replace").strip() or "unknown"
        raise StartError(
            f"state_dir: {path} is in use by another process (pid {holder}): stop it, or give each sidecar "
            "a state_dir of its own"
        ) from error
    with suppress(OSError):  # the disk may be full; whom to name is a courtesy
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)


@contextmanager
def _translated(path: Path, done: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FloorUnavailable(f"{path} can't be {done}: {error.strerror}") from error
