"""The whole life of one connection, from top to bottom: the spine.

:meth:`Gate.serve` tells it: read the preface, decide, ask the authority, decide, dial the local process, decide again,
answer, relay; or refuse with a reason. The connection stands in the roster before it is first decided, and is decided
on the newest reading after the dial, so that no change of the assignment can slip between a decision and the moment
from which changes reach the connection.

Time. One budget runs from accept to the verdict (``timeouts.preface``), whatever the peer does with it; the dial has
its own. After the verdict nothing of either is left. A connection can be ended from outside at any moment through its
entry in the roster: before the verdict that is a refusal, after it a cut.

A refusal is orderly: the answer, the end of our sending, then what the peer still sends is taken and thrown away for a
moment, since closing a socket with unread input makes the kernel send an RST, which would eat the reason.

The boundary is here too: a fault in one connection is counted and logged with its traceback, and touches no other.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import trio

from sidecar.admission import Admitted, Peer, Reading, Rules, State, Unavailable
from sidecar.authority.source import Authority
from sidecar.config import HostPort, UnixPath
from sidecar.handshake import DRAINING_PREFACE_SECONDS, Handshake, Wait
from sidecar.journal import Journal
from sidecar.metrics import Basis, ListenerMetrics, Outcome, Stage
from sidecar.preface.answer import write_answer
from sidecar.preface.claim import TlvTypes
from sidecar.reasons import End, Probe, Reason, Refused
from sidecar.relay import CHUNK, Direction, RelayTimes, relay
from sidecar.roster import Connection, Roster, Step
from sidecar.sockets import abort, tune
from sidecar.upstream import UpstreamUnavailable, connect

REFUSAL_SECONDS: Final = 1.0  # for the reason to reach the peer and its unread input to be taken

_PREFACE_CHUNK: Final = 4096  # a preface is at most this long; more would only wait in memory


@dataclass(frozen=True, slots=True)
class Times:
    """Limits in seconds on the way to the verdict, and on a socket that has gone silent; None: never."""

    preface: float  # from accept to the verdict
    authority: float  # of these, what a complete claim waits for the authority
    connect: float
    keepalive: float | None
    user_timeout: float | None


@dataclass(frozen=True, slots=True)
class Gate:
    """What one listener's connections have in common, and their way through it."""

    rules: Rules
    tlvs: TlvTypes
    upstream: HostPort | UnixPath
    full_answer: bool
    times: Times
    relay_times: RelayTimes
    refusal_drain: int  # bytes
    authority: Authority
    roster: Roster
    state: Callable[[], State]
    metrics: ListenerMetrics
    journal: Journal

    async def serve(self, client: trio.SocketStream, connection: Connection, verdict: Refused | None = None) -> None:
        """One connection's life. Returns when it is over and its sockets are closed; raises nothing but Cancelled.

        Args:
            client: its socket.
            connection: its entry in the roster.
            verdict: given where accept has decided already, before the connection could say anything.
        """
        life = _Life(self, client, connection)
        outcome: Refused | Probe | End = verdict or Refused(Reason.INTERNAL_ERROR)
        try:
            if verdict is None:
                try:
                    outcome = await life.live()
                except* Exception as faults:  # noqa: BLE001  the boundary: a fault is this connection's alone
                    self.journal.fault(connection, faults)
                    outcome = End.INTERNAL_ERROR if connection.step is Step.ADMITTED else outcome
            await life.settle(outcome)
        except* Exception as faults:  # noqa: BLE001  what was wrong may be wrong again; it is counted already
            self.journal.fault(connection, faults)
        finally:
            abort(client)  # does nothing where it was closed in order
            self.roster.leave(connection)


