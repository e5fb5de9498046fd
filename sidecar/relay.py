"""Pumping an admitted pair of connections until they end.

Theory of operation. One task a direction: read, write, and at an end of stream pass it on as a half-close and stop.
Back-pressure needs nothing of its own: a direction that can't write doesn't read. The pair ends when both directions
have; a pair of which one has ended gets ``half_close`` seconds for the other. Whatever else ends it is *abortive*: an
error on either side, a deadline of ours, or a cancellation from outside (a cut) throws away what is held and gives
both sides an RST, never a FIN, so that neither can take a cut, or a peer's crash, for the orderly end of the data.
Rejected: closing both sides at the first end of stream (answers are lost) and waiting for ever for the second (a
half-open pair is never collected).

An RST shows when a side is read or written. A side that isn't, because the other one doesn't take what it sent, or
because it has ended its stream and the other one is silent, is looked at once a second.

Owns two connected sockets from the call until the end, and the counts of what went through them. Knows nothing of
claims, verdicts or metrics; called by ``connection``.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import trio

from sidecar.errors import SidecarError
from sidecar.reasons import End
from sidecar.sockets import abort, is_reset, unsent

CHUNK: Final = 64 * 1024  # larger ones gain nothing on loopback and cost memory a connection
LIFETIME_JITTER: Final = 0.1  # of the configured lifetime, at most

_TAKEN_CHECK_SECONDS: Final = 0.002  # to the first look at what a finished pair has left in the kernel

_RESET_CHECK_SECONDS: Final = 1.0  # between two looks at a side that nothing is being read from


class Direction(StrEnum):
    """Which way bytes go: ``up`` is from the controller to the local process."""

    UP = "up"
    DOWN = "down"


@dataclass(frozen=True, slots=True)
class RelayTimes:
    """Limits in seconds on an admitted pair; None: never."""

    half_close: float | None
    idle: float | None
    lifetime: float | None


@dataclass(slots=True)
class Traffic:
    """What has gone through a pair so far, live: a status page reads it, and it stays right when the pair is cut."""

    up: int = 0
    down: int = 0


class _Reset(SidecarError):
    """One side's connection broke."""

    def __init__(self, end: End) -> None:
        super().__init__(end)
        self.end = end


async def relay(
    client: trio.SocketStream,
    upstream: trio.SocketStream,
    *,
    header: bytes,
    to_upstream: bytes,
    answer: bytes,
    times: RelayTimes,
    traffic: Traffic,
    count: Callable[[Direction, int], None],
) -> End:
    """Pump until the pair ends, and say why it did. Both sockets are closed on every way out.

    Args:
        client: the controller's connection.
        upstream: the local process's.
        header: the sidecar's own for the local process; it goes first, and doesn't count.
        to_upstream: bytes that came with the preface; they go next, and count.
        answer: the sidecar's own for the client; it goes first, and doesn't count.
        times: deadlines of the pair.
        traffic: what went through, kept up to date.
        count: told of every chunk after it was written.
    """
    client_side = _Side(client, reset=End.CLIENT_RESET, closed=End.CLIENT_CLOSED)
    upstream_side = _Side(upstream, reset=End.UPSTREAM_RESET, closed=End.UPSTREAM_CLOSED)
    pair = _Pair(client_side, upstream_side, times, traffic, count)
    orderly = False
    try:
        if answer:
            await client_side.send(answer, upstream_side, pair.moved)
        if header:
            await upstream_side.send(header, client_side, pair.moved)
        end = await pair.run(to_upstream)
        orderly = end in {End.CLIENT_CLOSED, End.UPSTREAM_CLOSED}
    except _Reset as reset:
        end = reset.end
    finally:
        for stream in (client, upstream):
            if orderly:
                stream.socket.close()
            else:
                abort(stream)
    return end


@dataclass(frozen=True, slots=True)
class _Side:
    """One of the two connections, and what its ends are called. Every error of its socket is its reset."""

    stream: trio.SocketStream
    reset: End
    closed: End

    async def receive(self) -> bytes:
        """What has come; empty at the end of the stream. Raises _Reset."""
        try:
            return await self.stream.socket.recv(CHUNK)
        except OSError as error:
            raise _Reset(self.reset) from error

    async def send(self, data: bytes, source: _Side, moved: Callable[[], None]) -> None:
        """Send all of *data*, which came from *source*. Raises _Reset, also where *source* breaks off meanwhile.

        *moved* is called whenever some of it has gone.
        """
        sent = 0
        with memoryview(data) as whole:
            while sent < len(whole):
                with trio.move_on_after(_RESET_CHECK_SECONDS) as patience:
                    try:
                        sent += await self.stream.socket.send(whole[sent:])
                    except OSError as error:
                        raise _Reset(self.reset) from error
                    moved()
                if patience.cancelled_caught:
                    source.check()

    def send_eof(self) -> None:
        """End the stream in this direction. Raises _Reset."""
        try:
            self.stream.socket.shutdown(trio.socket.SHUT_WR)
        except OSError as error:
            raise _Reset(self.reset) from error

    def check(self) -> None:
        """Raises _Reset where the peer has gone."""
        if is_reset(self.stream):
            raise _Reset(self.reset)


