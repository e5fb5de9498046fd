"""The relay's door, in trio's thread.

Theory of operation. The reactor is driven by a thread of its own, so that a lone exchange doesn't wait for trio's loop,
which would double its time. But where connections come and go in a rush, trio's thread is as busy as that one, and the
two would hand the interpreter's lock to and fro ten times for each connection, which costs more than the connection. So
during a rush trio's thread drives the reactor too, and the other one rests; it is the same reactor, and at any moment
one of them drives it. Rejected: always here (half the speed of a lone exchange), always there (a fifth of the
connections a second), and admission in the other thread too (two threads that decide need locks around every decision).

Owns the thread: one worker, as long as :meth:`Relay.run`, which ends the loop and waits for it. See the package.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

import trio

from sidecar.reasons import End
from sidecar.relay.handed import Handed
from sidecar.relay.pair import Pair
from sidecar.relay.pipes import PipePool
from sidecar.relay.reactor import LAZY_SECONDS, Reactor
from sidecar.relay.side import CHUNK, Shared
from sidecar.relay.streams import Session
from sidecar.relay.terms import Clock, Outcome, Terms, boot_clock

_RUSH: Final = 64  # connections, which within so many seconds are a rush
_RUSH_SECONDS: Final = 0.125
_CALM_SECONDS: Final = 0.5  # without one, after which it is over


@dataclass(frozen=True, slots=True)
class Statistics:
    """How the thread is doing.

    Attributes:
        pipes: In use.
        lag: Seconds from a word to the thread to its being heeded, the last time.
    """

    pipes: int
    lag: float


class Pumped(Protocol):
    """What the relay has taken charge of."""

    def finish(self, end: End) -> None:
        """For the relay's own thread."""


class Relay:
    """Where admitted connections live. To be made inside trio's run.

    Args:
        pipes: for splicing, at most.
        clock: seconds.
    """

    def __init__(self, *, pipes: int, clock: Clock = boot_clock) -> None:
        token = trio.lowlevel.current_trio_token()

        def deliver(action: Callable[[], None]) -> None:
            with suppress(trio.RunFinishedError):  # then nobody waits any more
                token.run_sync_soon(action)

        self._deliver = deliver
        self._reactor = Reactor(deliver, clock)
        self._shared = Shared(self._reactor, PipePool(pipes), memoryview(bytearray(CHUNK)))
        self._lag = 0.0
        self._stopped = False
        self._arrivals, self._counted_since = 0, clock()
        self._rush = trio.Event()
        self._trio_wants = False
        self._trio_may = trio.Event()
        self._thread_may = threading.Semaphore(0)

    async def run(self) -> None:
        """Be where the thread lives. Runs until cancelled; whatever is still here is ended then, by an RST."""
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(trio.to_thread.run_sync, self._drive, limiter=trio.CapacityLimiter(1)))
                try:
                    await self._take_turns()
                finally:
                    self._stopped = True
                    self._reactor.wake()
                    self._thread_may.release()
        finally:
            self._reactor.close()
            self._shared.pipes.close()

    def arrived(self) -> None:
        """A connection has come in, whatever becomes of it."""
        self._arrivals += 1
        if self._arrivals >= _RUSH:
            now = self._reactor.clock()
            if now - self._counted_since <= _RUSH_SECONDS:
                self._rush.set()
            self._arrivals, self._counted_since = 0, now

    def _drive(self) -> None:
        """In the thread."""
        while not self._stopped:
            if self._trio_wants:
                self._deliver(self._trio_may.set)
                self._thread_may.acquire()
            else:
                self._reactor.turn(LAZY_SECONDS)

    async def _take_turns(self) -> None:
        """Drive the reactor here for as long as connections come in a rush."""
        while True:
            await self._rush.wait()
            self._trio_may, self._trio_wants = trio.Event(), True
            self._reactor.wake()
            await self._trio_may.wait()
            self._reactor.deliver = _at_once
            calm_since = self._reactor.clock()
            while self._reactor.clock() - calm_since < _CALM_SECONDS:
                if self._rush.is_set():
                    self._rush, calm_since = trio.Event(), self._reactor.clock()
                with trio.move_on_after(self._reactor.rest()):
                    await trio.lowlevel.wait_readable(self._reactor)
                self._reactor.turn(0)
            self._reactor.deliver, self._trio_wants = self._deliver, False
            self._thread_may.release()

    def pump(
        self,
        client: socket.socket,
        upstream: socket.socket,
        *,
        answer: bytes,
        header: bytes,
        to_upstream: bytes,
        terms: Terms,
        ended: Callable[[Outcome], None],
        session: Session | None = None,
    ) -> Pumped:
        """Pump until the pair ends. Both sockets, which don't block, are the relay's from now on.

        Args:
            client: the controller's connection.
            upstream: the local process's.
            answer: our own for the client; it goes first, and doesn't count.
            header: our own for the local process; it goes first, and doesn't count.
            to_upstream: bytes that came with the preface; they go next, and count.
            terms: what it is let go under.
            ended: called once, in trio's thread, when both sockets are closed.
            session: what the client's bytes go through, where that isn't its socket; the relay's alone from now on.

        Raises:
            OSError: the kernel won't watch them. They are still the caller's.
        """
        pair = Pair(self._shared, client, upstream, terms, lambda outcome: self._tell(ended, outcome), session)
        pair.begin(answer=answer, header=header, to_upstream=to_upstream)
        return pair

    def watch(
        self, client: socket.socket, *, before: int, owed: int, terms: Terms, ended: Callable[[Outcome], None]
    ) -> Pumped:
        """Watch a connection that the local process has taken over, by our duplicate of it, until it ends.

        Args:
            client: the controller's connection.
            before: bytes that had come before what counts: the preface.
            owed: bytes of ours that the local process sends first, and that don't count.
            terms: what it is let go under.
            ended: called once, in trio's thread, when our duplicate is closed.

        Raises:
            OSError: the kernel won't watch it. It is still the caller's.
        """
        told = partial(self._tell, ended)
        handed = Handed(self._reactor, client, terms, told, before=before, owed=owed)
        handed.begin()
        return handed

    def cut(self, pumped: Pumped, end: End) -> None:
        """End it now: what is held is thrown away, and its peers get an RST. The outcome follows; it may be another."""
        self._reactor.call(lambda: pumped.finish(end))

    def statistics(self) -> Statistics:
        """How the thread is doing; the lag is measured anew for the next time."""
        clock = self._reactor.clock
        said_at = clock()

        def heeded() -> None:
            self._lag = clock() - said_at

        self._reactor.call(heeded)
        return Statistics(self._shared.pipes.out, self._lag)

    def _tell(self, ended: Callable[[Outcome], None], outcome: Outcome) -> None:
        self._reactor.tell(lambda: ended(outcome))


def _at_once(action: Callable[[], None]) -> None:
    action()
