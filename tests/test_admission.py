"""The admission table: the first row that applies is the reason."""

import dataclasses

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sidecar.admission import (
    AUTHORITY_NEEDED,
    Admitted,
    Floor,
    Holder,
    Lease,
    Peer,
    Requirement,
    Rules,
    State,
    decide,
)
from sidecar.assignment import Assignment, Regressed, Unassigned, Unavailable
from sidecar.identity import ControllerName, Epoch, Generation, Identity, Instance
from sidecar.preface.claim import AnswerRequest, Malformed, ReceivedClaim
from sidecar.reasons import Advice, Reason, Refused

OWN = Identity("prod-eu", "replica-a", 2)
OTHER = Identity("prod-eu", "replica-a", 3)
U1, U2 = Instance("uid-1"), Instance("uid-2")
BAD = Malformed(b"?", "is wrong")
EVERYTHING = frozenset(Requirement)
INCARNATION = (Requirement.GENERATION, Requirement.INSTANCE)
RULES = Rules(OWN, frozenset({Requirement.IDENTITY, Requirement.GENERATION, Requirement.INSTANCE}))
EPOCHS = Rules(OWN, EVERYTHING)
RIGHT = ReceivedClaim(OWN, Generation(7), U1, Epoch(5), ControllerName("c"))
READING = Assignment(Generation(7), U1, Epoch(5))
PLAIN = Peer()
QUIET = State()


def reason_of(*, rules=EPOCHS, peer=PLAIN, state=QUIET, reading=READING, **changes):
    verdict = decide(rules, dataclasses.replace(RIGHT, **changes), peer, state, reading)
    return verdict.reason if isinstance(verdict, Refused) else verdict


def detail_of(**case):
    verdict = decide(
        case.pop("rules", EPOCHS),
        dataclasses.replace(RIGHT, **{k: v for k, v in case.items() if k in ReceivedClaim.__dataclass_fields__}),
        case.get("peer", Peer()),
        case.get("state", State()),
        case.get("reading", READING),
    )
    assert isinstance(verdict, Refused)
    return verdict.detail


# Every row with the one thing that makes it apply, from the top. Any two of them together must give the upper one.
ROWS = [
    (Reason.PREFACE_MALFORMED, {"answer": AnswerRequest.DUPLICATE}),
    (Reason.PEER_NOT_ALLOWED, {"peer": {"fault": "no_spiffe_id"}}),
    (Reason.DRAINING, {"state": {"draining": True}}),
    (Reason.CONTROLLER_MALFORMED, {"controller": BAD}),
    (Reason.IDENTITY_MISSING, {"identity": None}),
    (Reason.IDENTITY_MALFORMED, {"identity": BAD}),
    (Reason.INCARNATION_MISSING, {"generation": None}),
    (Reason.INCARNATION_MALFORMED, {"instance": BAD}),
    (Reason.IDENTITY_CONFLICT, {"peer": {"slot": Identity("x", "y", 1)}}),
    (Reason.IDENTITY_MISMATCH, {"identity": OTHER}),
    (Reason.GENERATION_STALE, {"state": {"floor": Floor(Generation(9))}}),
    (Reason.LEASE_PENDING, {"state": {"lease": Lease.PENDING}}),
    (Reason.FENCED, {"state": {"lease": Lease.EXPIRED}}),
    (Reason.FLOOR_UNAVAILABLE, {"state": {"floor": None}}),
    (Reason.AUTHORITY_UNAVAILABLE, {"reading": Unavailable("no answer")}),
    (Reason.AUTHORITY_REGRESSED, {"reading": Regressed("6 after 7")}),
    (Reason.NOT_ASSIGNED, {"reading": Unassigned(pending=False)}),
    (Reason.CONTROLLER_STALE, {"epoch": Epoch(4)}),
    (Reason.CONTROLLER_AHEAD, {"epoch": Epoch(6)}),
    (Reason.GENERATION_STALE, {"generation": Generation(6)}),
    (Reason.GENERATION_AHEAD, {"generation": Generation(8)}),
    (Reason.INSTANCE_MISMATCH, {"instance": U2}),
    (Reason.EXCLUSIVE_CONFLICT, {"state": {"holder": Holder(ControllerName("d"), Epoch(5))}}),
]


def apply(*changes):
    """The right case with *changes*; None where two of them want the same place."""
    case = {"peer": {}, "state": {}}
    for change in changes:
        for key, value in change.items():
            if isinstance(value, dict):
                if case[key].keys() & value.keys():
                    return None
                case[key] = {**case[key], **value}
            elif key in case:
                return None
            else:
                case[key] = value
    return {**case, "peer": Peer(**case["peer"]), "state": State(**case["state"])}


