"""The decision: may this claim pass to the local process?

Owns the table of docs/wire.md ("Reasons") from the complete preface on: :func:`decide` goes through its rows from the
top, and the first that applies is the reason. It is pure: no clock, no I/O, no logging, no metrics; whoever calls it
(``connection``, ``roster``) brings the values and acts on the verdict. Rows that stand above the preface (source
address, capacity, TLS, time) and below the decision (the dial) belong to the steps that see them.

The table has two halves. What the claim and the floor settle alone is refused without asking the authority, so that
a flood of wrong claims costs no read. Without a reading, ``decide`` says :data:`AUTHORITY_NEEDED` where the second half
would begin. A claim is decided on at least twice; the rows that nothing can change meanwhile are :func:`examine`'s.
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


_GENERATION, _INSTANCE = Requirement.GENERATION, Requirement.INSTANCE  # from the class is a function call in 3.11
_EPOCH, _CONTROLLER = Requirement.EPOCH, Requirement.CONTROLLER


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


_LEASE_HOLDS: Final = frozenset({Lease.UNUSED, Lease.HELD})
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
    return decide_examined(rules, claim, peer, state, reading, examine(rules, claim, peer))


def decide_examined(
    rules: Rules, claim: ReceivedClaim, peer: Peer, state: State, reading: Reading | None, examined: Refused | None
) -> Admitted | Refused | AuthorityNeeded:
    """The same for who decides on one claim several times and has kept what :func:`examine` said."""
    if claim.answer.fault is not None:
        return Refused(Reason.PREFACE_MALFORMED, claim.answer.fault)
    if peer.fault:
        return Refused(Reason.PEER_NOT_ALLOWED, peer.fault)
    if state.draining:
        return Refused(Reason.DRAINING)
    if examined is not None:
        return examined
    generation, floor = claim.generation, state.floor
    if isinstance(generation, Generation) and floor and floor.generation and generation < floor.generation:
        return Refused(Reason.GENERATION_STALE, f"expected {generation}, this is at least {floor.generation}")
    return AUTHORITY_NEEDED if reading is None else _with_authority(rules, claim, peer, state, reading)


def examine(rules: Rules, claim: ReceivedClaim, peer: Peer) -> Refused | None:
    """What is wrong with *claim* itself: the rows from the controller on that no moment and no reading changes."""
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
    return None


def _with_authority(  # noqa: C901  one row of the table after the other: splitting it would hide the order
    rules: Rules, claim: ReceivedClaim, peer: Peer, state: State, reading: Reading
) -> Admitted | Refused:
    if state.lease not in _LEASE_HOLDS:
        return Refused(Reason.FENCED, state.lease) if state.lease in FENCED else Refused(Reason.LEASE_PENDING)
    if state.floor is None:
        return Refused(Reason.FLOOR_UNAVAILABLE)
    match reading:
        case Assignment():
            pass
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
    if _EPOCH in rules.require and isinstance(claim.epoch, Epoch):
        floor = _higher(state.floor.epoch, reading.epoch)
        if floor and claim.epoch < floor:
            return Refused(Reason.CONTROLLER_STALE, f"epoch {claim.epoch}, floor {floor}")
        if reading.epoch and claim.epoch > reading.epoch:
            return Refused(Reason.CONTROLLER_AHEAD, f"epoch {claim.epoch}, the record's {reading.epoch}")
    if isinstance(claim.generation, Generation) and reading.generation and claim.generation != reading.generation:
        difference = f"expected {claim.generation}, this is {reading.generation}"
        if claim.generation < reading.generation:
            return Refused(Reason.GENERATION_STALE, difference)
        return Refused(Reason.GENERATION_AHEAD, difference, rules.ahead_advice)
    if claim.instance is not None and reading.instance and claim.instance != reading.instance:
        return Refused(Reason.INSTANCE_MISMATCH, f"expected {claim.instance}, this is {reading.instance}")
    if state.holder and not _may_take_over(rules, claim, peer, state.holder):
        return Refused(Reason.EXCLUSIVE_CONFLICT)
    return Admitted(reading)


def _higher(one: Epoch | None, other: Epoch | None) -> Epoch | None:
    return max(one, other) if one and other else one or other


def _controller_fault(rules: Rules, claim: ReceivedClaim) -> str | None:
    epoch, controller = claim.epoch, claim.controller
    if isinstance(epoch, Malformed):
        return f"epoch {epoch.why}"
    if isinstance(controller, Malformed):
        return f"controller {controller.why}"
    if (epoch is None and _EPOCH in rules.require) or (controller is None and _CONTROLLER in rules.require):
        return "missing"
    return None


def _absent(rules: Rules, holder: ReceivedClaim | Assignment) -> str | None:
    """The part of the incarnation that is required and that *holder* doesn't have."""
    if holder.generation is None and _GENERATION in rules.require:
        return "generation"
    return "instance" if holder.instance is None and _INSTANCE in rules.require else None


def _malformed_incarnation(claim: ReceivedClaim) -> str | None:
    if isinstance(claim.generation, Malformed):
        return f"generation {claim.generation.why}"
    return f"instance {claim.instance.why}" if isinstance(claim.instance, Malformed) else None


def _incomparable_incarnation(rules: Rules, claim: ReceivedClaim) -> str | None:
    for name, part in ((_GENERATION, claim.generation), (_INSTANCE, claim.instance)):
        if part is not None and name not in rules.given:
            return f"{name} can't be compared: this slot's assignment gives none"
    return None


def _difference(expected: Identity, own: Identity) -> str | None:
    if expected == own:
        return None
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
    if _EPOCH in rules.require and isinstance(claim.epoch, Epoch):
        held = holder.epoch
        if held is None or claim.epoch > held:
            return True
        if claim.epoch < held:
            return False
    elif holder.flapping:
        return False
    controller = peer.controller if peer.controller is not None else claim.controller
    return controller == holder.controller
