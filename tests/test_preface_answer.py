import json
import re
from dataclasses import replace
from ipaddress import IPv4Address, ip_address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.errors import MalformedValue
from sidecar.identity import Epoch, Generation, Identity, Instance
from sidecar.preface.answer import MAX_ANSWER_LENGTH, Answer, AnswerError, read_answer, write_answer
from sidecar.preface.proxy_v2 import Command, Header, InetAddress, Tlv, read_header
from sidecar.reasons import ADVICE, Advice

VECTORS = json.loads((Path(__file__).parent / "vectors" / "answer.json").read_text())
OWN = {
    "identity": Identity("prod-eu", "replica-a", 2),
    "generation": Generation(7),
    "instance": Instance("3f0c9a52-7d41-4c7e-9a56-0b8f6f1f2d31"),
}
ADMITTED = Answer("admitted", **OWN)
REFUSED = Answer("generation_stale", Advice.REFRESH)


def answer_of(fields):
    return Answer(
        verdict=fields["verdict"],
        advice=Advice(fields["advice"]) if "advice" in fields else None,
        detail=fields.get("detail", ""),
        identity=Identity.parse(fields["identity"]) if "identity" in fields else None,
        generation=Generation.parse(fields["generation"]) if "generation" in fields else None,
        instance=Instance(fields["instance"]) if "instance" in fields else None,
        epoch=Epoch.parse(fields["epoch"]) if "epoch" in fields else None,
    )


def end_of(pair):
    return pair and InetAddress(ip_address(pair[0]), pair[1])


def written(answer):
    return write_answer(answer, dialler=None, sidecar=None)


def header_of(*tlvs, command=Command.PROXY):
    return Header(command, None, None, tuple(Tlv(kind, value) for kind, value in tlvs), 100)


@pytest.mark.parametrize("vector", VECTORS["answers"], ids=lambda vector: vector["id"])
def test_an_answer_is_written_byte_for_byte_and_read_back(vector):
    answer = answer_of(vector["fields"])
    data = write_answer(answer, dialler=end_of(vector["dialler"]), sidecar=end_of(vector["sidecar"]))
    assert data.hex() == vector["hex"]
    assert read_answer(read_header(data)) == answer


def test_the_biggest_answer_fits_the_limit():
    end = InetAddress(ip_address("2001:db8::1"), 1)
    biggest = Answer(
        "v" * 64,
        Advice.RE_RESOLVE,
        "d" * 1000,
        Identity("a" * 63, "b" * 63, 2**31 - 1),
        Generation(2**64 - 1),
        Instance("c" * 128),
        Epoch(2**64 - 1),
    )
    data = write_answer(biggest, dialler=end, sidecar=end)
    assert len(data) <= MAX_ANSWER_LENGTH
    assert read_answer(read_header(data)) == replace(biggest, detail="d" * 256)


def test_detail_is_printable_ascii_and_keeps_what_was_escaped_before():
    answer = replace(REFUSED, detail="wanted a\\x0d, here \u00e9\r\n\x1b")
    assert read_answer(read_header(written(answer))).detail == r"wanted a\x0d, here \xe9\r\n\x1b"


def test_a_detail_that_comes_with_control_bytes_is_shown_escaped():
    answer = read_answer(header_of((0xEB, b"fenced"), (0xED, b"retry"), (0xEC, b"a\n\xff")))
    assert answer.detail == r"a\n\xff"


def test_an_admission_names_its_own_side():
    with pytest.raises(ValueError, match="identity"):
        written(Answer("admitted"))


@pytest.mark.parametrize("verdict", ["", "Admitted", "no blanks", "x" * 65, "tab\t", "\u0430dmitted", "admitted\n"])
def test_a_verdict_is_one_plain_word(verdict):
    with pytest.raises(MalformedValue, match="verdict"):
        Answer(verdict, Advice.RETRY)


def test_a_refusal_carries_an_advice_and_an_admission_none():
    with pytest.raises(MalformedValue, match="advice"):
        Answer("admitted", Advice.RETRY)
    with pytest.raises(MalformedValue, match="advice"):
        Answer("fenced")


