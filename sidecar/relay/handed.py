"""A connection that the local process has taken over: watched until it ends, and cut by our duplicate of it.

Theory of operation. Both processes hold the same socket, so nothing passes through this one; but what happens to the
socket is seen on either's descriptor: the end of the client's stream, the end of both, an RST. The kernel counts its
bytes. Since a duplicate keeps the socket alive, the local process shuts it down before it closes it; both streams have
ended then, and the duplicate is closed too. ``disconnect`` on the duplicate cuts: the client gets an RST and the local
process an error, whatever either of them was doing.

The descriptor is edge-triggered, since nobody here reads it. Owns it from :meth:`Handed.begin` to its outcome; called
by ``relay``.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from sidecar.reasons import End
from sidecar.relay.deadlines import NEVER, Deadlines
from sidecar.relay.reactor import ERROR, HANG_UP, LAZY_SECONDS, Reactor
from sidecar.relay.terms import Outcome, Terms
from sidecar.relay.timers import Timer
from sidecar.sockets import TcpCounts, disconnect, peer_ended_first, tcp_counts

_CLIENT_ENDED: Final = select.EPOLLRDHUP
_WATCHED: Final = _CLIENT_ENDED | select.EPOLLET


class Handed:
    """Our duplicate.

    Args:
        reactor: which watches it.
        client: the connection; it doesn't block.
        terms: what it is let go under.
        before: bytes that had come before what counts.
        owed: bytes of ours that the local process sends first, and that don't count.
        ended: called with the outcome, in the reactor's thread.
    """

    __slots__ = ("_deadlines", "_ended", "_first_closed", "_reactor", "_seen", "_sock", "_terms", "_timer")

    def __init__(
        self,
        reactor: Reactor,
        client: socket.socket,
        terms: Terms,
        ended: Callable[[Outcome], None],
        *,
        before: int,
        owed: int,
    ) -> None:
        self._reactor = reactor
        self._sock = client
        self._terms = terms
        self._ended: Callable[[Outcome], None] | None = ended
        self._first_closed: End | None = None
        self._seen = TcpCounts(before, owed, 0.0)  # what doesn't count, or has been counted already
        self._deadlines = Deadlines(terms.times, reactor.clock())
        self._timer: Timer | None = None

    def begin(self) -> None:
        """Have it watched. In the thread that has made it, and its last word. Raises OSError."""
        self._reactor.add_one(self._sock.fileno(), self, _WATCHED)
        if self._deadlines.next() != NEVER or self._terms.fence.until != NEVER:
            due = min(self._deadlines.next(), self._terms.fence.until)
            self._reactor.call(self._look, soon=due - self._reactor.clock() < 2 * LAZY_SECONDS)

    def ready(self, mask: int) -> None:
        """The kernel says so."""
        if mask & ERROR:
            self.finish(End.UPSTREAM_RESET if self._was_disconnected() else End.CLIENT_RESET)
        elif mask & HANG_UP:
            if self._first_closed is None:  # both ends in one look
                self._first_closed = End.CLIENT_CLOSED if peer_ended_first(self._sock) else End.UPSTREAM_CLOSED
            self._end(self._first_closed, orderly=True)
        elif mask & _CLIENT_ENDED and self._first_closed is None:
            self._first_closed = End.CLIENT_CLOSED
            self._deadlines.half_closed_at = self._reactor.clock()
            self._look()

    def fault(self, error: Exception) -> None:
        """The reactor says that ``ready`` raised this."""
        self._end(End.INTERNAL_ERROR, fault=error)

    def finish(self, end: End) -> None:
        """Cut it. Again: no change."""
        self._end(end)

    def _end(self, end: End, *, orderly: bool = False, fault: Exception | None = None) -> None:
        if self._ended is None:
            return
        ended, self._ended = self._ended, None
        self._count()
        if not orderly:
            disconnect(self._sock)
        if self._timer is not None:
            self._reactor.give_up(self._timer)
        self._reactor.end(self._sock, orderly=True)  # the other process has it still: closing it says nothing
        ended(Outcome(end, fault))

    def _look(self) -> None:
        """See what time has done, and when to look again."""
        if self._ended is None:
            return
        now = self._reactor.clock()
        fence = self._terms.fence
        if now >= fence.until:
            self.finish(fence.end)
            return
        counts = self._count()
        if counts is not None:
            self._deadlines.active_at = max(self._deadlines.active_at, now - counts.silent)
        end = self._deadlines.passed(now)
        if end is not None:
            self.finish(end)
        else:
            self._timer = self._reactor.again(self._timer, min(self._deadlines.next(), fence.until), self._look)

    def _was_disconnected(self) -> bool:
        """Whether the local process has reset it: a socket that is disconnected forgets what it has counted."""
        counts = tcp_counts(self._sock)
        return counts is not None and counts.received < self._seen.received

    def _count(self) -> TcpCounts | None:
        """Add what has gone through since the last look; None: the kernel counts nothing here.

        A socket that was disconnected has forgotten what it counted.
        """
        counts = tcp_counts(self._sock)
        if counts is not None and counts.received >= self._seen.received:
            up = counts.received - self._seen.received
            down = max(0, counts.acknowledged - self._seen.acknowledged)
            for traffic in (self._terms.traffic, self._terms.total):
                traffic.up += up
                traffic.down += down
            self._seen = replace(counts, acknowledged=max(counts.acknowledged, self._seen.acknowledged))
        return counts