def test_the_right_claim_is_admitted_on_the_reading():
    assert reason_of() == Admitted(READING)


@pytest.mark.parametrize(("reason", "change"), ROWS)
def test_each_row_applies_by_itself(reason, change):
    assert reason_of(**apply(change)) is reason


@pytest.mark.parametrize("lower", range(len(ROWS)))
@pytest.mark.parametrize("upper", range(len(ROWS)))
def test_of_two_rows_that_apply_the_upper_one_is_the_reason(upper, lower):
    if upper >= lower:
        return
    case = apply(ROWS[upper][1], ROWS[lower][1])
    if case is not None:
        assert reason_of(**case) is ROWS[upper][0]


BEFORE_AUTHORITY = ROWS[: [reason for reason, _ in ROWS].index(Reason.LEASE_PENDING)]


@pytest.mark.parametrize(("reason", "change"), BEFORE_AUTHORITY)
def test_what_needs_no_authority_is_refused_without_a_reading(reason, change):
    assert reason_of(**{**apply(change), "reading": None}) is reason


@pytest.mark.parametrize(("reason", "change"), ROWS[len(BEFORE_AUTHORITY) :])
def test_what_needs_the_authority_waits_for_a_reading(reason, change):
    assert reason_of(**{**apply(change), "reading": None}) is AUTHORITY_NEEDED


@pytest.mark.parametrize("answer", [AnswerRequest.NONE, AnswerRequest.FORMAT_1])
def test_whether_an_answer_is_wanted_changes_no_verdict(answer):
    assert reason_of(answer=answer) == Admitted(READING)


@pytest.mark.parametrize(
    ("identity", "detail"),
    [
        (Identity("stage-eu", "replica-a", 2), "cluster: expected stage-eu, this is prod-eu"),
        (Identity("prod-eu", "replica-b", 2), "replica: expected replica-b, this is replica-a"),
        (Identity("prod-eu", "replica-a", 3), "ordinal: expected 3, this is 2"),
        (Identity("PROD-EU", "replica-a", 2), "cluster: expected PROD-EU, this is prod-eu"),
    ],
)
def test_a_mismatch_says_which_segment_differs_and_both_sides(identity, detail):
    assert detail_of(identity=identity) == detail


def test_details_say_both_sides():
    assert detail_of(generation=Generation(6)) == "expected 6, this is 7"
    assert detail_of(generation=Generation(8)) == "expected 8, this is 7"
    assert detail_of(instance=U2) == "expected uid-2, this is uid-1"
    assert detail_of(epoch=Epoch(4)) == "epoch 4, floor 5"
    assert detail_of(state=State(floor=Floor(Generation(9)))) == "expected 7, this is at least 9"


@pytest.mark.parametrize("part", ["epoch", "controller"])
def test_a_required_part_of_the_controller_that_is_absent_is_named_missing(part):
    assert detail_of(**{part: None}) == "missing"


@pytest.mark.parametrize("part", ["generation", "instance"])
def test_a_required_part_of_the_incarnation_that_is_absent_is_named(part):
    assert reason_of(rules=RULES, **{part: None}) is Reason.INCARNATION_MISSING
    assert detail_of(rules=RULES, **{part: None}) == part


@pytest.mark.parametrize("part", INCARNATION)
def test_a_part_that_the_assignment_does_not_give_cannot_be_compared_and_is_refused(part):
    """Else a check would be off because its input is missing, and its dialler would have evicted the right one."""
    rules = dataclasses.replace(RULES, require=frozenset({Requirement.IDENTITY}), given=frozenset(INCARNATION) - {part})
    assert reason_of(rules=rules, reading=None) is Reason.INCARNATION_MALFORMED
    assert detail_of(rules=rules) == f"{part} can't be compared: this slot's assignment gives none"
    assert reason_of(rules=rules, reading=None, **{part: None}) is AUTHORITY_NEEDED
    assert reason_of(rules=rules, identity=OTHER) is Reason.IDENTITY_MISMATCH, "that one should look elsewhere"


@pytest.mark.parametrize("part", ["generation", "instance"])
def test_a_part_that_is_not_required_is_compared_where_the_claim_carries_it(part):
    rules = Rules(OWN, frozenset({Requirement.IDENTITY}))
    other = {"generation": Generation(6), "instance": U2}[part]
    assert reason_of(rules=rules, generation=None, instance=None) == Admitted(READING)
    assert isinstance(reason_of(rules=rules, **{part: other}), Reason)


