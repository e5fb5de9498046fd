"""A connection that the local process has taken over: watched until it ends, and cut by our duplicate of it.

Theory of operation. Both processes hold the same socket, so nothing passes through this one; but what happens to the
socket is seen on either's descriptor: the end of the client's stream, the end of both, an RST. The kernel counts its
bytes, and those of the preface and the answer are known, so what is left is payload. Since a duplicate keeps the socket
alive, the local process shuts it down before it closes it; both streams have ended then, and the duplicate is closed
too. ``disconnect`` on the duplicate cuts: the client gets an RST and the local process an error, whatever either of
them was doing.

An RST is known by its error, unless the local process was faster and has read that; then by what is missing: it is
over, but the client has never acknowledged the end of our stream. Where the local process itself has reset it, the
kernel has forgotten its counts. That the local process has ended its stream while the client goes on is told by no
event; it is seen when the counts are looked up, which is done now and then, since others show them.

The descriptor is edge-triggered, since nobody here reads it. Owns it from :meth:`Handed.begin` to its outcome; called
by ``relay``.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from functools import partial
from typing import Final

from sidecar.reasons import End
from sidecar.relay.deadlines import Deadlines
from sidecar.relay.reactor import ERROR, HANG_UP, LAZY_SECONDS, Reactor
from sidecar.relay.terms import Outcome, Terms
from sidecar.relay.timers import Timer
from sidecar.sockets import TcpCounts, disconnect, tcp_counts

LOOK_SECONDS: Final = 5.0  # between two looks at what the kernel has counted, at most

_CLIENT_ENDED: Final = select.EPOLLRDHUP
_WATCHED: Final = _CLIENT_ENDED | select.EPOLLET


class Handed:
    """Our duplicate.

    Args:
        reactor: which watches it.
        client: the connection; it doesn't block.
        terms: what it is let go under.
        ended: called with the outcome, in the reactor's thread.
        before: bytes that had come before what counts.
        owed: bytes of ours that the local process sends first, and that don't count.
    """

    __slots__ = (
        *("_before", "_client_ended", "_deadlines", "_ended", "_first_closed", "_owed", "_reactor", "_received"),
        *("_sock", "_terms", "_timer"),
    )

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
        self._before, self._owed = before, owed
        self._terms = terms
        self._ended: Callable[[Outcome], None] | None = ended
        self._first_closed: End | None = None
        self._client_ended = False  # its stream, as an event has told
        self._received = before  # as the kernel last counted
        self._deadlines = Deadlines(terms.times, reactor.clock())
        self._timer: Timer | None = None

    def begin(self) -> None:
        """Have it watched. In the thread that has made it, and its last word. Raises OSError."""
        reactor = self._reactor
        reactor.add_one(self._sock.fileno(), self, _WATCHED)
        due = min(self._deadlines.next(), self._terms.fence.until)
        reactor.call(partial(reactor.look, self), soon=due - reactor.clock() < 2 * LAZY_SECONDS)

    def ready(self, mask: int) -> None:
        """The kernel says so."""
        if mask & (ERROR | HANG_UP):
            self._over(mask)
        elif mask & _CLIENT_ENDED:
            self._client_ended = True
            self._half_closed(End.CLIENT_CLOSED)
            self.look()

    def look(self) -> None:
        """See what has gone through, what time has done, and when to look again."""
        if self._ended is None:
            return
        now = self._reactor.clock()
        fence, deadlines = self._terms.fence, self._deadlines
        if now >= fence.until:
            self.finish(fence.end)
            return
        counts = tcp_counts(self._sock)
        if counts is None:  # then nobody knows whether it is idle
            deadlines.active_at = now
        elif not counts.over:  # else the event that says how is on its way
            self._count(counts)
            deadlines.active_at = max(deadlines.active_at, now - counts.silent)
            if counts.ended:
                self._half_closed(End.UPSTREAM_CLOSED)
        end = deadlines.passed(now)
        if end is not None:
            self.finish(end)
        else:
            self._timer = self._reactor.again(self._timer, min(deadlines.next(), fence.until, now + LOOK_SECONDS), self)

    def fault(self, error: Exception) -> None:
        """The reactor says that ``ready`` or ``look`` raised this."""
        self._end(End.INTERNAL_ERROR, fault=error)

    def finish(self, end: End) -> None:
        """Cut it. Again: no change."""
        if self._ended is not None:
            counts = tcp_counts(self._sock)  # before the cut, which makes the kernel forget them
            if counts is not None:
                self._count(counts, client_ended=self._client_ended or counts.end_acknowledged)
            self._end(end)

    def _half_closed(self, end: End) -> None:
        if self._first_closed is None:
            self._first_closed = end
            self._deadlines.half_closed_at = self._reactor.clock()

    def _over(self, mask: int) -> None:
        counts = tcp_counts(self._sock)
        if counts is not None and counts.received < self._received:
            self._end(End.UPSTREAM_RESET)
        elif mask & ERROR or (counts is not None and counts.over and not counts.end_acknowledged):
            if counts is not None:
                self._count(counts, client_ended=self._client_ended)
            self._end(End.CLIENT_RESET)
        else:
            if counts is not None:
                self._count(counts, client_ended=True, all_written=True)
                if counts.peer_ended_first:  # both ends in one look
                    self._half_closed(End.CLIENT_CLOSED)
            self._end(self._first_closed or End.UPSTREAM_CLOSED, orderly=True)

    def _end(self, end: End, *, orderly: bool = False, fault: Exception | None = None) -> None:
        if self._ended is None:
            return
        ended, self._ended = self._ended, None
        if not orderly:
            disconnect(self._sock)
        if self._timer is not None:
            self._reactor.give_up(self._timer)
        self._reactor.forget(self._sock.fileno())
        self._reactor.end(self._sock, orderly=True)  # the other process has it still: closing it says nothing
        ended(Outcome(end, fault))

    def _count(self, counts: TcpCounts, *, client_ended: bool = False, all_written: bool = False) -> None:
        """Add what has gone through since the last time."""
        self._received = max(self._received, counts.received)
        up, down = counts.received - self._before, counts.sent - self._owed
        if counts.over and client_ended:
            up -= 1  # that end
        if all_written:
            down += max(0, counts.queued - 1)  # the last one is the end of ours
        traffic, total = self._terms.traffic, self._terms.total
        more_up, more_down = max(0, up - traffic.up), max(0, down - traffic.down)
        traffic.up += more_up
        traffic.down += more_down
        total.up += more_up
        total.down += more_down
