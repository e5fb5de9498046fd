"""Pipes for splicing: few, large, and used again.

A pair that moves much takes one for each busy direction and gives it back when it moves little. The kernel lets a user
without privileges have 64 MiB of pipes in all (pipe(7), ``pipe-user-pages-soft``) and then hands out tiny ones, which
are slower than copying; so the number is bounded, and one that turns out small is not used. Who gets none copies.

Owns the descriptors of pipes that nobody uses. Called by ``pair``, from the relay's thread alone.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

PIPE_SIZE: Final = 1 << 20

_SMALLEST_USEFUL: Final = 64 * 1024
_MOST_SPARE: Final = 8


@dataclass(frozen=True, slots=True)
class Pipe:
    """An empty pipe's two ends, and how much it holds."""

    read: int
    write: int
    size: int

    def close(self) -> None:
        """Throw away what it holds."""
        os.close(self.read)
        os.close(self.write)


class PipePool:
    """At most *most* pipes at a time. ``out`` are in use."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.out = 0
        self._spare: list[Pipe] = []

    def take(self) -> Pipe | None:
        """A pipe; None: there is none to be had, or none worth having."""
        if self._spare:
            self.out += 1
            return self._spare.pop()
        if self.out >= self._most:
            return None
        pipe = _make()
        self.out += pipe is not None
        return pipe

    def give_back(self, pipe: Pipe, *, empty: bool) -> None:
        """It is used no more. One that isn't empty is closed: its bytes are somebody's."""
        self.out -= 1
        if empty and len(self._spare) < _MOST_SPARE:
            self._spare.append(pipe)
        else:
            pipe.close()

    def close(self) -> None:
        """Close those that nobody uses."""
        while self._spare:
            self._spare.pop().close()


def _make() -> Pipe | None:
    try:
        read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:  # out of descriptors, or of memory for pipes
        return None
    with suppress(OSError):  # then it stays as it is
        fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
    pipe = Pipe(read, write, fcntl.fcntl(write, fcntl.F_GETPIPE_SZ))
    if pipe.size >= _SMALLEST_USEFUL:
        return pipe
    pipe.close()
    return None
