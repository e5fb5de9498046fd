from __future__ import annotations

import base64
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.tls.pem import Block, MalformedPem, read_blocks


def block(label: str, content: bytes, *, end: str = "\n") -> str:
    text = base64.b64encode(content).decode()
    lines = [text[at : at + 64] for at in range(0, len(text), 64)]
    return "".join(line + end for line in [f"-----BEGIN {label}-----", *lines, f"-----END {label}-----"])


CONTENTS = [bytes([number]) * 100 for number in range(1, 4)]
BUNDLE = "".join(f"# root {content[0]}\n{block('CERTIFICATE', content)}\n" for content in CONTENTS).encode()

LABELS = st.sampled_from(["CERTIFICATE", "X509 CRL", "PRIVATE KEY", "EC PARAMETERS"])
COMMENTS = st.sampled_from(["", "\n", "# the old root\n", "Root of all: CN=x\n", "=====\n", "BEGIN here\n"])


@given(st.lists(st.tuples(COMMENTS, LABELS, st.binary(min_size=1, max_size=200), st.sampled_from(["\n", "\r\n"]))))
def test_blocks_are_found_between_any_text(parts):
    text = "".join(comment + block(label, content, end=end) for comment, label, content, end in parts)
    expected = tuple(Block(number, label, content) for number, (_, label, content, _) in enumerate(parts, start=1))
    assert read_blocks(text.encode()) == expected


def test_a_last_line_without_its_end_is_a_line():
    assert len(read_blocks(BUNDLE.rstrip())) == 3


def test_a_file_without_a_block_holds_none():
    assert read_blocks(b"") == read_blocks(b"only words\n") == ()


@given(st.integers(0, len(BUNDLE) - 1), st.integers(0, 255))
def test_a_damaged_byte_never_loses_a_block(at, byte):
    damaged = BUNDLE[:at] + bytes([byte]) + BUNDLE[at + 1 :]
    with suppress(MalformedPem):
        assert len(read_blocks(damaged)) == 3


@given(st.integers(0, len(BUNDLE)), st.integers(0, len(BUNDLE)))
def test_what_was_cut_out_costs_whole_blocks_or_the_file(first, second):
    start, end = sorted((first, second))
    try:
        blocks = read_blocks(BUNDLE[:start] + BUNDLE[end:])
    except MalformedPem:
        return
    whole = [each.der for each in blocks if each.der in CONTENTS]
    joined = [each for each in blocks if each.der not in CONTENTS]  # two ends of what was cut that fit each other
    assert len(joined) <= 1
    assert whole == [content for content in CONTENTS if content in whole]


@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_else(text):
    with suppress(MalformedPem):
        read_blocks(text)


def edited(old: str, new: str, number: int) -> bytes:
    parts = BUNDLE.decode().split(old)
    return (old.join(parts[:number]) + new + old.join(parts[number:])).encode()


BEGIN, END = "-----BEGIN CERTIFICATE-----\n", "-----END CERTIFICATE-----\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (edited(BEGIN, "", 2), "line 12 ends a block that never began, after block 1"),
        (edited(END, "", 2), "block 2 has no end: another one begins on line 15"),
        (edited(END, "", 3), "block 3 has no end: the file is cut off"),
        (edited(BEGIN, "----BEGIN CERTIFICATE-----\n", 2), "line 9 is a damaged PEM marker, near block 1"),
        (edited(END, "-----END CERTIFICATE----\n", 2), "line 13 is a damaged PEM marker, near block 2"),
        (BUNDLE[: BUNDLE.rindex(BEGIN.encode()) + 3], "line 16 is a damaged PEM marker, near block 2"),
        (edited(END, "-----END X509 CRL-----\n", 2), "block 2 begins as CERTIFICATE and ends as X509 CRL"),
        (edited(BEGIN, BEGIN + "!", 2), "block 2 is damaged: its content is no base64"),
        (edited(BEGIN, BEGIN + "Proc-Type: 4,ENCRYPTED\n", 2), "block 2 has headers: it is encrypted"),
        ((BEGIN + END).encode(), "block 1 is empty"),
    ],
)
def test_a_damaged_file_is_refused_and_the_block_named(text, says):
    with pytest.raises(MalformedPem) as caught:
        read_blocks(text)
    assert says in str(caught.value)
