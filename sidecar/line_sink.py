"""Lines to a stream that may stall, without ever waiting for it.

Theory of operation. The log's reader may stop reading: a container runtime under load, a pager. A blocking write would
then stop trio's loop, and with it everything. O_NONBLOCK would do, but belongs to the open file, which other processes
share. So each piece is written only where the kernel says that there is room: a pipe that does takes at least PIPE_BUF
bytes at once (pipe(7)), and a line in one such piece doesn't mix with other writers' lines. Where there is no room the
line is lost, and the next one that gets through is preceded by one that says how many were. Rejected: a thread with a
queue, which loses the last lines of a crash.

Owns the stream's descriptor. Called by ``log``.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable
from contextlib import suppress
from typing import Final, TextIO

_PIECE: Final = select.PIPE_BUF


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
        self._descriptor: int | None = None
        with suppress(OSError, ValueError):  # io.UnsupportedOperation is both
            self._descriptor = stream.fileno()

    def line(self, text: str) -> None:
        """Write *text*, or count it as lost."""
        if self._lost and self._written(self._lost_line(self._lost)):
            self._lost = 0
        if self._lost or not self._written(text):
            self._lost += 1

    def _written(self, text: str) -> bool:
        with suppress(OSError, ValueError):  # a full disk, a closed pipe or stream
            if self._descriptor is None:
                self._stream.write(text + "\n")
                self._stream.flush()
                return True
            return self._write(self._descriptor, (text + "\n").encode("ascii", "backslashreplace"))
        return False

    def _write(self, descriptor: int, data: bytes) -> bool:
        room = select.poll()
        room.register(descriptor, select.POLLOUT)
        for start in range(0, len(data), _PIECE):
            ready = room.poll(0)
            if not ready or not ready[0][1] & select.POLLOUT:
                return False
            os.write(descriptor, data[start : start + _PIECE])
        return True
