"""The steps up to the verdict, without any I/O."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.admission import Admitted, Floor, Peer, Requirement, Rules, State
from sidecar.assignment import Assignment, Unassigned, Unavailable
from sidecar.handshake import UNPROVEN, Desk, Handshake, Wait
from sidecar.identity import Epoch, Generation, Identity
from sidecar.preface.claim import Claim, TlvTypes, write_claim
from sidecar.preface.proxy_v2 import write_header
from sidecar.reasons import Advice, Probe, Reason, Refused
from tests.names import CLAIM, OWN, U1, WRONG, preface

RULES = Rules(OWN, frozenset({Requirement.IDENTITY, Requirement.GENERATION, Requirement.INSTANCE}))
ASSIGNED = Assignment(Generation(7), U1)
QUIET = State()
VECTORS = json.loads((Path(__file__).parent / "vectors" / "preface.json").read_text())["vectors"]


def new(*, rules=RULES, tlvs=None, peer=None):
    return Handshake(Desk(rules, tlvs or TlvTypes()), peer or UNPROVEN)


def test_a_complete_claim_waits_for_the_authority_and_keeps_what_came_after_it():
    handshake = new()
    assert handshake.receive(preface() + b"PING", QUIET) is Wait.AUTHORITY
    assert handshake.payload == b"PING"
    assert handshake.decide(ASSIGNED, QUIET) == Admitted(ASSIGNED)


@given(cuts=st.lists(st.integers(0, 200), max_size=8))
def test_the_outcome_is_the_same_however_the_bytes_are_cut(cuts):
    data = preface() + b"PAYLOAD"
    handshake = new()
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    outcome, rest = Wait.BYTES, b""
    for start, end in pairwise(places):
        if outcome is Wait.BYTES:
            outcome = handshake.receive(data[start:end], QUIET)
        else:
            rest += data[start:end]  # nobody reads on once the claim is there: it stays in the socket
    assert outcome is Wait.AUTHORITY
    assert handshake.payload + rest == b"PAYLOAD"


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["id"] for vector in VECTORS])
@pytest.mark.parametrize("cut", ["whole", "byte by byte"])
def test_every_vector_comes_out_as_listed(vector, cut):
    data, expected = bytes.fromhex(vector["hex"]), vector["product_expect"]
    handshake = new()
    pieces = [data] if cut == "whole" and data else [data[i : i + 1] for i in range(len(data))]
    outcome = Wait.BYTES
    for piece in pieces:
        outcome = handshake.receive(piece, QUIET)
        if outcome is not Wait.BYTES:
            break
    if outcome is Wait.BYTES and (vector["eof_after"] or (not data and expected["decision"] == "probe")):
        outcome = handshake.receive(b"", QUIET)
    if outcome is Wait.BYTES:
        outcome = handshake.out_of_time(draining=False)
    if outcome is Wait.AUTHORITY:
        outcome = handshake.decide(ASSIGNED, QUIET)
    match expected["decision"]:
        case "forward":
            assert outcome == Admitted(ASSIGNED)
            if cut == "whole":
                assert handshake.payload.hex() == vector["expect"]["payload_hex"]
        case "probe":
            assert outcome == Probe(expected["reason"])
        case _:
            assert isinstance(outcome, Refused)
            assert outcome.reason == expected["reason"]


def test_an_end_before_the_first_byte_is_a_probe_and_within_the_preface_a_fault():
    assert new().receive(b"", QUIET) is Probe.CLOSED_BEFORE_PREFACE
    handshake = new()
    assert handshake.receive(preface()[:20], QUIET) is Wait.BYTES
    assert handshake.receive(b"", QUIET) == Refused(Reason.PREFACE_MALFORMED, "truncated")


def test_a_wrong_claim_is_refused_without_asking_the_authority():
    handshake = new()
    assert handshake.receive(preface(WRONG), QUIET) == Refused(
        Reason.IDENTITY_MISMATCH, "ordinal: expected 3, this is 2"
    )


def test_the_step_that_runs_out_of_time_names_the_reason():
    handshake = new()
    assert handshake.out_of_time(draining=False).reason is Reason.PREFACE_TIMEOUT
    assert handshake.out_of_time(draining=True).reason is Reason.DRAINING
    handshake.receive(preface(), QUIET)
    assert handshake.out_of_time(draining=False).reason is Reason.AUTHORITY_UNAVAILABLE


def test_types_that_the_listener_remaps_are_the_ones_that_count():
    tlvs = TlvTypes(identity=0x05)
    rules = Rules(OWN, frozenset({Requirement.IDENTITY}))
    header = write_header(source=None, destination=None, tlvs=write_claim(Claim(OWN), tlvs, answer=False))
    assert new(rules=rules, tlvs=tlvs).receive(header, QUIET) is Wait.AUTHORITY
    assert new(rules=rules).receive(header, QUIET) == Refused(Reason.IDENTITY_MISSING)


def refused(**kwargs):
    handshake = new(**kwargs)
    verdict = handshake.receive(preface(WRONG, answer=True), QUIET)
    assert isinstance(verdict, Refused)
    return handshake, verdict


def test_who_asked_for_no_answer_gets_none():
    handshake = new()
    handshake.receive(preface(), QUIET)
    assert handshake.answer(Admitted(ASSIGNED), ASSIGNED, Floor(), full=True) is None


def test_a_reason_found_before_the_preface_was_complete_is_not_answered():
    handshake = new()
    handshake.receive(preface(answer=True)[:-1], QUIET)
    assert handshake.answer(Refused(Reason.PREFACE_TIMEOUT), ASSIGNED, Floor(), full=True) is None


def test_an_admission_names_the_side_that_was_admitted_to():
    handshake = new()
    handshake.receive(preface(answer=True), QUIET)
    answer = handshake.answer(Admitted(ASSIGNED), ASSIGNED, Floor(), full=False)
    assert (answer.verdict, answer.advice) == ("admitted", None)
    assert (answer.identity, answer.generation, answer.instance) == (OWN, Generation(7), U1)


def test_a_refusal_tells_a_stranger_the_verdict_and_the_advice_alone():
    handshake, verdict = refused()
    answer = handshake.answer(verdict, ASSIGNED, Floor(), full=False)
    assert (answer.verdict, answer.advice) == ("identity_mismatch", Advice.RE_RESOLVE)
    assert (answer.detail, answer.identity, answer.generation, answer.instance) == ("", None, None, None)


@pytest.mark.parametrize(("full", "peer"), [(True, Peer()), (False, Peer(proven=True))])
def test_a_refusal_tells_the_rest_to_a_proven_peer_and_where_the_listener_says_so(full, peer):
    handshake, verdict = refused(peer=peer)
    answer = handshake.answer(verdict, ASSIGNED, Floor(), full=full)
    assert answer.detail == "ordinal: expected 3, this is 2"
    assert (answer.identity, answer.generation, answer.instance) == (OWN, Generation(7), U1)


@pytest.mark.parametrize("newest", [Unavailable("down"), Unassigned(pending=True)])
def test_a_refusal_names_no_incarnation_that_is_not_known(newest):
    handshake, verdict = refused()
    answer = handshake.answer(verdict, newest, Floor(), full=True)
    assert (answer.identity, answer.generation, answer.instance) == (OWN, None, None)


def test_an_answer_asked_for_in_a_wrong_way_is_answered_all_the_same():
    handshake = new()
    twice = write_claim(CLAIM, answer=True)
    header = write_header(source=None, destination=None, tlvs=(*twice, twice[-1]))
    verdict = handshake.receive(header, QUIET)
    assert verdict == Refused(Reason.PREFACE_MALFORMED, "answer_duplicate")
    assert handshake.answer(verdict, ASSIGNED, Floor(), full=True).verdict == "preface_malformed"


def test_an_identity_without_incarnation_is_enough_where_that_is_all_that_is_required():
    handshake = new(rules=Rules(OWN, frozenset({Requirement.IDENTITY})))
    assert handshake.receive(preface(Claim(Identity.parse(str(OWN)))), QUIET) is Wait.AUTHORITY


@pytest.mark.parametrize(("epoch", "named"), [(4, Epoch(5)), (9, None)])
def test_the_epoch_floor_is_named_where_the_epoch_was_the_reason(epoch, named):
    """And only there: it says who leads."""
    handshake = new(rules=Rules(OWN, frozenset({Requirement.IDENTITY, Requirement.EPOCH})))
    claim = Claim(OWN if named else WRONG.identity, epoch=Epoch(epoch))
    floor = Floor(None, Epoch(5))
    verdict = handshake.receive(preface(claim, answer=True), State(floor=floor))
    if verdict is Wait.AUTHORITY:
        verdict = handshake.decide(ASSIGNED, State(floor=floor))
    assert isinstance(verdict, Refused)
    assert handshake.answer(verdict, ASSIGNED, floor, full=True).epoch == named
    assert handshake.answer(verdict, ASSIGNED, floor, full=False).epoch is None


def test_a_controller_that_comes_again_is_told_the_assignment_that_holds_by_then():
    """Claims and answers are remembered; what they amount to isn't."""
    for generation, verdict in ((7, "admitted"), (8, "generation_stale"), (7, "admitted")):
        own = Assignment(Generation(generation), U1)
        handshake = new()
        assert handshake.receive(preface(answer=True), QUIET) is Wait.AUTHORITY
        answer = handshake.answer(handshake.decide(own, QUIET), own, Floor(), full=True)
        assert (answer.verdict, answer.generation) == (verdict, Generation(generation))


