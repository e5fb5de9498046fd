"""An admitted pair of connections: what is done for each event until it ends.

Theory of operation. Bytes go from one side to the other as ``side`` says. At an end of stream the other side's is ended
too; the pair is over when both have ended and the local process's kernel has taken everything, since what ours still
holds for it could not be cut any more.

Whatever else ends a pair is abortive: an error on either side, a deadline, a cut. What is held is thrown away and both
sides get an RST, never a FIN, so that neither can take a cut or a peer's crash for the orderly end of the data.
Rejected: closing both sides at the first end of stream (answers are lost); taking EPOLLHUP for the end (it comes while
there is still something to be read).

Owns two sockets from :meth:`Pair.begin` to its outcome. Lives in the reactor's thread; knows no claim, verdict or
metric.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from sidecar.reasons import End
from sidecar.relay.deadlines import NEVER, Deadlines
from sidecar.relay.reactor import LAZY_SECONDS
from sidecar.relay.side import Shared, Side
from sidecar.relay.streams import Session
from sidecar.relay.terms import Outcome, Terms
from sidecar.relay.timers import Timer
from sidecar.sockets import is_unix, unsent

_TAKEN_LOOK_SECONDS: Final = 0.002  # to the first look at what a finished pair has left in the kernel; then longer
_TAKEN_LOOK_MOST: Final = 0.5


def _nobody(_: Outcome) -> None:
    """Has been told already."""


class Pair:
    """Two connected sockets.

    Args:
        shared: what it shares with all others.
        client: the controller's connection. Like *upstream* it doesn't block.
        upstream: the local process's.
        terms: what it is let go under.
        ended: called with the outcome, in the reactor's thread.
        session: what the client's bytes go through, where that isn't its socket itself.
    """

    __slots__ = (
        "_client",
        "_deadlines",
        "_ended",
        "_first_closed",
        "_parting_look",
        "_queued",
        "_shared",
        "_terms",
        "_timer",
        "_upstream",
        "fence",
        "over",
    )

    def __init__(
        self,
        shared: Shared,
        client: socket.socket,
        upstream: socket.socket,
        terms: Terms,
        ended: Callable[[Outcome], None],
        session: Session | None = None,
    ) -> None:
        self._shared = shared
        self._client = Side(shared, self, client, session, is_client=True)
        self._upstream = Side(shared, self, upstream, is_client=False)
        self._client.other, self._upstream.other = self._upstream, self._client
        self._terms = terms
        self.fence = terms.fence
        self._ended = ended
        self._first_closed: End | None = None
        self._parting_look = 0.0  # seconds to the next look at what is left; 0: both sides haven't ended
        self._queued = 0
        self._timer: Timer | None = None
        self._deadlines = Deadlines(terms.times, shared.reactor.clock())
        self.over = False

    def begin(self, *, answer: bytes, header: bytes, to_upstream: bytes) -> None:
        """Send what goes first, and have both sides watched. In the thread that has made the pair, and its last word.

        Raises OSError where the kernel won't watch them; the sockets are still the caller's then.
        """
        client, upstream, reactor = self._client, self._upstream, self._shared.reactor
        now = reactor.clock()
        late = now >= self.fence.until
        if not late:
            upstream.owe(answer, own=len(answer))
            client.owe(header + to_upstream, own=len(header))
        held = client.holds() or upstream.holds()
        self._deadlines.active_at = now
        reactor.add({side.fd: (side, side.watch()) for side in (upstream, client)})
        due = self._deadlines.next()
        if late or held:
            reactor.call(self._settle)
        if due != NEVER:
            reactor.call(partial(reactor.look, self), soon=due - now < 2 * LAZY_SECONDS)

    def _settle(self) -> None:
        """Watch as the reactor does: whoever is wanted for nothing mustn't be told of the same hang-up for ever."""
        if self.may_move():
            self._client.watch_anew()
            self._upstream.watch_anew()

    def fault(self, error: Exception) -> None:
        """The reactor says that ``look`` raised this."""
        self.finish(End.INTERNAL_ERROR, fault=error)

    def finish(self, end: End, *, orderly: bool = False, fault: Exception | None = None) -> None:
        """It is over. Again: no change."""
        if self.over:
            return
        self.over = True
        reactor = self._shared.reactor
        if self._timer is not None:
            reactor.give_up(self._timer)
        for side in (self._client, self._upstream):
            side.let_go()
        reactor.end(self._client.sock, self._upstream.sock, orderly=orderly)
        self._ended(Outcome(end, fault))
        self._ended = _nobody  # pair and sides keep each other until the collector comes, and whoever is told with them

    def may_move(self) -> bool:
        """Whether bytes may move now; where not, the pair is over."""
        if self._shared.reactor.clock() >= self.fence.until:
            self.finish(self.fence.end)
        return not self.over

    def moved(self, up: bool, size: int, /) -> None:  # noqa: FBT001  the fastest way to pass it
        """*size* bytes have gone to the other side."""
        terms = self._terms
        if up:
            terms.traffic.up += size
            terms.total.up += size
        else:
            terms.traffic.down += size
            terms.total.down += size
        self._deadlines.active_at = self._shared.reactor.turned_at

    def stream_ended(self, of_client: bool, /) -> None:  # noqa: FBT001  as above
        """That side's peer has ended its stream, and everything that it sent has gone on."""
        side = self._client if of_client else self._upstream
        side.ended = True
        side.rewatch()
        if self._first_closed is not None:
            self._parting_look = _TAKEN_LOOK_SECONDS
            if side.other.stream is not side.other.sock:  # closing the socket doesn't say it
                with suppress(OSError):
                    side.other.end_stream()
            self._part()
            return
        self._first_closed = side.closed
        self._deadlines.half_closed_at = self._shared.reactor.clock()
        try:
            side.other.end_stream()
        except OSError:
            self.finish(side.other.reset)
            return
        if self._deadlines.times.half_close is not None:
            self.look()

    def end_was_told(self) -> None:
        """A side that owed its peer the end of our stream has told it."""
        if self._parting_look:
            self._part()

    def _part(self) -> None:
        assert self._first_closed is not None, "both have ended"  # noqa: S101
        upstream = self._upstream.sock
        if self._client.owes_end:
            return
        if is_unix(upstream) or not unsent(upstream):
            self.finish(self._first_closed, orderly=True)
        else:
            self.look()

    def look(self) -> None:
        """See what time has done, and when to look again."""
        if not self.may_move():
            return
        reactor = self._shared.reactor
        now = reactor.clock()
        end = self._deadlines.passed(now)
        if end is End.IDLE and self._kernel_moves():
            self._deadlines.active_at = now
            end = self._deadlines.passed(now)
        if end is not None:
            self.finish(end)
        elif self._parting_look and not self._client.owes_end and not unsent(self._upstream.sock):
            self.finish(self._first_closed or End.CLIENT_CLOSED, orderly=True)
        else:
            moment = self._deadlines.next()
            if self._parting_look:
                moment = min(moment, now + self._parting_look)
                self._parting_look = min(2 * self._parting_look, _TAKEN_LOOK_MOST)
            self._timer = reactor.again(self._timer, moment, self)

    def _kernel_moves(self) -> bool:
        """Whether what the kernel holds for the two peers has changed since the last look."""
        before, self._queued = self._queued, unsent(self._client.sock) + unsent(self._upstream.sock)
        return self._queued != before