def test_epochs_count_only_where_they_are_required():
    assert reason_of(rules=RULES, epoch=Epoch(1)) == Admitted(READING)
    assert reason_of(rules=RULES, epoch=Epoch(99)) == Admitted(READING)
    assert reason_of(rules=RULES, epoch=None, controller=None) == Admitted(READING)


def test_an_unusable_epoch_is_refused_even_where_none_is_required():
    assert reason_of(rules=RULES, epoch=BAD) is Reason.CONTROLLER_MALFORMED


def test_the_epoch_floor_counts_where_the_record_has_no_epoch():
    case = {"reading": Assignment(Generation(7), U1), "state": State(floor=Floor(None, Epoch(6)))}
    assert reason_of(**case) is Reason.CONTROLLER_STALE
    assert reason_of(**case, epoch=Epoch(99)) == Admitted(case["reading"])


@pytest.mark.parametrize("reading", [Assignment(None, U1), Assignment(Generation(7), None)])
def test_a_record_that_lacks_a_required_part_cannot_be_trusted(reading):
    assert reason_of(rules=RULES, reading=reading) is Reason.AUTHORITY_UNAVAILABLE


def test_a_slot_that_belongs_to_another_instance_is_not_assigned_here():
    rules = dataclasses.replace(RULES, own_instance=U2)
    assert reason_of(rules=rules) is Reason.NOT_ASSIGNED
    assert reason_of(rules=rules, instance=U2) is Reason.NOT_ASSIGNED
    assert reason_of(rules=dataclasses.replace(RULES, own_instance=U1)) == Admitted(READING)


def test_before_the_first_assignment_the_dialler_retries_and_after_it_looks_elsewhere():
    assert decide(RULES, RIGHT, Peer(), State(), Unassigned(pending=True)) == Refused(
        Reason.NOT_ASSIGNED, "pending", Advice.RETRY
    )
    assert decide(RULES, RIGHT, Peer(), State(), Unassigned(pending=False)).advice is Advice.RE_RESOLVE


def test_a_claim_ahead_retries_where_the_authority_is_a_copy_that_catches_up():
    ahead = dataclasses.replace(RIGHT, generation=Generation(8))
    assert decide(RULES, ahead, Peer(), State(), READING).advice is Advice.RE_RESOLVE
    files = dataclasses.replace(RULES, ahead_advice=Advice.RETRY)
    assert decide(files, ahead, Peer(), State(), READING).advice is Advice.RETRY


@pytest.mark.parametrize("lease", [Lease.TAKEN_OVER, Lease.EXPIRED, Lease.RELEASED])
def test_fenced_says_how_the_lease_was_lost(lease):
    assert detail_of(state=State(lease=lease)) == lease.value


@pytest.mark.parametrize(
    ("peer", "refused"),
    [
        (Peer(slot=OWN), False),
        (Peer(slot=OTHER), True),
        (Peer(slot=OWN, generation=Generation(7)), False),
        (Peer(slot=OWN, generation=Generation(6)), True),
        (Peer(controller=ControllerName("c")), False),
        (Peer(controller=ControllerName("d")), True),
    ],
)
def test_a_certificate_and_a_preface_that_disagree_are_a_conflict(peer, refused):
    assert (reason_of(peer=peer) is Reason.IDENTITY_CONFLICT) == refused


def test_a_certificate_that_names_a_controller_needs_no_name_in_the_claim():
    assert reason_of(rules=RULES, peer=Peer(controller=ControllerName("d")), controller=None) == Admitted(READING)


def test_a_certificate_does_not_state_for_the_claim_what_is_required_of_it():
    assert reason_of(peer=Peer(controller=ControllerName("c")), controller=None) is Reason.CONTROLLER_MALFORMED
    assert reason_of(peer=Peer(slot=OWN), identity=None) is Reason.IDENTITY_MISSING
    assert reason_of(peer=Peer(slot=OWN, generation=Generation(7)), generation=None) is Reason.INCARNATION_MISSING


def test_a_certificate_that_names_a_generation_needs_none_in_the_claim_where_none_is_required():
    rules = Rules(OWN, frozenset({Requirement.IDENTITY}))
    peer = Peer(slot=OWN, generation=Generation(7))
    assert reason_of(rules=rules, peer=peer, generation=None) == Admitted(READING)


