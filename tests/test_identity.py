"""The syntax of names: exactly canonical text passes, everything else is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.errors import MalformedValue
from sidecar.identity import MAX_COUNTER, ControllerName, Epoch, Generation, Identity, Instance


@pytest.mark.parametrize(
    "text",
    ["prod-eu/replica-a/2", "a/b/0", "A.1_x-y/z9/2147483647", f"{'c' * 63}/{'r' * 63}/10", "prod-eu.default/r/1"],
)
def test_an_identity_in_canonical_form_is_read_and_written_back_unchanged(text):
    assert str(Identity.parse(text)) == text
    assert str(Identity.from_wire(text.encode())) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "//",
        "a/b",
        "a/b/2/",
        "a/b/2/7",
        "/a/b/2",
        "a//2",
        "a/b/",
        "a/b/-1",
        "a/b/+2",
        "a/b/02",
        "a/b/ 2",
        "a/b/2 ",
        "a/b/2\n",
        "a/b/2\0",
        "a/b/2.0",
        "a/b/0x2",
        "a/b/1_0",
        "a/b/2147483648",
        "a/b/99999999999999999999",
        "a/b/\u0662",
        "-a/b/2",
        "a-/b/2",
        ".a/b/2",
        "a/b_/2",
        "a b/c/2",
        "a/%72eplica/2",
        f"{'c' * 64}/b/2",
        "cafe\u0301/b/2",
        "café/b/2",
    ],
)
def test_an_identity_in_any_other_form_is_malformed(text):
    with pytest.raises(MalformedValue):
        Identity.parse(text)
    with pytest.raises(MalformedValue):
        Identity.from_wire(text.encode())


def test_bytes_that_are_no_ascii_are_never_cleaned_into_an_identity():
    with pytest.raises(MalformedValue):
        Identity.from_wire(b"prod-eu/replica-a\xff/2")


def test_an_identity_keeps_the_case_of_its_letters():
    assert Identity.parse("PROD-EU/replica-a/2") != Identity.parse("prod-eu/replica-a/2")


@pytest.mark.parametrize("kwargs", [{"cluster": ""}, {"replica": "a/b"}, {"ordinal": -1}, {"ordinal": 2**31}])
def test_an_invalid_identity_cannot_be_constructed(kwargs):
    with pytest.raises(MalformedValue):
        Identity(**{"cluster": "a", "replica": "b", "ordinal": 2, **kwargs})


@pytest.mark.parametrize("kind", [Generation, Epoch])
@given(number=st.integers(1, MAX_COUNTER))
def test_every_counter_round_trips_as_decimal_text(kind, number):
    assert kind.parse(str(number)) == kind.from_wire(b"%d" % number) == kind(number)
    assert str(kind(number)) == str(number)


@pytest.mark.parametrize("kind", [Generation, Epoch])
@pytest.mark.parametrize(
    "text",
    ["", "0", "00", "07", "+7", "-7", " 7", "7 ", "7\n", "7.0", "7e0", "0x7", "1_0", "\u0667", str(2**64), "9" * 100],
)
def test_a_counter_in_any_other_form_is_malformed(kind, text):
    with pytest.raises(MalformedValue):
        kind.parse(text)


@pytest.mark.parametrize("number", [0, -1, 2**64])
def test_a_counter_out_of_range_cannot_be_constructed(number):
    with pytest.raises(MalformedValue):
        Generation(number)


def test_counters_are_ordered_by_value_and_never_across_kinds():
    assert Generation(9) < Generation(10)
    assert Generation(7) != Epoch(7)
    with pytest.raises(TypeError):
        Generation(7) < Epoch(8)  # noqa: B015  the comparison is what raises


@pytest.mark.parametrize("kind", [Instance, ControllerName])
@given(text=st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=128))
def test_every_printable_token_is_kept_as_it_is(kind, text):
    assert str(kind.from_wire(text.encode())) == text


@pytest.mark.parametrize("kind", [Instance, ControllerName])
@pytest.mark.parametrize("text", ["", " ", "a b", "a\n", "a\0", "\x7f", "é", "x" * 129])
def test_a_token_with_blanks_control_bytes_or_too_many_is_malformed(kind, text):
    with pytest.raises(MalformedValue):
        kind.parse(text)


def test_the_message_of_a_malformed_value_never_shows_it():
    with pytest.raises(MalformedValue) as caught:
        Generation.parse("s3cret")
    assert "s3cret" not in str(caught.value)
