"""The decision: may this claim pass to the local process?

Owns the table of docs/wire.md ("Reasons") from the complete preface on: :func:`decide` goes through its rows from the
top, and the first that applies is the reason. It is pure: no clock, no I/O, no logging, no metrics; whoever calls it
(``connection``, ``roster``) brings the values and acts on the verdict. Rows that stand above the preface (source
address, capacity, TLS, time) and below the decision (the dial) belong to the steps that see them.

The table has two halves. What the claim and the floor settle alone is refused without asking the authority, so that
a flood of wrong claims costs no read. Without a reading, ``decide`` says :data:`AUTHORITY_NEEDED` where the second half
would begin.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum, StrEnum, unique
from typing import Final, Literal

from sidecar.assignment import Assignment, Reading, Regressed, Unassigned, Unavailable
from sidecar.identity import ControllerName, Epoch, Generation, Identity, Instance
from sidecar.preface.claim import Malformed, ReceivedClaim
from sidecar.reasons import Advice, Reason, Refused


@unique
class Requirement(StrEnum):
    """A part that every claim must carry. Fixed by the configuration, never by what a read returns."""

    IDENTITY = "identity"
    INSTANCE = "instance"
    GENERATION = "generation"
    EPOCH = "epoch"
    CONTROLLER = "controller"


@dataclass(frozen=True, slots=True)
class Rules:
    """What the configuration fixes for one listener.

    ``given`` are the parts of the incarnation that the assignment gives. A claim that carries another is refused: it
    relies on a comparison that nobody could make, and its dialler would take the admission for a wrong peer.
    ``own_instance`` is this pod's instance where the authority may name another one (a registry); where the assignment
    itself says who this pod is, there is nothing to compare. ``ahead_advice`` is what a dialler does whose generation
    is above ours: files catch up, a record doesn't.
    """

    identity: Identity
    require: frozenset[Requirement]
    given: frozenset[Requirement] = frozenset({Requirement.GENERATION, Requirement.INSTANCE})
    own_instance: Instance | None = None
    ahead_advice: Advice = Advice.RE_RESOLVE


@dataclass(frozen=True, slots=True)
class Peer:
    """What the connection itself proves of who dials. A plain connection proves nothing."""

    proven: bool = False
    fault: str = ""  # why its certificate isn't allowed here
    controller: ControllerName | None = None  # a controller that the certificate names
    slot: Identity | None = None  # a slot that it names
    generation: Generation | None = None


@unique
class Lease(StrEnum):
    """Where this sidecar stands with its lease. The last three are what ``fenced`` says."""

    UNUSED = "unused"
    PENDING = "pending"
    HELD = "held"
    TAKEN_OVER = "taken_over"
    EXPIRED = "expired"
    RELEASED = "released"


FENCED: Final = frozenset({Lease.TAKEN_OVER, Lease.EXPIRED, Lease.RELEASED})


@dataclass(frozen=True, slots=True)
class Floor:
    """The highest generation and epoch that this sidecar has acted on."""

    generation: Generation | None = None
    epoch: Epoch | None = None


@dataclass(frozen=True, slots=True)
class Holder:
    """The admitted connection that a new one on an exclusive listener would take over from."""

    controller: ControllerName | None
    epoch: Epoch | None
    flapping: bool = False  # takeovers without epochs come too often


@dataclass(frozen=True, slots=True)
class State:
    """What holds at this moment, taken in one snapshot. ``floor`` None: it can't be read or written."""

    draining: bool = False
    lease: Lease = Lease.UNUSED
    floor: Floor | None = field(default_factory=Floor)
    holder: Holder | None = None

    def of_established(self) -> State:
        """What of this concerns a connection that is admitted already.

        Neither a drain, nor who else wants its place, nor that a floor can't be kept: what revokes it revokes it.
        """
        return replace(self, draining=False, holder=None, floor=self.floor or Floor())


@dataclass(frozen=True, slots=True)
class Admitted:
    """A verdict: yes, and the assignment that it rests on."""

    assignment: Assignment


