"""docs/wire.md says what the code does: its tables are the enums, its examples are what the codec writes."""

import re
from ipaddress import ip_address
from pathlib import Path

from sidecar.dialler import ANSWER_WITHIN, judge, opening
from sidecar.identity import MAX_COUNTER, MAX_ORDINAL, MAX_TOKEN_LENGTH, Epoch, Generation, Identity, Instance
from sidecar.preface.answer import (
    MAX_ANSWER_LENGTH,
    MAX_DETAIL_LENGTH,
    TYPE_ADVICE,
    TYPE_DETAIL,
    TYPE_EPOCH,
    TYPE_GENERATION,
    TYPE_IDENTITY,
    TYPE_INSTANCE,
    TYPE_VERDICT,
    Answer,
    write_answer,
)
from sidecar.preface.claim import Claim, TlvTypes
from sidecar.preface.proxy_v2 import MAX_HEADER_LENGTH, Fault, InetAddress
from sidecar.reasons import ADVICE, Advice

DOCUMENT = (Path(__file__).resolve().parent.parent / "docs" / "wire.md").read_text()

CLAIM = Claim(Identity("prod-eu", "replica-a", 2), Generation(7), None, Epoch(3))
ENDS = {
    "dialler": InetAddress(ip_address("192.0.2.10"), 51000),
    "sidecar": InetAddress(ip_address("198.51.100.7"), 7101),
}


def table(first_column):
    """The rows of the one table with this heading, without heading and rule, as lists of cells."""
    (found,) = re.findall(rf"^\| {first_column} \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", DOCUMENT, flags=re.MULTILINE)
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in found.splitlines()]


def code(cell):
    return re.findall(r"`([^`]*)`", cell)


def examples():
    """The bytes of each hex block, without what is said beside them."""
    blocks = re.findall(r"```hex\n(.*?)```", DOCUMENT, flags=re.DOTALL)
    return [
        b"".join(bytes.fromhex(re.match(r"(?:[0-9a-f]{2} {1,2})+", line)[0]) for line in block.splitlines())
        for block in blocks
    ]


def test_every_reason_is_listed_in_order_with_its_advice():
    listed = {code(reason)[0]: code(advice)[0] for reason, _, advice in table("reason")}
    assert list(listed.items()) == [(reason.value, advice.value) for reason, advice in ADVICE.items()]


def test_every_advice_is_listed():
    assert [code(advice)[0] for advice, _ in table("advice")] == list(Advice)


def test_every_fault_is_listed_in_the_order_in_which_it_is_looked_for():
    assert [code(fault)[0] for fault, _ in table("fault")] == list(Fault)


def test_the_tlv_types_are_those_of_the_code():
    rows = table("type")
    in_the_preface = {int(code(kind)[0], 16) for kind, preface, _ in rows if preface}
    in_the_answer = {int(code(kind)[0], 16) for kind, _, answer in rows if answer}
    types = TlvTypes()
    assert in_the_preface == {
        types.identity,
        types.generation,
        types.instance,
        types.epoch,
        types.controller,
        types.answer,
    }
    assert in_the_answer == {
        *(TYPE_VERDICT, TYPE_ADVICE, TYPE_DETAIL),
        *(TYPE_IDENTITY, TYPE_GENERATION, TYPE_INSTANCE, TYPE_EPOCH),
    }


def test_the_limits_are_those_of_the_code():
    assert f"A whole header is at most **{MAX_HEADER_LENGTH:,} bytes**" in DOCUMENT
    assert f"at most **{MAX_ANSWER_LENGTH:,} bytes**" in DOCUMENT
    assert f"at most {MAX_DETAIL_LENGTH} bytes from blank" in DOCUMENT
    assert f"from 0 to {MAX_ORDINAL}" in DOCUMENT
    assert f"from 1 to {MAX_COUNTER} " in DOCUMENT
    assert f"1 to {MAX_TOKEN_LENGTH} bytes" in DOCUMENT
    assert f"at most {ANSWER_WITHIN:g} seconds" in DOCUMENT


def test_the_examples_are_what_the_codec_writes():
    own = {"identity": CLAIM.identity, "generation": CLAIM.generation}
    instance = Instance("3f0c9a52-7d41-4c7e-9a56-0b8f6f1f2d31")
    assert examples() == [
        opening(CLAIM),
        write_answer(Answer("admitted", instance=instance, **own), **ENDS),
        write_answer(Answer("generation_stale", Advice.REFRESH), **ENDS),
    ]


def test_the_dialler_of_the_example_is_admitted():
    _, admitted, _ = examples()
    assert judge(CLAIM, admitted) == len(admitted)
