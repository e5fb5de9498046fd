"""A disk whose calls fail, and whose power does.

Stands for ``os`` in the module that writes floors. The calls reach real files, so that a process that is killed leaves
what it would leave; beside that it keeps book of what is on disk for sure, so that the power can fail: then each name
leads to where it led at the directory's last fsync or to where it leads now, and each file has the bytes of its own
last fsync or those that were written since, whatever is worst.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

LOCK = "lock"
STEPS = ("open", "write", "write", "fsync", "rename", "fsync")  # of one replacement: writes come in two pieces
Result = TypeVar("Result")


@dataclass(eq=False)
class File:
    """An inode: what was written, and what of it is on disk for sure."""

    written: bytes = b""
    durable: bytes = b""


class Disk:
    """``os``, for one directory.

    ``calls`` are those that change something, in their order.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.calls: list[str] = []
        self._passing: int | None = None
        self._late = False
        self._names: dict[str, File] = {}
        self._durable_names: dict[str, File] = {}
        self._open: dict[int, File] = {}

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def fail(self, after: int, *, late: bool) -> None:
        """Let one call fail, after so many that pass; *late*: an fsync or a rename is done nevertheless."""
        self._passing, self._late = after, late

    def heal(self) -> None:
        """Let nothing fail any more."""
        self._passing = None

    def lose_power(self, choose: Callable[[list[object]], object]) -> None:
        """Replace the directory's files by what may be left of them; *choose* picks one of several possibilities."""
        left = {}
        for name in sorted(self._names.keys() | self._durable_names.keys()):
            file = choose([self._durable_names.get(name), self._names.get(name)])
            if isinstance(file, File):
                left[name] = File(*[choose([file.durable, file.written])] * 2)
        for path in self.directory.iterdir():
            if path.name != LOCK:
                path.unlink()
        for name, file in left.items():
            (self.directory / name).write_bytes(file.written)
        self._names, self._durable_names = left, dict(left)

    def open(self, path: str | Path, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if dir_fd is None or path == LOCK:
            return os.open(path, flags, mode, dir_fd=dir_fd)
        name = str(path)
        descriptor = self._call("open", lambda: os.open(name, flags, mode, dir_fd=dir_fd))
        file = self._names.setdefault(name, File())
        file.written = b""
        self._open[descriptor] = file
        return descriptor

    def write(self, descriptor: int, content: bytes) -> int:
        file = self._open[descriptor]

        def in_two_pieces() -> int:
            written = os.write(descriptor, content if file.written else content[: len(content) // 2])
            file.written += content[:written]
            return written

        return self._call("write", in_two_pieces)

    def fsync(self, descriptor: int) -> None:
        def sync() -> None:
            if descriptor in self._open:
                self._open[descriptor].durable = self._open[descriptor].written
            elif os.path.samestat(os.fstat(descriptor), self.directory.stat()):
                self._durable_names = dict(self._names)

        self._call("fsync", sync)

    def rename(self, source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        def move() -> None:
            os.rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
            self._names[target] = self._names.pop(source)

        self._call("rename", move)

    def close(self, descriptor: int) -> None:
        self._open.pop(descriptor, None)
        os.close(descriptor)

    def _call(self, name: str, do: Callable[[], Result]) -> Result:
        self.calls.append(name)
        if self._passing is not None:
            if not self._passing:
                self._passing = None
                if self._late and name in {"fsync", "rename"}:
                    do()
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            self._passing -= 1
        return do()
