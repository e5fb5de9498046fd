"""Lines to a stream that may stall, without ever waiting for it.

Theory of operation. The log's reader may stop reading: a container runtime under load, a pager, a terminal that was
stopped. A blocking write would then stop trio's loop, and with it everything. O_NONBLOCK on the descriptor that we were
given would do, but it belongs to the open file, which other processes share; so a pipe or terminal is opened once more,
for us alone. A regular file never stalls. Where neither holds (a socket), a piece is written only where the kernel says
that there is room: a system call more, which the others are spared. A line that finds no room is lost, and the next one
that gets through is preceded by one that says how many were; one that was cut off in the middle is ended first.
Rejected: a thread with a queue, which loses the last lines of a crash.

Owns the stream's descriptor. Called by ``log``.
"""

from __future__ import annotations

import os
import select
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TextIO

_PIECE: Final = select.PIPE_BUF  # what a pipe takes whole or not at all (pipe(7))


class LineSink:
    """Takes finished lines and never raises: a log line is worth no connection.

    Args:
        stream: where to; one without a descriptor of its own is simply written to.
        lost: the line that says how many were lost.
    """

    def __init__(self, stream: TextIO, *, lost: Callable[[int], str]) -> None:
        self._stream = stream
        self._lost_line = lost
        self._lost = 0
        self._cut_off = False  # in the middle of a line
        self._descriptor: int | None = None
        self._room: select.poll | None = None  # whom to ask before each write
        with suppress(OSError, ValueError):  # io.UnsupportedOperation is both
            self._descriptor, stalls = _for_us_alone(stream.fileno())
            if stalls:
                self._room = select.poll()
                self._room.register(self._descriptor, select.POLLOUT)

    def line(self, text: str) -> None:
        """Write *text*, or count it as lost."""
        if self._lost and self._written(self._lost_line(self._lost)):
            self._lost = 0
        if self._lost or not self._written(text):
            self._lost += 1

    def _written(self, text: str) -> bool:
        try:
            if self._descriptor is None:
                self._stream.write(text + "\n")
                self._stream.flush()
                return True
            return self._write(self._descriptor, (text + "\n").encode("ascii", "backslashreplace"))
        except (OSError, ValueError):  # a full disk, a closed pipe or stream
            return False

    def _write(self, descriptor: int, line: bytes) -> bool:
        data = b"\n" + line if self._cut_off else line
        written = 0
        try:
            while written < len(data) and self._has_room():
                written += os.write(descriptor, data[written : written + _PIECE])
        except BlockingIOError:
            pass
        if written:
            self._cut_off = written < len(data)
        return written == len(data)

    def _has_room(self) -> bool:
        if self._room is None:
            return True
        ready = self._room.poll(0)
        return bool(ready) and bool(ready[0][1] & select.POLLOUT)


def _for_us_alone(descriptor: int) -> tuple[int, bool]:
    """The same pipe or terminal, opened anew and not waited for, or any other kind of file as it is; whether it stalls.

    A regular file never does, and one that is opened anew would be written from its beginning.
    """
    kind = os.fstat(descriptor).st_mode
    if not (stat.S_ISFIFO(kind) or os.isatty(descriptor)):
        return descriptor, not stat.S_ISREG(kind)
    try:
        alone = os.open(f"/proc/self/fd/{descriptor}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:  # without /proc, or without the right to: then with the kernel's word alone
        return descriptor, True
    return alone, False
