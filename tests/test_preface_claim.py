import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.errors import MalformedValue
from sidecar.identity import ControllerName, Epoch, Generation, Identity, Instance
from sidecar.preface import claim as module
from sidecar.preface.claim import (
    AnswerRequest,
    Claim,
    Malformed,
    ReceivedClaim,
    TlvTypes,
    claim_of,
    read_claim,
    write_claim,
)
from sidecar.preface.proxy_v2 import Command, Tlv, read_header, write_header
from sidecar.preface.tlv import REMEMBERED, read_block, write_block

VECTORS = json.loads((Path(__file__).parent / "vectors" / "preface.json").read_text())["vectors"]
UID = "3f0c9a52-7d41-4c7e-9a56-0b8f6f1f2d31"
RIGHT = ReceivedClaim(Identity("prod-eu", "replica-a", 2), Generation(7), Instance(UID))
FULL = Claim(RIGHT.identity, RIGHT.generation, RIGHT.instance, Epoch(3), ControllerName("controller-a"))


def received(vector_id):
    (vector,) = (v for v in VECTORS if v["id"] == vector_id)
    return read_claim(read_header(bytes.fromhex(vector["hex"])).tlvs)


# The published byte strings

REASON_OF_PART = {
    "identity_malformed": ("identity",),
    "incarnation_malformed": ("generation", "instance"),
    "controller_malformed": ("epoch", "controller"),
}


@pytest.mark.parametrize(
    "vector", [v for v in VECTORS if v["expect"]["result"] == "accept"], ids=lambda vector: vector["id"]
)
def test_a_claim_is_malformed_exactly_where_the_vectors_say(vector):
    header = read_header(bytes.fromhex(vector["hex"]))
    claim = read_claim(header.tlvs)
    parts = ("identity", "generation", "instance", "epoch", "controller")
    malformed = {name for name in parts if isinstance(getattr(claim, name), Malformed)}
    expected = REASON_OF_PART.get(vector["product_expect"].get("reason"), ())
    assert bool(malformed) == bool(expected)
    assert malformed <= set(expected)
    if vector["product_expect"]["decision"] == "forward" and header.command is Command.PROXY:
        assert (claim.identity, claim.generation, claim.instance) == (RIGHT.identity, RIGHT.generation, RIGHT.instance)


def test_a_whole_claim_is_read():
    assert received("v2-24-identity-good") == RIGHT
    assert received("ep-01-epoch") == ReceivedClaim(
        RIGHT.identity, RIGHT.generation, RIGHT.instance, Epoch(5), ControllerName("controller-a")
    )


def test_parts_that_were_not_given_are_absent():
    assert received("v2-01-tcp4-min") == ReceivedClaim()
    assert received("id-20-no-uid-generation-only") == ReceivedClaim(RIGHT.identity, RIGHT.generation)


# Given twice, empty, unusable


@pytest.mark.parametrize(("kind", "part"), [(0xE5, "identity"), (0xE6, "generation"), (0xE7, "instance")])
def test_a_part_given_twice_is_malformed_in_both_orders(kind, part):
    for values in ((b"a/b/0", b"a/b/1"), (b"a/b/1", b"a/b/0"), (b"1", b"1")):
        claim = read_claim([Tlv(kind, value) for value in values])
        assert getattr(claim, part) == Malformed(b", ".join(values), "given twice")


@pytest.mark.parametrize(("kind", "part"), [(0xE8, "epoch"), (0xE9, "controller")])
def test_a_controller_given_twice_is_malformed(kind, part):
    assert getattr(read_claim([Tlv(kind, b"1")] * 3), part) == Malformed(b"1, 1, 1", "given twice")


def test_a_part_that_is_there_and_empty_is_malformed_and_not_absent():
    claim = read_claim([Tlv(kind, b"") for kind in (0xE5, 0xE6, 0xE7, 0xE8, 0xE9)])
    empty = Malformed(b"", "is empty")
    assert claim == ReceivedClaim(empty, empty, empty, empty, empty)


def test_what_is_wrong_is_said_without_the_value():
    claim = read_claim([Tlv(0xE6, b"+7")])
    assert claim.generation == Malformed(b"+7", "must be a decimal number without sign, blanks or leading zeros")


def test_the_order_of_tlvs_and_unknown_ones_change_nothing():
    tlvs = [*write_claim(FULL, answer=True), Tlv(0xEA, b"1"), Tlv(0x01, b"h2")]
    assert read_claim(reversed(tlvs)) == read_claim(tlvs)


@pytest.mark.parametrize(
    ("values", "request_", "wanted", "fault"),
    [
        ([], AnswerRequest.NONE, False, None),
        ([b"1"], AnswerRequest.FORMAT_1, True, None),
        ([b"2"], AnswerRequest.UNKNOWN_VERSION, True, "answer_version"),
        ([b""], AnswerRequest.UNKNOWN_VERSION, True, "answer_version"),
        ([b"\x01"], AnswerRequest.UNKNOWN_VERSION, True, "answer_version"),
        ([b"1", b"1"], AnswerRequest.DUPLICATE, True, "answer_duplicate"),
    ],
)
def test_an_answer_asked_for_in_a_wrong_way_is_still_asked_for(values, request_, wanted, fault):
    answer = read_claim([Tlv(0xEB, value) for value in values]).answer
    assert (answer, answer.wanted, answer.fault) == (request_, wanted, fault)