@pytest.mark.parametrize(
    ("peer", "part"),
    [
        (Peer(slot=OTHER), "slot"),
        (Peer(slot=OWN, generation=Generation(8)), "generation"),
        (Peer(controller=ControllerName("d")), "controller"),
    ],
)
def test_a_conflict_says_what_the_certificate_names_otherwise(peer, part):
    assert detail_of(peer=peer) == f"the certificate names another {part}"


def test_who_is_not_allowed_is_told_why():
    assert detail_of(peer=Peer(fault="multiple_uris")) == "multiple_uris"


def test_that_a_peer_is_proven_changes_no_verdict():
    assert reason_of(peer=Peer(proven=True)) == Admitted(READING)
    assert reason_of(peer=Peer(proven=True), epoch=Epoch(4)) is Reason.CONTROLLER_STALE


@pytest.mark.parametrize(("certified", "admitted"), [("c", True), ("d", False)])
def test_who_reconnects_to_an_exclusive_listener_is_told_by_the_certificate_where_it_names_a_controller(
    certified, admitted
):
    verdict = reason_of(
        rules=RULES,
        peer=Peer(proven=True, controller=ControllerName(certified)),
        controller=None,
        state=State(holder=Holder(ControllerName("c"), None)),
    )
    assert verdict == (Admitted(READING) if admitted else Reason.EXCLUSIVE_CONFLICT)


@pytest.mark.parametrize(
    ("rules", "epoch", "controller", "holder", "admitted"),
    [
        (EPOCHS, 5, "c", Holder(ControllerName("c"), Epoch(5)), True),  # a reconnect
        (EPOCHS, 5, "c", Holder(ControllerName("d"), Epoch(5)), False),
        (EPOCHS, 5, "c", Holder(ControllerName("d"), Epoch(4)), True),  # the higher epoch wins
        (EPOCHS, 5, "c", Holder(ControllerName("c"), Epoch(6)), False),
        (EPOCHS, 5, "c", Holder(ControllerName("c"), Epoch(5), flapping=True), True),  # epochs settle it
        (RULES, 5, "c", Holder(ControllerName("c"), None), True),
        (RULES, 5, None, Holder(None, None), True),  # no name on either counts as the same
        (RULES, 5, "c", Holder(None, None), False),
        (RULES, 9, "c", Holder(ControllerName("d"), Epoch(1)), False),  # epochs that aren't required don't count
        (RULES, 5, "c", Holder(ControllerName("c"), None, flapping=True), False),
    ],
)
def test_who_may_take_over_an_exclusive_listener(rules, epoch, controller, holder, admitted):
    verdict = reason_of(
        rules=rules,
        epoch=Epoch(epoch),
        controller=ControllerName(controller) if controller else None,
        state=State(holder=holder),
        reading=dataclasses.replace(READING, epoch=None),
    )
    assert verdict == (Admitted(Assignment(Generation(7), U1)) if admitted else Reason.EXCLUSIVE_CONFLICT)


identities = st.builds(Identity, st.sampled_from("ab"), st.sampled_from("cd"), st.integers(0, 2))
generations = st.builds(Generation, st.integers(1, 3))
instances = st.builds(Instance, st.sampled_from("xyz"))


@given(
    own=identities,
    claim=st.builds(ReceivedClaim, identities, st.none() | generations, st.none() | instances),
    reading=st.builds(Assignment, st.none() | generations, st.none() | instances),
    parts=st.sets(st.sampled_from([Requirement.GENERATION, Requirement.INSTANCE])),
)
@example(own=OWN, claim=ReceivedClaim(OWN, Generation(7), U1), reading=Assignment(None, U1), parts=set())
def test_a_claim_is_admitted_only_if_nothing_differs_that_is_required(own, claim, reading, parts):
    """For every pair of claim and assignment, and exactly then: whatever the claim carries must be equal."""
    given = frozenset(part for part in INCARNATION if getattr(reading, part) is not None)
    rules = Rules(own, frozenset({Requirement.IDENTITY, *parts}), given)
    verdict = decide(rules, claim, Peer(), State(), reading)
    required_equal = claim.identity == own and all(
        getattr(claim, part) is not None and getattr(claim, part) == getattr(reading, part) for part in parts
    )
    extra_differs = any(
        getattr(claim, part) is not None and getattr(claim, part) != getattr(reading, part) for part in INCARNATION
    )
    assert isinstance(verdict, Admitted) == (required_equal and not extra_differs)
