import json
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.dialler import (
    DialError,
    NoAnswerError,
    NotASidecarError,
    RefusedError,
    TcpTarget,
    TlsRefusedError,
    UnixTarget,
    UnprovenPeerError,
    UnreachableError,
    WrongPeerError,
    ended,
    judge,
    opening,
    parse_target,
)
from sidecar.errors import MalformedValue
from sidecar.identity import ControllerName, Epoch, Generation, Identity, Instance
from sidecar.preface.answer import Answer, write_answer
from sidecar.preface.claim import Claim, read_claim
from sidecar.preface.proxy_v2 import InetAddress, Tlv, read_header, write_header
from sidecar.reasons import Advice, Reason

VECTORS = Path(__file__).parent / "vectors"
DIALLERS = json.loads((VECTORS / "answer.json").read_text())["diallers"]
PREFACES = {vector["id"]: vector for vector in json.loads((VECTORS / "preface.json").read_text())["vectors"]}

UID = "3f0c9a52-7d41-4c7e-9a56-0b8f6f1f2d31"
CLAIM = Claim(Identity("prod-eu", "replica-a", 2), Generation(7), Instance(UID), Epoch(3), ControllerName("c-1"))
ADMITTED = Answer("admitted", None, "", CLAIM.identity, CLAIM.generation, CLAIM.instance)


def answered(answer):
    return write_answer(answer, dialler=None, sidecar=None)


def claim_of(parts):
    identity, generation, instance = parts
    return Claim(
        Identity.parse(identity),
        None if generation is None else Generation.parse(generation),
        None if instance is None else Instance(instance),
    )


@pytest.mark.parametrize("vector", DIALLERS, ids=lambda vector: vector["id"])
def test_a_dialler_makes_of_an_answer_what_the_vectors_say(vector):
    claim, data = claim_of(vector["claim"]), bytes.fromhex(vector["answer_hex"])
    if vector["dialler"] == "connected":
        assert judge(claim, data) == len(data)
        return
    try:
        assert judge(claim, data) is None
        error = ended(data)
    except DialError as raised:
        error = raised
    assert isinstance(error, RefusedError) == (vector["dialler"] == "refused")
    if vector["dialler"] == "refused":
        assert (error.reason, error.advice) == (vector["reason"], vector["advice"])
    else:
        assert error.advice is Advice.RE_RESOLVE


@pytest.mark.parametrize("vector", DIALLERS, ids=lambda vector: vector["id"])
def test_nothing_is_judged_before_it_is_certain_and_nothing_behind_it_counts(vector):
    claim, data = claim_of(vector["claim"]), bytes.fromhex(vector["answer_hex"])
    growing = bytearray()
    for byte in data + b"\0more":
        growing.append(byte)
        try:
            length = judge(claim, growing)
        except DialError as error:
            with pytest.raises(type(error), match=f"^{error.reason}"):
                judge(claim, data + b"\0more")
            return
        if length is not None:
            assert length == len(growing) == len(data) == judge(claim, data + b"\0more")
            return
    assert vector.get("eof")


def test_the_opening_is_the_simplest_preface_that_asks_for_an_answer():
    vector = PREFACES["un-02-unspec-answer-epoch"]
    claim = Claim(CLAIM.identity, CLAIM.generation, CLAIM.instance, Epoch(3))
    assert opening(claim).hex() + vector["expect"]["payload_hex"] == vector["hex"]


def test_an_opening_can_do_without_an_answer():
    claim = read_claim(read_header(opening(CLAIM, ask_answer=False)).tlvs)
    assert not claim.answer.wanted
    assert (claim.epoch, claim.controller) == (CLAIM.epoch, CLAIM.controller)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (Answer("admitted", None, "", Identity("prod-eu", "replica-a", 3), Generation(7), Instance(UID)), "identity"),
        (Answer("admitted", None, "", CLAIM.identity, Generation(8), Instance(UID)), "generation"),
        (Answer("admitted", None, "", CLAIM.identity, Generation(7), Instance("U2")), "instance"),
        (Answer("admitted", None, "", CLAIM.identity, None, Instance(UID)), "generation"),
        (Answer("admitted", None, "", CLAIM.identity, Generation(7)), "instance"),
    ],
)
def test_an_admission_that_does_not_name_what_was_claimed_is_none(answer, says):
    with pytest.raises(WrongPeerError, match=f"for {says} ") as caught:
        judge(CLAIM, answered(answer))
    assert (caught.value.reason, caught.value.advice) == ("wrong_peer", Advice.RE_RESOLVE)


def test_an_admission_without_an_identity_is_none():
    anonymous = write_header(source=None, destination=None, tlvs=[Tlv(0xEB, b"admitted")])
    with pytest.raises(WrongPeerError, match="names none"):
        judge(CLAIM, anonymous)