class _AuthorityNeeded(Enum):
    AUTHORITY_NEEDED = "authority_needed"


AUTHORITY_NEEDED: Final = _AuthorityNeeded.AUTHORITY_NEEDED
AuthorityNeeded = Literal[_AuthorityNeeded.AUTHORITY_NEEDED]


# In the shadow mode these are counted and let through: the rows of the table from the claim to the decision.
SHADOWED: Final = frozenset(
    list(Reason)[list(Reason).index(Reason.CONTROLLER_MALFORMED) : list(Reason).index(Reason.EXCLUSIVE_CONFLICT) + 1]
)


def decide(
    rules: Rules, claim: ReceivedClaim, peer: Peer, state: State, reading: Reading | None
) -> Admitted | Refused | AuthorityNeeded:
    """The verdict on *claim*: the first row that applies, or admitted.

    Args:
        rules: what the configuration fixes for the listener.
        claim: what the preface carried, usable or not.
        peer: what the connection proves.
        state: draining, lease, floor and holder as of now.
        reading: what the authority says; None before it was asked.
    """
    refused = _before_authority(rules, claim, peer, state)
    if refused is not None:
        return refused
    if reading is None:
        return AUTHORITY_NEEDED
    return _with_authority(rules, claim, peer, state, reading)


def _before_authority(  # noqa: C901  one row of the table after the other: splitting it would hide the order
    rules: Rules, claim: ReceivedClaim, peer: Peer, state: State
) -> Refused | None:
    if claim.answer.fault is not None:
        return Refused(Reason.PREFACE_MALFORMED, claim.answer.fault)
    if peer.fault:
        return Refused(Reason.PEER_NOT_ALLOWED, peer.fault)
    if state.draining:
        return Refused(Reason.DRAINING)
    if why := _controller_fault(rules, claim):
        return Refused(Reason.CONTROLLER_MALFORMED, why)
    if claim.identity is None:
        return Refused(Reason.IDENTITY_MISSING)
    if isinstance(claim.identity, Malformed):
        return Refused(Reason.IDENTITY_MALFORMED, claim.identity.why)
    if missing := _absent(rules, claim):
        return Refused(Reason.INCARNATION_MISSING, missing)
    if why := _malformed_incarnation(claim):
        return Refused(Reason.INCARNATION_MALFORMED, why)
    if why := _certificate_conflict(claim, peer):
        return Refused(Reason.IDENTITY_CONFLICT, why)
    if why := _difference(claim.identity, rules.identity):
        return Refused(Reason.IDENTITY_MISMATCH, why)
    if why := _incomparable_incarnation(rules, claim):  # after the identity: one that went astray looks elsewhere first
        return Refused(Reason.INCARNATION_MALFORMED, why)
    generation, floor = claim.generation, state.floor
    if isinstance(generation, Generation) and floor and floor.generation and generation < floor.generation:
        return Refused(Reason.GENERATION_STALE, f"expected {generation}, this is at least {floor.generation}")
    return None