class _Life:
    """The steps of one connection."""

    def __init__(self, gate: Gate, client: trio.SocketStream, connection: Connection) -> None:
        self._gate = gate
        self._client = client
        self._connection = connection
        self._handshake = Handshake(gate.rules, gate.tlvs, Peer())
        self._claimed_at: float | None = None

    async def live(self) -> Refused | Probe | End:
        """From the first byte to the last: how it came out. A refusal is still to be told to the peer."""
        outcome: Refused | Probe | End | None = None
        with self._connection.scope:
            outcome = await self._first_verdict() or await self._pass_on()
        if outcome is not None:
            return outcome
        why = self._connection.ended_by
        assert why is not None, "only end() cancels this scope"  # noqa: S101
        return why if isinstance(why, End) else Refused(why)

    async def settle(self, outcome: Refused | Probe | End) -> None:
        """Count it, log it, and take leave of the peer."""
        gate, connection = self._gate, self._connection
        last_words = b""
        if isinstance(outcome, Refused):
            gate.metrics.rejected(outcome.reason)
            self._measure(Outcome.REFUSED)
            gate.journal.refused(connection, outcome)
            last_words = self._answer(outcome)
        elif isinstance(outcome, Probe):
            gate.metrics.probe(outcome)
            gate.journal.probe(connection, outcome)
        else:
            gate.metrics.ended(outcome)
            gate.journal.ended(connection, outcome)
            return
        await self._take_leave(last_words)

    async def _first_verdict(self) -> Refused | Probe | None:
        """None: it passed, and has a place."""
        connection, times = self._connection, self._gate.times
        ends_at = connection.accepted_at + times.preface
        outcome: Refused | Probe | None = None
        with trio.CancelScope(deadline=ends_at) as budget:
            connection.budget = budget
            if self._gate.state().draining:
                budget.deadline = min(ends_at, connection.accepted_at + DRAINING_PREFACE_SECONDS)
            outcome = await self._read_preface() or await self._ask_authority()
        if budget.cancelled_caught:
            return self._handshake.out_of_time(draining=budget.deadline < ends_at)
        return outcome

    async def _read_preface(self) -> Refused | Probe | None:
        """None: there is a claim, and nothing wrong with it that shows without the authority."""
        handshake, connection = self._handshake, self._connection
        outcome: Wait | Refused | Probe = Wait.BYTES
        while outcome is Wait.BYTES:
            try:
                data = await self._client.receive_some(_PREFACE_CHUNK)
            except trio.BrokenResourceError:
                data = b""
            outcome = handshake.receive(data, self._gate.state())
        if handshake.claim is not None:
            connection.claim, connection.claimed_source = handshake.claim, handshake.claimed_source
            self._claimed_at = trio.current_time()
            self._gate.metrics.handshake_took(Stage.PREFACE, self._claimed_at - connection.accepted_at)
        return None if isinstance(outcome, Wait) else outcome

    async def _ask_authority(self) -> Refused | None:
        """None: the claim is right, and the connection has a place."""
        gate, connection = self._gate, self._connection
        connection.step = Step.AUTHORITY
        reading: Reading = Unavailable("no answer in time")
        with trio.move_on_after(gate.times.authority):
            reading = await gate.authority.read()
        verdict = self._handshake.decide(reading, gate.state())
        if isinstance(verdict, Refused):
            return verdict
        return None if gate.roster.take_place(connection) else Refused(Reason.OVER_CAPACITY)

    async def _pass_on(self) -> Refused | End:
        """Dial the local process, decide once more on the newest, and relay until the end."""
        gate, connection = self._gate, self._connection
        upstream: trio.SocketStream | None = None
        try:
            with trio.move_on_after(gate.times.connect):
                upstream = await connect(gate.upstream)
        except UpstreamUnavailable as error:
            return Refused(Reason.UPSTREAM_UNAVAILABLE, str(error))
        if upstream is None:
            return Refused(Reason.UPSTREAM_UNAVAILABLE, f"{gate.upstream}: no connection in time")
        try:
            verdict = self._handshake.decide(gate.authority.newest, gate.state())
            if isinstance(verdict, Refused):
                return verdict
            if isinstance(connection.ended_by, Reason):  # said while this task was already on its way
                return Refused(connection.ended_by)
            connection.step = Step.ADMITTED
            gate.metrics.admitted(Basis.AUTHORITY)
            self._measure(Outcome.ADMITTED)
            gate.journal.admitted(connection)
            for stream in (self._client, upstream):
                tune(stream, keepalive=gate.times.keepalive, user_timeout=gate.times.user_timeout)
            return await relay(
                self._client,
                upstream,
                to_upstream=self._handshake.payload,
                to_client=self._answer(verdict),
                times=gate.relay_times,
                traffic=connection.traffic,
                count=self._count,
            )
        finally:
            abort(upstream)  # does nothing where the relay has closed it

    async def _take_leave(self, last_words: bytes) -> None:
        """Let the peer read what we have to say before the socket goes."""
        scope = self._gate.roster.linger(self._connection)
        scope.deadline = trio.current_time() + REFUSAL_SECONDS
        with scope, suppress(trio.BrokenResourceError):
            if last_words:
                await self._client.send_all(last_words)
            await self._client.send_eof()
            left = self._gate.refusal_drain
            while left > 0 and (data := await self._client.receive_some(min(CHUNK, left))):
                left -= len(data)
        self._client.socket.close()

    def _answer(self, verdict: Admitted | Refused) -> bytes:
        answer = self._handshake.answer(verdict, self._gate.authority.newest, full=self._gate.full_answer)
        if answer is None:
            return b""
        return write_answer(answer, dialler=self._connection.peer, sidecar=self._connection.local)

    def _measure(self, outcome: Outcome) -> None:
        if self._claimed_at is not None:
            self._gate.metrics.admission_took(outcome, trio.current_time() - self._claimed_at)

    def _count(self, direction: Direction, size: int) -> None:
        metrics = self._gate.metrics
        (metrics.forwarded_up if direction is Direction.UP else metrics.forwarded_down).inc(size)
