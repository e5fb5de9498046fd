import re

from hypothesis import given
from hypothesis import strategies as st

from sidecar.preface.printable import printable


def test_ordinary_text_stays_as_it_is():
    assert printable(b"prod-eu/replica-a/2 ~!", 160) == "prod-eu/replica-a/2 ~!"


def test_what_could_break_a_line_or_move_a_cursor_is_escaped():
    assert printable(b"a\r\n\x1b[2J\x00\x7f\xff", 160) == r"a\x0d\x0a\x1b[2J\x00\x7f\xff"


def test_a_written_escape_and_a_real_byte_look_different():
    assert printable(rb"\x0d", 160) != printable(b"\x0d", 160)


def test_what_is_left_out_shows():
    assert printable(b"a" * 10, 10) == "a" * 10
    assert printable(b"a" * 11, 10) == "aaaaaaa..."


@given(st.binary(max_size=300), st.integers(min_value=3, max_value=200))
def test_the_result_is_printable_ascii_within_the_limit(raw, limit):
    text = printable(raw, limit)
    assert len(text) <= limit
    assert re.fullmatch(r"[ -~]*", text)


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_different_bytes_never_look_the_same(one, other):
    assert (printable(one, 160) == printable(other, 160)) == (one == other)
