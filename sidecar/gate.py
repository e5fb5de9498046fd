"""What a listener's connections have in common, and what the steps of one of them share.

Owns the two records that the flow's modules pass on: a :class:`Gate` for each listener, and a :class:`Visit` for each
connection on its way through it. The steps themselves are elsewhere: ``connection`` is the spine, ``arrival`` leads to
the first verdict, ``passage`` from there to the local process.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import trio

from sidecar.admission import Admitted, Peer, Requirement, Rules, State
from sidecar.assignment import Assignment
from sidecar.authority.source import Authority
from sidecar.config import Handoff, HostPort, Network, UnixPath
from sidecar.eager import borrow_task
from sidecar.epoch_floor import EpochFloor
from sidecar.errors import SidecarError
from sidecar.exclusive import Exclusive
from sidecar.handshake import UNPROVEN, Desk, Handshake, shadow_lets_through
from sidecar.identity import ControllerName, Epoch
from sidecar.journal import Journal
from sidecar.lifeline import Lifeline
from sidecar.metrics import Basis, ListenerMetrics, Outcome
from sidecar.parting import Parting
from sidecar.preface.answer import write_answer
from sidecar.presented import Presented
from sidecar.proof import Prover
from sidecar.reasons import End, Reason, Refused, TlsFailure
from sidecar.relay import Fence, Relay, RelayTimes, Terms, Traffic
from sidecar.roster import Connection, Roster, Step
from sidecar.sockets import Socket
from sidecar.tls.session import Session


@dataclass(frozen=True, slots=True)
class Times:
    """Limits in seconds on the way to the verdict, and on a socket that has gone silent; None: never."""

    preface: float  # from accept to the verdict
    authority: float  # of these, what a complete claim waits for the authority
    connect: float
    ahead: float = 0.0  # how long a claim ahead of the authority waits for it to catch up
    shadow: float = 0.0  # silence after which the shadow mode takes a client for one without preface
    reject_delay: float = 0.0  # between a refusal and its being told
    keepalive: float | None = None
    user_timeout: float | None = None


@dataclass(frozen=True, slots=True)
class Gate:
    """What one listener's connections have in common.

    Attributes:
        desk: Its rules.
        clock: trio's, straight: every connection looks at it several times.
        full_answer: Tell also peers that haven't proven who they are what this side is.
        shadow: Count wrong claims instead of refusing them.
        shadow_now: The same as the configuration has it by now, for connections that came through this gate earlier.
        send_proxy: Tell the local process who dials, by a header of our own.
        refusal_drain: Bytes of unread input that are taken after a refusal.
        exclusive: The listener's one place, where it has but one.
        now: What holds at this moment, but for the exclusive place.
        epoch_floor: What a dialler's epoch raises; None: it raises nothing here.
        relay: Where the admitted live.
        fence: Up to when their bytes may move.
        total: What went through all of them.
        lifeline: The way to a local process that takes connections over; None: it is dialled.
        parting: Where leave is taken of the refused.
        outer_sources: Who may connect by the header that a load balancer sends first; None: none does.
        prover: What a peer proves by TLS; None: plain connections, which prove nothing.
    """

    desk: Desk
    clock: Callable[[], float]
    upstream: HostPort | UnixPath | Handoff
    full_answer: bool
    shadow: bool
    shadow_now: Callable[[], bool]
    send_proxy: bool
    times: Times
    relay_times: RelayTimes
    refusal_drain: int
    authority: Authority
    roster: Roster
    exclusive: Exclusive | None
    now: Callable[[], State]
    epoch_floor: EpochFloor | None
    relay: Relay
    fence: Fence
    total: Traffic
    lifeline: Lifeline | None
    parting: Parting
    metrics: ListenerMetrics
    journal: Journal
    prover: Prover | None = None
    outer_sources: Sequence[Network] | None = None

    @property
    def rules(self) -> Rules:
        """What the configuration fixes for the listener."""
        return self.desk.rules

    def state(self) -> State:
        """What holds at this moment, as the decision sees it."""
        state = self.now()
        return replace(state, holder=self.exclusive.state()) if self.exclusive is not None else state


Result = TypeVar("Result")


class Interrupted(SidecarError):
    """The connection was ended from outside while it waited; its entry in the roster says why."""


@dataclass(slots=True)
class Visit:
    """One connection on its way through a gate.

    Attributes:
        gate: The listener's.
        client: The connection's socket.
        connection: Its entry in the roster.
        handshake: What it has said so far, and what that amounts to.
        ends_at: When the budget up to the verdict is over.
        basis: What its admission rests on.
        claimed_at: When its claim was complete, on trio's clock.
        shadow_cut: Whether a cut of it was counted already.
        meanwhile: The verdict that stands while it waits for the authority to catch up with its claim.
        peer_ended: Whether its peer's stream has ended, so that nothing more will come.
        began_at: When its peer could begin to send its preface, on trio's clock.
        stream: What its bytes go through: the socket, or TLS on it.
        outer_length: Bytes of a load balancer's header, where there was one.
        session: That TLS, once its handshake is done.
        presented: What its peer has shown there.
    """

    gate: Gate
    client: Socket
    connection: Connection
    handshake: Handshake = field(init=False)
    ends_at: float = field(init=False)
    basis: Basis = Basis.AUTHORITY
    claimed_at: float | None = None
    shadow_cut: bool = False
    meanwhile: Refused | None = None
    peer_ended: bool = False
    began_at: float = field(init=False)
    stream: Socket | Session = field(init=False)
    outer_length: int = 0
    session: Session | None = None
    presented: Presented | None = None

    def __post_init__(self) -> None:
        gate, connection = self.gate, self.connection
        self.handshake = Handshake(gate.desk, UNPROVEN)
        self.stream = self.client
        self.began_at = connection.accepted_at
        self.ends_at = connection.deadline = connection.accepted_at + gate.times.preface

    def prove(self, session: Session, presented: Presented, peer: Peer) -> None:
        """Its TLS handshake is done, and this is what it proves."""
        self.stream = self.session = session
        self.presented = presented
        self.handshake = Handshake(self.gate.desk, peer)
        self.began_at = self.gate.clock()

    def tls_failed(self, cause: TlsFailure, why: str) -> Refused:
        """Its TLS, or what it proved by it, doesn't count: the verdict. *why*: for people, in the log."""
        self.gate.metrics.tls_failed(cause)
        self.connection.tls_fault = why
        return Refused(Reason.TLS_FAILED, cause)

    def terms(self) -> Terms:
        """What it is let go under from now on."""
        gate = self.gate
        self.connection.traffic = traffic = Traffic()
        return Terms(gate.relay_times, gate.fence, traffic, gate.total)

    async def wait(self, what: Callable[..., Awaitable[Result]], *args: object, until: float) -> Result:
        """What ``what(*args)`` brings, in a borrowed task.

        Every wait on the way to the verdict is this one: here it ends by the clock, and from outside.

        Raises:
            TooSlowError: it wasn't there by *until*, on trio's clock.
            Interrupted: somebody has ended the connection.
        """
        connection = self.connection
        self.gate.roster.wait(connection)  # now, in the order in which they came: tasks begin in any
        await borrow_task()
        if connection.ended_by is not None and connection.step is not Step.LEAVING:
            raise Interrupted
        with trio.CancelScope(deadline=until) as scope:
            connection.waits_in, connection.interrupt = scope, scope.cancel
            try:
                return await what(*args)
            finally:
                connection.waits_in = connection.interrupt = None
        if trio.current_time() < scope.deadline:
            raise Interrupted
        raise trio.TooSlowError

    @property
    def assignment(self) -> Assignment:
        """This side's, as far as it is known."""
        newest = self.gate.authority.newest
        return newest if isinstance(newest, Assignment) else Assignment()

    @property
    def checked_epoch(self) -> Epoch | None:
        """The claim's epoch, where epochs are checked."""
        claim = self.handshake.claim
        if claim is None or Requirement.EPOCH not in self.gate.rules.require:
            return None
        return claim.epoch if isinstance(claim.epoch, Epoch) else None

    @property
    def believed_epoch(self) -> Epoch | None:
        """The epoch that was checked. Of one that passes in spite of what it says, nothing is believed."""
        return self.checked_epoch if self.basis is not Basis.SHADOW else None

    @property
    def believed_controller(self) -> ControllerName | None:
        """Whom it is taken for: who it proves to be, else who it says it is, unless it passes in spite of that."""
        proven = self.handshake.peer.controller
        if proven is not None:
            return proven
        claim = self.handshake.claim
        if claim is None or self.basis is Basis.SHADOW or not isinstance(claim.controller, ControllerName):
            return None
        return claim.controller

    def lets_through(self, refused: Refused) -> bool:
        """Whether the shadow mode, as it is now, is for letting this through."""
        gate = self.gate
        return gate.shadow and gate.shadow_now() and shadow_lets_through(refused) and not gate.state().draining

    def shadow_passes(self, refused: Refused) -> bool:
        """Whether the shadow mode, as it is now, lets this through. Counts it, once for each connection.

        A drain ends the mode, and so does a reload: also for who came before it and is decided after it.
        """
        if not self.lets_through(refused):
            return False
        if self.basis is not Basis.SHADOW:
            self.basis = Basis.SHADOW
            self.gate.metrics.shadow_rejected(refused.reason)
            self.gate.journal.shadowed(self.connection, refused)
        return True

    def recheck(self) -> End | None:
        """Why it doesn't pass on the newest record; one that never did isn't asked as long as that is so."""
        outdated = self.outdated()
        if outdated is not None:
            return outdated
        if self.basis is Basis.SHADOW and self.gate.shadow_now():
            return None
        return self.handshake.decide_established(self.gate.authority.newest, self.gate.state())

    def outdated(self) -> End | None:
        """Why its certificate doesn't count any more; None: it does, or there is none."""
        prover, presented = self.gate.prover, self.presented
        return None if prover is None or presented is None else prover.outdated(presented)

    def spares(self, end: End) -> bool:
        """Whether the shadow mode, as it is now, doesn't make this cut. Counts it, once for each connection."""
        spared = self.gate.shadow_now()
        if spared and not self.shadow_cut:
            self.shadow_cut = True
            self.gate.metrics.shadow_cut(end)
        return spared

    def answer(self, verdict: Admitted | Refused) -> bytes:
        """What the dialler is told; nothing where it asked for nothing."""
        gate, connection = self.gate, self.connection
        answer = self.handshake.answer(verdict, gate.authority.newest, gate.state().floor, full=gate.full_answer)
        return b"" if answer is None else write_answer(answer, dialler=connection.peer, sidecar=connection.local)

    def measure(self, outcome: Outcome) -> None:
        """A verdict was reached: how long that took since the claim was complete."""
        if self.claimed_at is not None:
            self.gate.metrics.admission_took(outcome, self.gate.clock() - self.claimed_at)