class _Pair:
    """Two directions, the deadlines over both, and which of all these came first."""

    def __init__(
        self,
        client: _Side,
        upstream: _Side,
        times: RelayTimes,
        traffic: Traffic,
        count: Callable[[Direction, int], None],
    ) -> None:
        self._client = client
        self._upstream = upstream
        self._times = times
        self._traffic = traffic
        self._count = count
        self._scope = trio.CancelScope()
        self._first_closed: End | None = None
        self._end: End | None = None
        now = trio.current_time()
        self._active_at = now
        self._half_closed_at: float | None = None
        self._dies_at: float | None = None
        if times.lifetime is not None:  # shortened at random, so that connections made together don't end together
            jitter = random.uniform(1 - LIFETIME_JITTER, 1)  # noqa: S311  spreads load, guards nothing
            self._dies_at = now + times.lifetime * jitter

    async def run(self, to_upstream: bytes) -> End:
        self._set_deadline()
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._pump, Direction.DOWN, self._upstream, self._client, b"")
                nursery.start_soon(self._pump, Direction.UP, self._client, self._upstream, to_upstream)
                if self._times.idle is not None:
                    nursery.start_soon(self._watch_idle, self._times.idle)
        return self._end if self._end is not None else self._deadline()[1]

    async def _pump(self, direction: Direction, source: _Side, sink: _Side, data: bytes) -> None:
        try:
            data = data or await source.receive()
            while data:
                await sink.send(data, source, self.moved)
                self._sent(direction, len(data))
                data = await source.receive()
            sink.send_eof()
            if self._first_closed is None:
                self._first_closed = source.closed
                self._half_closed_at = trio.current_time()
                self._set_deadline()
                await self._watch(source)
            else:
                await self._wait_taken()
            self._finish(self._first_closed)
        except _Reset as reset:
            self._finish(reset.end)

    async def _wait_taken(self) -> None:
        """Wait until the upstream's kernel has taken everything: what ours still holds could not be cut any more."""
        pause = _TAKEN_CHECK_SECONDS
        while self._upstream.stream.socket.family != trio.socket.AF_UNIX and unsent(self._upstream.stream):
            self._upstream.check()
            await trio.sleep(pause)
            pause = min(2 * pause, _RESET_CHECK_SECONDS)

    async def _watch(self, side: _Side) -> None:
        """Look at a side that has ended its stream, and so is read no more, until the other direction has ended too."""
        while True:
            await trio.sleep(_RESET_CHECK_SECONDS)
            side.check()

    def _finish(self, end: End) -> None:
        if self._end is None:
            self._end = end
        self._scope.cancel()

    def moved(self) -> None:
        """Some bytes have gone somewhere: the pair isn't idle."""
        if self._times.idle is not None:
            self._active_at = trio.current_time()

    async def _watch_idle(self, idle: float) -> None:
        """End the pair once nothing has moved for *idle* seconds, in the kernel's buffers neither."""
        queued = 0
        while True:
            await trio.sleep_until(self._active_at + idle)
            still_queued = unsent(self._client.stream) + unsent(self._upstream.stream)
            if still_queued != queued:
                queued = still_queued
                self.moved()
            elif trio.current_time() >= self._active_at + idle:
                self._finish(End.IDLE)

    def _sent(self, direction: Direction, size: int) -> None:
        if direction is Direction.UP:
            self._traffic.up += size
        else:
            self._traffic.down += size
        self._count(direction, size)

    def _deadline(self) -> tuple[float, End]:
        """When the pair runs out of time as things stand, and of which."""
        deadlines = []
        if self._half_closed_at is not None and self._times.half_close is not None:
            deadlines.append((self._half_closed_at + self._times.half_close, End.HALF_CLOSE))
        if self._dies_at is not None:
            deadlines.append((self._dies_at, End.LIFETIME))
        return min(deadlines, default=(float("inf"), End.LIFETIME))

    def _set_deadline(self) -> None:
        self._scope.deadline = self._deadline()[0]
