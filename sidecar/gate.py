"""What a listener's connections have in common, and what the steps of one of them share.

Owns the two records that the flow's modules pass on: a :class:`Gate` for each listener, and a :class:`Visit` for each
connection on its way through it. The steps themselves are elsewhere: ``connection`` is the spine, ``arrival`` leads to
the first verdict, ``passage`` from there to the local process.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import trio

from sidecar.admission import Admitted, Peer, Requirement, Rules, State
from sidecar.assignment import Assignment
from sidecar.authority.source import Authority
from sidecar.config import HostPort, UnixPath
from sidecar.exclusive import Exclusive
from sidecar.handshake import Handshake, shadow_lets_through
from sidecar.identity import Epoch
from sidecar.journal import Journal
from sidecar.metrics import Basis, ListenerMetrics, Outcome
from sidecar.preface.answer import write_answer
from sidecar.preface.claim import TlvTypes
from sidecar.reasons import Refused
from sidecar.relay import RelayTimes
from sidecar.roster import Connection, Roster


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
        full_answer: Tell also peers that haven't proven who they are what this side is.
        shadow: Count wrong claims instead of refusing them.
        shadow_now: The same as the configuration has it by now, for connections that came through this gate earlier.
        send_proxy: Tell the local process who dials, by a header of our own.
        refusal_drain: Bytes of unread input that are taken after a refusal.
        exclusive: The listener's one place, where it has but one.
        now: What holds at this moment, but for the exclusive place.
        raise_epoch: Makes the listener's epoch floor at least this, durably, and cuts whoever is below it; False where
            that can't be done now. None: a dialler's epoch raises nothing here.
    """

    rules: Rules
    tlvs: TlvTypes
    upstream: HostPort | UnixPath
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
    raise_epoch: Callable[[Epoch], Awaitable[bool]] | None
    metrics: ListenerMetrics
    journal: Journal

    def state(self) -> State:
        """What holds at this moment, as the decision sees it."""
        state = self.now()
        return replace(state, holder=self.exclusive.state()) if self.exclusive is not None else state


@dataclass(slots=True)
class Visit:
    """One connection on its way through a gate.

    Attributes:
        gate: The listener's.
        client: The connection's socket.
        connection: Its entry in the roster.
        handshake: What it has said so far, and what that amounts to.
        basis: What its admission rests on.
        claimed_at: When its claim was complete, on trio's clock.
        shadow_cut: Whether a cut of it was counted already.
    """

    gate: Gate
    client: trio.SocketStream
    connection: Connection
    handshake: Handshake = field(init=False)
    basis: Basis = Basis.AUTHORITY
    claimed_at: float | None = None
    shadow_cut: bool = False

    def __post_init__(self) -> None:
        self.handshake = Handshake(self.gate.rules, self.gate.tlvs, Peer())

    @property
    def ends_at(self) -> float:
        """When the budget up to the verdict is over."""
        return self.connection.accepted_at + self.gate.times.preface

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

    def shadow_passes(self, refused: Refused) -> bool:
        """Whether the shadow mode, as it is now, lets this through. Counts it, once for each connection.

        A drain ends the mode, and so does a reload: also for who came before it and is decided after it.
        """
        gate = self.gate
        if not (gate.shadow and gate.shadow_now() and shadow_lets_through(refused)) or gate.state().draining:
            return False
        if self.basis is not Basis.SHADOW:
            self.basis = Basis.SHADOW
            self.gate.metrics.shadow_rejected(refused.reason)
            self.gate.journal.shadowed(self.connection, refused)
        return True

    def answer(self, verdict: Admitted | Refused) -> bytes:
        """What the dialler is told; nothing where it asked for nothing."""
        gate, connection = self.gate, self.connection
        answer = self.handshake.answer(verdict, gate.authority.newest, gate.state().floor, full=gate.full_answer)
        return b"" if answer is None else write_answer(answer, dialler=connection.peer, sidecar=connection.local)

    def measure(self, outcome: Outcome) -> None:
        """A verdict was reached: how long that took since the claim was complete."""
        if self.claimed_at is not None:
            self.gate.metrics.admission_took(outcome, trio.current_time() - self.claimed_at)