def test_a_claim_that_was_right_on_one_listener_is_decided_anew_on_another():
    data = preface()
    assert new().receive(data, QUIET) is Wait.AUTHORITY
    assert new(rules=Rules(WRONG.identity, RULES.require)).receive(data, QUIET).reason is Reason.IDENTITY_MISMATCH
    assert new().receive(data, State(draining=True)) == Refused(Reason.DRAINING)


def test_what_is_passed_on_is_no_longer_the_callers_buffer():
    buffer = bytearray(preface() + b"PING")
    handshake = new()
    handshake.receive(buffer, QUIET)
    buffer[-4:] = b"PONG"
    assert handshake.payload == b"PING"


def test_what_came_after_the_preface_is_taken_once_and_kept_no_longer():
    handshake = new()
    handshake.receive(preface() + b"PING", QUIET)
    assert handshake.length == len(preface())
    assert handshake.take_payload() == b"PING"
    assert handshake.take_payload() == b""


def test_a_desk_remembers_a_claim_and_forgets_when_there_are_too_many():
    desk = Desk(RULES, TlvTypes())
    one, two = Handshake(desk, UNPROVEN), Handshake(desk, UNPROVEN)
    for handshake in (one, two):
        assert handshake.receive(preface(), QUIET) is Wait.AUTHORITY
    assert one.claim is two.claim
    for number in range(1000):
        claim = Claim(OWN, Generation(number + 1), U1)
        assert Handshake(desk, UNPROVEN).receive(preface(claim), QUIET) is Wait.AUTHORITY
    assert len(desk._seen) <= 128
    wrong = Handshake(desk, UNPROVEN)
    assert wrong.receive(preface(WRONG), QUIET).reason is Reason.IDENTITY_MISMATCH


def test_a_desk_remembers_nothing_of_a_peer_that_has_proved_something():
    desk = Desk(RULES, TlvTypes())
    strange = Peer(proven=True, slot=Identity("prod-eu", "replica-a", 3))
    assert Handshake(desk, strange).receive(preface(), QUIET).reason is Reason.IDENTITY_CONFLICT
    assert Handshake(desk, UNPROVEN).receive(preface(), QUIET) is Wait.AUTHORITY


def test_a_decision_on_what_has_not_changed_is_the_same_one_and_on_anything_else_a_new_one():
    handshake = new()
    handshake.receive(preface(), QUIET)
    verdict = handshake.decide(ASSIGNED, QUIET)
    assert handshake.decide(ASSIGNED, QUIET) is verdict
    eight = Assignment(Generation(8), U1)
    assert handshake.decide(eight, QUIET).reason is Reason.GENERATION_STALE
    assert handshake.decide(ASSIGNED, State(draining=True)).reason is Reason.DRAINING
    assert handshake.decide(ASSIGNED, QUIET) == verdict