def test_what_was_not_claimed_is_not_compared():
    assert judge(Claim(CLAIM.identity), answered(ADMITTED)) == len(answered(ADMITTED))


def test_a_refusal_shows_what_the_sidecar_says_but_offers_none_of_it_as_a_claim():
    refusal = Answer(
        "controller_stale", Advice.STOP, "epoch 4, floor 5", CLAIM.identity, Generation(9), Instance("U2"), Epoch(5)
    )
    with pytest.raises(RefusedError) as caught:
        judge(CLAIM, answered(refusal))
    error = caught.value
    assert str(error) == (
        "controller_stale: epoch 4, floor 5; "
        "it is identity prod-eu/replica-a/2, generation 9, instance U2, epoch floor 5"
    )
    assert (error.reason, error.advice) == ("controller_stale", Advice.STOP)
    assert all(isinstance(value, str) for value in vars(error).values())
    assert error.__cause__ is error.__context__ is None


def test_a_refusal_that_says_nothing_more_is_its_reason():
    with pytest.raises(RefusedError) as caught:
        judge(CLAIM, answered(Answer("draining", Advice.RETRY)))
    assert str(caught.value) == "draining"


@pytest.mark.parametrize(
    "data", [b"HTTP/1.1 400 Bad Request\r\n", b"\x15\x03\x03\x00\x02", b"PROXY TCP4", opening(CLAIM)[:14] + b"\xff"]
)
def test_bytes_that_are_no_answer_come_from_no_sidecar(data):
    with pytest.raises(NotASidecarError) as caught:
        judge(CLAIM, data + b"\xff")
    assert (caught.value.reason, caught.value.advice) == ("not_a_sidecar", Advice.RE_RESOLVE)


def test_our_own_opening_sent_back_admits_nothing():
    """An echo server repeats the preface: its 0xEB holds "1", which is no verdict."""
    with pytest.raises(NotASidecarError):
        judge(CLAIM, opening(CLAIM))


@pytest.mark.parametrize(
    ("alert", "ending"),
    [
        (
            "unknown ca",
            "'unknown ca': the sidecar doesn't know the CA of this side's certificate, or has no usable CRL of it",
        ),
        ("certificate revoked", "'certificate revoked': this side's certificate is revoked"),
        ("internal error", "the alert 'internal error'"),
    ],
)
def test_an_alert_is_told_with_what_it_means_where_that_is_known(alert, ending):
    error = TlsRefusedError(alert)
    assert str(error).endswith(ending)
    assert error.advice is Advice.FIX


def test_an_end_says_whether_an_answer_had_begun():
    assert "closed without an answer" in str(ended(b""))
    assert "after 20 bytes" in str(ended(answered(ADMITTED)[:20]))


def test_words_of_our_own_are_never_taken_for_a_sidecars():
    errors = (WrongPeerError, NotASidecarError, NoAnswerError, UnreachableError, TlsRefusedError, UnprovenPeerError)
    own = {error("x").reason for error in errors}
    assert len(own) == len(errors)
    assert own.isdisjoint(set(Reason))


# Where to dial


@pytest.mark.parametrize(
    ("address", "target"),
    [
        ("replica-a-2.db:7101", TcpTarget("replica-a-2.db", 7101)),
        ("192.0.2.1:1", TcpTarget("192.0.2.1", 1)),
        ("[::1]:65535", TcpTarget("::1", 65535)),
        (("::1", 7101), TcpTarget("::1", 7101)),
        ("unix:/run/a b:1", UnixTarget("/run/a b:1")),
    ],
)
def test_an_address_is_a_host_and_port_or_a_path(address, target):
    assert parse_target(address) == target


@pytest.mark.parametrize(
    "address",
    [
        *("", "host", "host:", ":7101", "host:0", "host:65536", "host:07101", "host:+1", "host:7101 ", "ho st:1"),
        *("::1:7101", "[]:1", "[::1]", "host:\u0661", "http://host:80", "unix:", "unix:/a\0b", "ho\0st:1", ("", 1)),
        *(("host", 0), ("host", -1)),
    ],
)
def test_what_is_no_address_is_refused(address):
    with pytest.raises(MalformedValue):
        parse_target(address)


# Any bytes

END = InetAddress(IPv4Address("127.0.0.1"), 1)
nearly_answers = st.builds(
    lambda data, at, byte: data[:at] + bytes([byte]) + data[at + 1 :],
    st.just(write_answer(ADMITTED, dialler=END, sidecar=END)),
    st.integers(0, 110),
    st.integers(0, 255),
)


@given(st.one_of(st.binary(max_size=40), nearly_answers))
def test_any_bytes_admit_or_wait_or_are_a_dial_error(data):
    try:
        length = judge(CLAIM, data)
    except DialError:
        return
    assert length is None or length <= len(data)
