"""The hand-over's messages as bytes."""

from __future__ import annotations

from contextlib import suppress

import pytest
from fake_lifeline import LOCAL, PEER, packet
from hypothesis import given
from hypothesis import strategies as st

from sidecar.handoff_format import (
    MAX_PACKET,
    READY,
    Decision,
    Introduction,
    LifelineError,
    Refusal,
    Reply,
    check_ready,
    decide,
    read_packet,
    read_reply,
    write_packet,
)
from sidecar.identity import ControllerName, Epoch
from sidecar.preface.claim import Claim
from sidecar.preface.proxy_v2 import Command, Tlv, UnixAddress, write_header
from tests.names import CLAIM, OWN

WHOLE = Claim(OWN, CLAIM.generation, CLAIM.instance, Epoch(3), ControllerName("controller-a"))


def test_a_packet_is_read_to_its_last_part():
    assert read_packet(packet(12, claim=WHOLE, answer=b"answer", first=b"first bytes")) == Introduction(
        number=12,
        identity=OWN,
        generation=CLAIM.generation,
        instance=CLAIM.instance,
        epoch=Epoch(3),
        controller=ControllerName("controller-a"),
        peer=PEER,
        local=LOCAL,
        answer=b"answer",
        first=b"first bytes",
    )


def test_what_a_sidecar_does_not_know_is_absent():
    introduction = read_packet(packet(1, claim=Claim(OWN), peer=None, local=None))
    assert introduction == Introduction(1, OWN, None, None, None, None, None, None, b"", b"")


def test_an_unknown_part_is_skipped():
    assert read_packet(packet(1, more=(Tlv(0xF2, b"later"), Tlv(0xEB, b"1")))) == read_packet(packet(1))


@given(
    number=st.integers(1, 2**64 - 1),
    answer=st.none() | st.binary(max_size=1024),
    first=st.binary(max_size=2000),
)
def test_every_packet_is_read_back(number, answer, first):
    introduction = read_packet(packet(number, answer=answer, first=first))
    assert (introduction.number, introduction.answer, introduction.first) == (number, answer or b"", first)


@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda rest: packet(1)[:30] + rest))
def test_whatever_comes_is_read_or_refused_as_broken(data):
    with suppress(LifelineError):
        read_packet(data)


@given(st.integers(0, len(packet(1, answer=b"a")) - 1))
def test_a_packet_that_ends_within_its_header_is_broken(length):
    with pytest.raises(LifelineError):
        read_packet(packet(1, answer=b"a")[:length])


def test_a_packet_may_be_as_long_as_the_format_says_and_no_longer():
    room = MAX_PACKET - len(packet(1))
    assert len(read_packet(packet(1, first=bytes(room))).first) == room
    with pytest.raises(LifelineError, match="more than 16384 bytes"):
        read_packet(packet(1, first=bytes(room + 1)))


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (b"", "ends within its header"),
        (b"GET / HTTP/1.1\r\n", "no hand-over"),
        (write_header(source=None, destination=None, command=Command.LOCAL), "command LOCAL"),
        (packet(None), "no number"),
        (packet(0), "isn't a decimal number"),
        (packet(None, more=(Tlv(0xF0, b""),)), "isn't a decimal number"),
        (packet(None, more=(Tlv(0xF0, b"+1"),)), "isn't a decimal number"),
        (packet(None, more=(Tlv(0xF0, b"1\n"),)), "isn't a decimal number"),
        (packet(None, more=(Tlv(0xF0, "\u0661".encode()),)), "isn't a decimal number"),
        (packet(1, more=(Tlv(0xF0, b"1"),)), "2 numbers"),
        (packet(1, answer=b"", more=(Tlv(0xF1, b""),)), "2 answers"),
        (packet(1, more=(Tlv(0xE5, b"prod-eu/replica-a/2"),)), "identity given twice"),
        (packet(1, more=(Tlv(0xE8, b"0"),)), "epoch must be between"),
        (write_header(source=None, destination=None, tlvs=[Tlv(0xF0, b"1")]), "no identity"),
    ],
)
def test_a_packet_that_lacks_or_doubles_something_is_broken(broken, why):
    with pytest.raises(LifelineError, match=why):
        read_packet(broken)


def test_a_unix_client_has_an_address_only_where_the_sidecar_states_one():
    path = UnixAddress(b"/run/client")
    assert read_packet(packet(1, peer=path, local=path)).peer == path


@pytest.mark.parametrize(
    ("descriptors", "lost", "full", "reply"),
    [
        (1, False, False, b"taken 7"),
        (1, False, True, b"refused 7 full"),
        (0, True, False, b"refused 7 descriptors"),
        (0, True, True, b"refused 7 descriptors"),
    ],
)
def test_a_sound_packet_is_replied_to(descriptors, lost, full, reply):
    assert decide(packet(7), descriptors=descriptors, lost=lost, full=full).reply == reply


@pytest.mark.parametrize(("descriptors", "lost"), [(0, False), (2, False), (1, True), (2, True)])
def test_anything_but_one_descriptor_is_broken(descriptors, lost):
    with pytest.raises(LifelineError, match="instead of one"):
        decide(packet(7), descriptors=descriptors, lost=lost, full=False)


def test_a_decision_says_why():
    assert decide(packet(7), descriptors=0, lost=True, full=False) == Decision(
        read_packet(packet(7)), Refusal.DESCRIPTORS
    )


def test_readiness_names_the_format():
    assert READY == b"ready 1"
    check_ready(b"ready 1")
    for other in (b"ready 2", b"ready", b"taken 1", b"READY 1", b"ready 1\n"):
        with pytest.raises(LifelineError, match="instead of b'ready 1'"):
            check_ready(other)


@given(
    number=st.integers(1, 2**64 - 1),
    answer=st.binary(max_size=1024),
    first=st.binary(max_size=4096),
    epoch=st.none() | st.just(Epoch(3)),
    ends=st.sampled_from([(PEER, LOCAL), (None, None)]),
)
def test_what_the_sidecar_writes_the_receiver_reads(number, answer, first, epoch, ends):
    said = Introduction(number, OWN, CLAIM.generation, CLAIM.instance, epoch, None, *ends, answer, first)
    written = write_packet(said)
    assert len(written) <= MAX_PACKET
    assert read_packet(written) == said


@given(st.integers(1, 10**20 - 1), st.sampled_from([None, *Refusal]))
def test_what_the_receiver_replies_the_sidecar_reads(number, refusal):
    decision = Decision(Introduction(number, OWN, *[None] * 6, b"", b""), refusal)
    assert read_reply(decision.reply) == Reply(number, refusal)


@pytest.mark.parametrize(
    "message",
    [b"", b"taken", b"taken 0", b"taken 01", b"taken 1 ", b"taken -1", b"refused 1", b"refused 1 perhaps", b"\xff 1"],
)
def test_anything_else_is_no_reply(message):
    with pytest.raises(LifelineError, match="which is no reply"):
        read_reply(message)


def test_each_refusal_has_words():
    assert len({refusal.words for refusal in Refusal}) == len(Refusal)
