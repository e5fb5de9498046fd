"""One side of a pair, and the way of its bytes to the other side.

Theory of operation. A side that can be read is read once for each event, and what came is sent on at once. What the
other side doesn't take stays with this one: bytes, or a pipe with some in it. While there is something, this side
isn't read and the other is waited for until it takes more; that is all the back-pressure there is, and all the memory.
Small exchanges are copied through one buffer that all sides share; a side that fills it several times in a row is
spliced through a pipe, until it sends little again, and gives the pipe back. Rejected: splicing always (two calls more
for a small message), and a pipe for each pair (six descriptors, and an unprivileged user gets few).

Called by ``pair``, which owns the ends; an error of a socket is that side's reset.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from sidecar.reasons import End
from sidecar.relay.deadlines import NEVER
from sidecar.relay.owner import Owner
from sidecar.relay.pipes import Pipe, PipePool
from sidecar.relay.reactor import ERROR, HANG_UP, IN, OUT, Reactor
from sidecar.relay.streams import Session, Stream

CHUNK: Final = 64 * 1024  # larger ones gain nothing on loopback

_SPLICE_FLAGS: Final = os.SPLICE_F_MOVE | os.SPLICE_F_NONBLOCK  # the second is the pipe's; sockets have O_NONBLOCK
_FULL_READS: Final = 4  # in a row, after which a side is spliced
_SMALL_SPLICES: Final = 8  # in a row, after which it is copied again


@dataclass(frozen=True, slots=True)
class Shared:
    """What all pairs of one relay use, one at a time."""

    reactor: Reactor
    pipes: PipePool
    buffer: memoryview


class Side:
    """A connected socket that doesn't block.

    Args:
        shared: what it shares with all others.
        pair: of which it is one side.
        sock: the socket.
        session: what its bytes go through, where that isn't the socket itself.
        is_client: whether it is the controller's.
    """

    __slots__ = (
        *("_held", "_own", "_pair", "_pipe", "_piped", "_session", "_shared", "_streak", "_watching"),
        *("ended", "fd", "is_client", "other", "owes_end", "sock", "stream"),
    )

    other: Side

    def __init__(
        self, shared: Shared, pair: Owner, sock: socket.socket, session: Session | None = None, *, is_client: bool
    ) -> None:
        self._shared = shared
        self._pair = pair
        self.sock = sock
        self.stream: Stream = session or sock
        self._session = session
        self.fd = sock.fileno()
        self.is_client = is_client
        self.ended = False  # its stream
        self._held: memoryview | None = None  # what it sent, or we on its behalf, and the other hasn't taken
        self._own = 0  # of these, the first so many are ours and don't count
        self.owes_end = False  # our stream to its peer is to end, once it can be written to
        self._pipe: Pipe | None = None
        self._piped = 0  # what the pipe holds
        self._streak = 0  # full reads in a row; while there is a pipe, small splices
        self._watching = 0

    @property
    def reset(self) -> End:
        """What a pair has ended of when this side breaks."""
        return End.CLIENT_RESET if self.is_client else End.UPSTREAM_RESET

    @property
    def closed(self) -> End:
        """What a pair has ended of in which this side was the first to end its stream."""
        return End.CLIENT_CLOSED if self.is_client else End.UPSTREAM_CLOSED

    def owe(self, data: bytes, *, own: int) -> None:
        """Send *data* to the other side before anything else; its first *own* bytes are ours.

        An error shows again as soon as the side is watched, so it isn't looked at here.
        """
        if data:
            sent = 0
            with suppress(OSError):
                sent = self.other.stream.send(memoryview(data))
            self._own = own
            self._count(sent)
            if sent < len(data):
                self._held = memoryview(data)[sent:]

    def wanted(self) -> int:
        """What it is to be watched for."""
        wanted = 0 if self.ended or self.holds() else IN
        return wanted | OUT if self.other.holds() or self.owes_end else wanted

    def watch(self) -> int:
        """From now on it is watched for what is wanted: that."""
        self._watching = self.wanted()
        return self._watching

    def ready(self, mask: int) -> None:
        """The kernel says so of this side."""
        pair = self._pair
        if pair.over or (pair.fence.until != NEVER and not pair.may_move()):
            return
        if mask & ERROR:
            pair.finish(self.reset)
            return
        if mask & OUT:
            if self.other.holds():
                self.other.go_on()
            elif self.owes_end:
                self._tell_end()
        if mask & (IN | HANG_UP) and self._watching & IN and not pair.over:
            if self._pipe is None:
                self._copy()
            else:
                self._splice(self._pipe)
        if self._session is not None:
            self._read_on(self._session)

    def finish(self, end: End) -> None:
        """The reactor says so."""
        self._pair.finish(end)

    def fault(self, error: Exception) -> None:
        """The reactor says that ``ready`` raised this."""
        self._pair.finish(End.INTERNAL_ERROR, fault=error)

    def give_back_pipe(self) -> None:
        """Use none any more."""
        if self._pipe is not None:
            self._shared.pipes.give_back(self._pipe, empty=not self._piped)
            self._pipe = None
            self._piped = self._streak = 0

    def let_go(self) -> None:
        """The pair is over: keep nothing that is large until the collector comes."""
        self.give_back_pipe()
        self.stream, self._session, self._held = self.sock, None, None

    def end_stream(self) -> None:
        """End our stream to its peer, now or as soon as it can be written to. Raises OSError."""
        try:
            self.stream.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            self.owes_end = True
            self.rewatch()
        else:
            self.owes_end = False

    def _tell_end(self) -> None:
        try:
            self.end_stream()
        except OSError:
            self._pair.finish(self.reset)
        else:
            if not self.owes_end:
                self.rewatch()
                self._pair.end_was_told()

    def holds(self) -> bool:
        """Whether the other side hasn't taken everything."""
        return self._held is not None or self._piped > 0

    def _copy(self) -> None:
        """The way of most bytes: in one piece, since each call on it is paid for by every small message."""
        buffer = self._shared.buffer
        try:
            size = self.stream.recv_into(buffer)
        except BlockingIOError:
            return
        except OSError:
            self._pair.finish(self.reset)
            return
        if not size:
            self._pair.stream_ended(self.is_client)
            return
        try:
            sent = self.other.stream.send(buffer[:size])
        except BlockingIOError:
            sent = 0
        except OSError:
            self._pair.finish(self.other.reset)
            return
        self._pair.moved(self.is_client, sent)
        if sent < size:
            self._held = memoryview(bytes(buffer[sent:size]))
            self.rewatch()
            self.other.rewatch()
        elif size < CHUNK or self._session is not None or self.other._session is not None:  # noqa: SLF001  its own kind
            self._streak = 0
        else:
            self._streak += 1
            if self._streak >= _FULL_READS:
                self._pipe = self._shared.pipes.take()
                self._streak = 0

    def _read_on(self, session: Session) -> None:
        """Read what the kernel won't tell of, unless the other side has to take what it got first."""
        if self._watching & IN and session.unread and not self._pair.over:
            self._shared.reactor.call(partial(self.ready, IN))

    def _send(self, data: memoryview) -> int | None:
        """How much of it the other side has taken; None: the pair is over."""
        try:
            sent = self.other.stream.send(data)
        except BlockingIOError:
            return 0
        except OSError:
            self._pair.finish(self.other.reset)
            return None
        self._count(sent)
        return sent

    def _splice(self, pipe: Pipe) -> None:
        try:
            size = os.splice(self.fd, pipe.write, pipe.size, flags=_SPLICE_FLAGS)
        except BlockingIOError:
            return
        except OSError:
            self._pair.finish(self.reset)
            return
        if not size:
            self.give_back_pipe()
            self._pair.stream_ended(self.is_client)
            return
        self._piped = size
        self._streak = self._streak + 1 if size < CHUNK else 0
        if not self._empty(pipe):
            self._hold()
        elif self._streak >= _SMALL_SPLICES:
            self.give_back_pipe()

    def _empty(self, pipe: Pipe) -> bool:
        """Have the other side take what the pipe holds. False: not all, or the pair is over."""
        while self._piped:
            try:
                sent = os.splice(pipe.read, self.other.fd, self._piped, flags=_SPLICE_FLAGS)
            except BlockingIOError:
                return False
            except OSError:
                self._pair.finish(self.other.reset)
                return False
            self._piped -= sent
            self._count(sent)
        return True

    def go_on(self) -> None:
        """The other side takes more."""
        if self._held is not None:
            sent = self._send(self._held)
            if sent is None:
                return
            self._held = self._held[sent:] if sent < len(self._held) else None
        elif self._pipe is not None and not self._empty(self._pipe):
            return
        if not self.holds():
            self.rewatch()
            self.other.rewatch()
            if self._session is not None:
                self._read_on(self._session)

    def _hold(self) -> None:
        if not self._pair.over:
            self.rewatch()
            self.other.rewatch()

    def watch_anew(self) -> None:
        """Have it watched for what is wanted, whatever it was watched for."""
        self._shared.reactor.want(self.fd, self.watch())

    def rewatch(self) -> None:
        """Have it watched for what is wanted now."""
        before = self._watching
        if self.watch() != before:
            self._shared.reactor.want(self.fd, self._watching)

    def _count(self, sent: int) -> None:
        if self._own:
            own = min(sent, self._own)
            self._own -= own
            sent -= own
        if sent:
            self._pair.moved(self.is_client, sent)
