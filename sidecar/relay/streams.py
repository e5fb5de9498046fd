"""What the bytes of a connection go through, once its socket alone may not be it.

Owns the two interfaces; a plain socket is the one, a TLS session the other. Called by ``side``.
"""

from __future__ import annotations

from typing import Protocol


class Stream(Protocol):
    """What a side's bytes go through: a socket that doesn't block, or what behaves like one, such as a TLS session."""

    def recv_into(self, buffer: memoryview, /) -> int:
        """Take what has come, into *buffer*, which takes ``CHUNK`` bytes. 0: the end. Raises OSError."""

    def send(self, data: memoryview, /) -> int:
        """Send as much as is taken; the rest comes next, as it was. Raises OSError."""

    def shutdown(self, how: int, /) -> None:
        """End our stream (SHUT_WR). Raises OSError; BlockingIOError: once it can be written to."""


class Session(Stream, Protocol):
    """A stream that does more than its socket, so that nothing can be spliced past it."""

    @property
    def unread(self) -> bool:
        """Whether a read has something to say though the kernel has nothing."""