# As text


def test_a_log_shows_only_what_was_given():
    assert received("id-20-no-uid-generation-only").as_text() == {"identity": "prod-eu/replica-a/2", "generation": "7"}
    assert ReceivedClaim().as_text() == {}


def test_a_log_shows_unusable_values_escaped_and_cut():
    assert received("v2-32-identity-crlf").as_text()["identity"] == r"prod-eu/replica-a/2\x0d\x0aX: y"
    assert received("v2-33-identity-not-utf8").as_text()["identity"] == r"prod-\xff\xfe/replica-a/2"
    long = received("id-15-too-long").as_text()["identity"]
    assert len(long) == 160
    assert long.endswith("...")


def test_the_longest_valid_values_are_shown_whole():
    claim = Claim(Identity("a" * 63, "b" * 63, 2**31 - 1), Generation(2**64 - 1), Instance("c" * 128))
    shown = read_claim(write_claim(claim, answer=False)).as_text()
    assert shown == {"identity": str(claim.identity), "generation": str(2**64 - 1), "instance": "c" * 128}


# Remembered


blocks = st.lists(
    st.builds(
        Tlv,
        st.sampled_from([0x05, 0xE5, 0xE6, 0xE7, 0xE8, 0xE9, 0xEB]),
        st.sampled_from([b"a/b/0", b"a/b/1", b"1", b"2", b"", b"\xff", bytes(700)]),
    ),
    max_size=6,
).map(write_block)


@given(blocks, st.sampled_from([TlvTypes(), TlvTypes(identity=0x05)]))
def test_a_claim_that_comes_again_is_the_same_on_each_listener(block, types):
    for each in (types, TlvTypes(instance=0x06), types):
        assert claim_of(bytes(memoryview(block)), each) == read_claim(read_block(block).tlvs, each)


def test_strangers_cant_make_it_remember_more_than_a_few_claims():
    for number in range(10 * REMEMBERED):
        claim_of(write_block([Tlv(0xE5, b"%d" % number)]))
    assert module._remembered.cache_info().currsize == REMEMBERED


def test_who_changes_the_text_of_a_claim_changes_their_own_copy():
    claim = ReceivedClaim(RIGHT.identity)
    claim.as_text().clear()
    assert claim.as_text() == {"identity": "prod-eu/replica-a/2"}


# Types


def test_a_listener_can_remap_the_types():
    types = TlvTypes(identity=0x05, answer=0xF0)
    tlvs = write_claim(FULL, types, answer=True)
    assert tlvs[0].type == 0x05
    assert tlvs[-1] == Tlv(0xF0, b"1")
    assert read_claim(tlvs, types) == read_claim(write_claim(FULL, answer=True))
    assert read_claim(tlvs).identity is None


@pytest.mark.parametrize(
    ("remap", "message"),
    [
        ({"identity": 0xE6}, "identity and generation have the same TLV type, 0xE6"),
        ({"answer": 0x03}, "answer is 0x03, which the header itself uses"),
        ({"epoch": 0x04}, "epoch is 0x04, which the header itself uses"),
        ({"controller": 0}, "controller must be between 0x01 and 0xFF"),
        ({"instance": 256}, "instance must be between 0x01 and 0xFF"),
    ],
)
def test_types_that_cannot_work_are_refused(remap, message):
    with pytest.raises(MalformedValue, match=re.escape(message)):
        TlvTypes(**remap)


# Writing


def test_the_simplest_dialler_writes_what_the_vectors_show():
    for vector_id, answer in (("un-01-unspec-with-claim", False), ("un-02-unspec-answer-epoch", True)):
        (vector,) = (v for v in VECTORS if v["id"] == vector_id)
        claim = Claim(RIGHT.identity, RIGHT.generation, RIGHT.instance, Epoch(3) if answer else None)
        data = write_header(source=None, destination=None, tlvs=write_claim(claim, answer=answer))
        assert data == bytes.fromhex(vector["hex"])[: vector["expect"]["header_len"]]


tokens = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=128)
counters = st.integers(1, 2**64 - 1)
segments = st.from_regex(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", fullmatch=True)
claims = st.builds(
    Claim,
    st.builds(Identity, segments, segments, st.integers(0, 2**31 - 1)),
    st.none() | st.builds(Generation, counters),
    st.none() | st.builds(Instance, tokens),
    st.none() | st.builds(Epoch, counters),
    st.none() | st.builds(ControllerName, tokens),
)


@given(claims, st.booleans())
def test_what_a_dialler_states_is_what_a_sidecar_reads(claim, answer):
    tlvs = write_claim(claim, answer=answer)
    assert [tlv.type for tlv in tlvs] == sorted(tlv.type for tlv in tlvs)
    assert read_claim(tlvs) == ReceivedClaim(
        claim.identity,
        claim.generation,
        claim.instance,
        claim.epoch,
        claim.controller,
        AnswerRequest.FORMAT_1 if answer else AnswerRequest.NONE,
    )


@given(st.lists(st.builds(Tlv, st.integers(0xE0, 0xEF), st.binary(max_size=300)), max_size=10))
def test_reading_never_fails_and_never_shows_more_than_printable_text(tlvs):
    for text in read_claim(tlvs).as_text().values():
        assert re.fullmatch(r"[ -~]{0,160}", text)