# Reading


@pytest.mark.parametrize("advice", [(), ((0xED, b""),), ((0xED, b"dance"),), ((0xED, b"\xff"),), ((0xED, b"Retry"),)])
def test_an_unknown_or_absent_advice_counts_as_re_resolve(advice):
    answer = read_answer(header_of((0xEB, b"some_reason_of_2031"), *advice))
    assert answer == Answer("some_reason_of_2031", Advice.RE_RESOLVE)


def test_tlvs_of_a_later_format_are_skipped_even_repeated():
    known = read_answer(read_header(written(ADMITTED)))
    more = read_header(written(ADMITTED))
    assert read_answer(replace(more, tlvs=(*more.tlvs, Tlv(0xEE, b"x"), Tlv(0xEE, b"y")))) == known == ADMITTED


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (header_of(command=Command.LOCAL), "LOCAL"),
        (header_of(), "no verdict"),
        (header_of((0xE5, b"prod-eu/replica-a/2")), "no verdict"),
        (header_of((0xEB, b"")), "verdict"),
        (header_of((0xEB, b"two words")), "verdict"),
        (header_of((0xEB, b"\xff")), "verdict"),
        (header_of((0xEB, b"admitted"), (0xEB, b"admitted")), "0xEB twice"),
        (header_of((0xEB, b"admitted"), (0xE5, b"a/b/0"), (0xE5, b"a/b/0")), "0xE5 twice"),
        (header_of((0xEB, b"fenced"), (0xEC, b"a"), (0xEC, b"a")), "0xEC twice"),
        (header_of((0xEB, b"admitted"), (0xED, b"retry")), "advice"),
        (header_of((0xEB, b"admitted"), (0xE5, b"a/b")), "identity"),
        (header_of((0xEB, b"admitted"), (0xE6, b"07")), "generation"),
        (header_of((0xEB, b"admitted"), (0xE7, b"")), "instance"),
        (header_of((0xEB, b"fenced"), (0xED, b"retry"), (0xE8, b"0")), "epoch"),
        (replace(header_of((0xEB, b"fenced")), length=1025), "1024"),
    ],
)
def test_what_is_no_answer_is_refused(header, message):
    with pytest.raises(AnswerError, match=message):
        read_answer(header)


tokens = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=128)
answers = st.builds(
    Answer,
    st.sampled_from(sorted(ADVICE)),
    st.sampled_from(Advice),
    st.from_regex(r"[ -~]{0,256}", fullmatch=True),
    st.none() | st.just(OWN["identity"]),
    st.none() | st.builds(Generation, st.integers(1, 2**64 - 1)),
    st.none() | st.builds(Instance, tokens),
    st.none() | st.builds(Epoch, st.integers(1, 2**64 - 1)),
)
anything = st.lists(
    st.tuples(
        st.integers(0xE4, 0xEE), st.sampled_from([b"admitted", b"fenced", b"retry", b"a/b/0", b"1", b"\xff", b""])
    ),
    max_size=8,
).map(lambda tlvs: header_of(*tlvs))


@given(answers)
def test_every_refusal_is_read_back_as_it_was_written(answer):
    assert read_answer(read_header(written(answer))) == answer


@given(anything)
def test_any_header_is_an_answer_or_an_answer_error(header):
    try:
        answer = read_answer(header)
    except AnswerError:
        return
    assert answer.admitted == (answer.advice is None)


@given(st.text(max_size=400))
def test_any_detail_becomes_at_most_256_printable_characters(detail):
    data = write_answer(
        replace(REFUSED, detail=detail),
        dialler=InetAddress(IPv4Address("127.0.0.1"), 1),
        sidecar=InetAddress(IPv4Address("127.0.0.1"), 2),
    )
    shown = [tlv.value for tlv in read_header(data).tlvs if tlv.type == 0xEC]
    assert [bool(re.fullmatch(rb"[ -~]{1,256}", value)) for value in shown] == ([True] if detail else [])