def _with_authority(  # noqa: C901  as above
    rules: Rules, claim: ReceivedClaim, peer: Peer, state: State, reading: Reading
) -> Admitted | Refused:
    if state.lease is Lease.PENDING:
        return Refused(Reason.LEASE_PENDING)
    if state.lease in FENCED:
        return Refused(Reason.FENCED, state.lease)
    if state.floor is None:
        return Refused(Reason.FLOOR_UNAVAILABLE)
    match reading:
        case Unavailable(detail):
            return Refused(Reason.AUTHORITY_UNAVAILABLE, detail)
        case Regressed(detail):
            return Refused(Reason.AUTHORITY_REGRESSED, detail)
        case Unassigned(pending=True):
            return Refused(Reason.NOT_ASSIGNED, "pending", Advice.RETRY)
        case Unassigned():
            return Refused(Reason.NOT_ASSIGNED, "this slot has no assignment")
    if lacking := _absent(rules, reading):
        return Refused(Reason.AUTHORITY_UNAVAILABLE, f"the assignment lacks the {lacking} that is required")
    if rules.own_instance is not None and reading.instance != rules.own_instance:
        return Refused(Reason.NOT_ASSIGNED, "the slot belongs to another instance")
    if Requirement.EPOCH in rules.require and isinstance(claim.epoch, Epoch):
        floor = max((e for e in (state.floor.epoch, reading.epoch) if e), default=None)
        if floor and claim.epoch < floor:
            return Refused(Reason.CONTROLLER_STALE, f"epoch {claim.epoch}, floor {floor}")
        if reading.epoch and claim.epoch > reading.epoch:
            return Refused(Reason.CONTROLLER_AHEAD, f"epoch {claim.epoch}, the record's {reading.epoch}")
    if isinstance(claim.generation, Generation) and reading.generation:
        difference = f"expected {claim.generation}, this is {reading.generation}"
        if claim.generation < reading.generation:
            return Refused(Reason.GENERATION_STALE, difference)
        if claim.generation > reading.generation:
            return Refused(Reason.GENERATION_AHEAD, difference, rules.ahead_advice)
    if claim.instance is not None and reading.instance and claim.instance != reading.instance:
        return Refused(Reason.INSTANCE_MISMATCH, f"expected {claim.instance}, this is {reading.instance}")
    if state.holder and not _may_take_over(rules, claim, peer, state.holder):
        return Refused(Reason.EXCLUSIVE_CONFLICT)
    return Admitted(reading)


def _controller_fault(rules: Rules, claim: ReceivedClaim) -> str | None:
    parts = ((Requirement.EPOCH, claim.epoch), (Requirement.CONTROLLER, claim.controller))
    for name, part in parts:
        if isinstance(part, Malformed):
            return f"{name} {part.why}"
    if any(name in rules.require and part is None for name, part in parts):
        return "missing"
    return None


def _absent(rules: Rules, holder: ReceivedClaim | Assignment) -> str | None:
    """The part of the incarnation that is required and that *holder* doesn't have."""
    parts = ((Requirement.GENERATION, holder.generation), (Requirement.INSTANCE, holder.instance))
    return next((str(name) for name, part in parts if name in rules.require and part is None), None)


def _malformed_incarnation(claim: ReceivedClaim) -> str | None:
    for name, part in (("generation", claim.generation), ("instance", claim.instance)):
        if isinstance(part, Malformed):
            return f"{name} {part.why}"
    return None


def _incomparable_incarnation(rules: Rules, claim: ReceivedClaim) -> str | None:
    for name, part in ((Requirement.GENERATION, claim.generation), (Requirement.INSTANCE, claim.instance)):
        if part is not None and name not in rules.given:
            return f"{name} can't be compared: this slot's assignment gives none"
    return None


def _difference(expected: Identity, own: Identity) -> str | None:
    for name in ("cluster", "replica", "ordinal"):
        theirs, ours = getattr(expected, name), getattr(own, name)
        if theirs != ours:
            return f"{name}: expected {theirs}, this is {ours}"
    return None


def _certificate_conflict(claim: ReceivedClaim, peer: Peer) -> str | None:
    if peer.controller is not None and claim.controller is not None and peer.controller != claim.controller:
        return "the certificate names another controller"
    if peer.slot is not None and peer.slot != claim.identity:
        return "the certificate names another slot"
    if peer.generation is not None and claim.generation is not None and peer.generation != claim.generation:
        return "the certificate names another generation"
    return None


def _may_take_over(rules: Rules, claim: ReceivedClaim, peer: Peer, holder: Holder) -> bool:
    """The higher epoch wins; else the same controller reconnects, unless it flaps."""
    if Requirement.EPOCH in rules.require and isinstance(claim.epoch, Epoch):
        held = holder.epoch
        if held is None or claim.epoch > held:
            return True
        if claim.epoch < held:
            return False
    elif holder.flapping:
        return False
    controller = peer.controller if peer.controller is not None else claim.controller
    return controller == holder.controller
