"""Taking leave of those who were refused, so that the reason reaches them.

Closing a socket with unread input makes the kernel send an RST, which would eat the reason. So our sending ends, and
what the peer still sends is taken and thrown away, up to a limit and for a moment, until it has ended too. Thousands
may do so at once, and none of them is worth a task: one task waits for an epoll of them all.

Owns their sockets from :meth:`Parting.leave` until they are closed. Called by ``connection``.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from functools import partial
from typing import Final

import trio

from sidecar.sockets import receive_now

PARTING_SECONDS: Final = 1.0  # for the reason to reach the peer and its unread input to be taken

_CHUNK: Final = 64 * 1024
_EVENTS: Final = 256


class _Leaver:
    """One of them."""

    __slots__ = ("ends_at", "gone", "left", "sock")

    def __init__(self, sock: socket.socket, left: int, ends_at: float, gone: Callable[[], None]) -> None:
        self.sock = sock
        self.left = left  # bytes that may still be taken
        self.ends_at = ends_at
        self.gone = gone


class Parting:
    """All who are on their way out. To be made inside trio's run."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._leavers: dict[int, _Leaver] = {}  # in the order in which their time ends: all get the same
        self._somebody = trio.Event()
        self._clock = trio.lowlevel.current_clock().current_time

    def leave(self, sock: socket.socket, *, drain: int, gone: Callable[[], None]) -> Callable[[], None]:
        """Take *sock*'s input, at most *drain* bytes, until it ends or its time is over; then close it and call *gone*.

        Returns what ends that at once. Raises OSError where the kernel can't do it; the socket is the caller's then.
        """
        sock.shutdown(socket.SHUT_WR)
        fd = sock.fileno()
        self._epoll.register(fd, select.EPOLLIN)
        leaver = self._leavers[fd] = _Leaver(sock, drain, self._clock() + PARTING_SECONDS, gone)
        if not self._somebody.is_set():
            self._somebody.set()
        return partial(self._close, leaver)

    async def run(self) -> None:
        """Be where they are waited for. Runs until cancelled; who is still here is closed then."""
        try:
            while True:
                await self._wait()
                for fd, _ in self._epoll.poll(0, _EVENTS):
                    leaver = self._leavers.get(fd)
                    if leaver is not None:  # else another's end has ended it
                        self._take(leaver)
                now = trio.current_time()
                while (first := next(iter(self._leavers.values()), None)) is not None and first.ends_at <= now:
                    self._close(first)
        finally:
            for leaver in tuple(self._leavers.values()):
                self._close(leaver)
            self._epoll.close()

    async def _wait(self) -> None:
        if not self._leavers:
            self._somebody = trio.Event()
            await self._somebody.wait()
        first = next(iter(self._leavers.values()), None)
        with trio.move_on_at(first.ends_at if first is not None else trio.current_time()):
            await trio.lowlevel.wait_readable(self._epoll)

    def _take(self, leaver: _Leaver) -> None:
        data = receive_now(leaver.sock, min(_CHUNK, leaver.left))
        if data is None:
            return
        leaver.left -= len(data)
        if not data or leaver.left <= 0:
            self._close(leaver)

    def _close(self, leaver: _Leaver) -> None:
        fd = leaver.sock.fileno()
        if fd != -1:  # it wasn't closed before
            del self._leavers[fd]
            leaver.sock.close()
            leaver.gone()
