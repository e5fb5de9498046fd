"""Durations and sizes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.config.quantities import MAX_DURATION, parse_duration, parse_size, spell_duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("250ms", 0.25), ("5s", 5.0), ("5m", 300.0), ("2h", 7200.0), ("0s", 0.0), ("8760h", MAX_DURATION)],
)
def test_a_duration_is_a_whole_number_with_a_unit(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text",
    ["", "5", "s", "05s", "-5s", "+5s", "1.5s", "5 s", " 5s", "5s ", "5S", "5sec", "5d", "1m30s", "1_0s", "٣s", "5s\n"],
)
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="whole number with a unit"):
        parse_duration(text)


@pytest.mark.parametrize("text", ["8761h", "999999999999h"])
def test_a_duration_of_more_than_a_year_is_a_slip(text: str) -> None:
    with pytest.raises(ValueError, match="at most a year"):
        parse_duration(text)


@given(st.integers(min_value=0, max_value=int(MAX_DURATION * 1000)))
def test_a_spelled_duration_reads_back(milliseconds: int) -> None:
    assert parse_duration(spell_duration(milliseconds / 1000)) == milliseconds / 1000


@pytest.mark.parametrize(("seconds", "text"), [(0.0, "0s"), (0.25, "250ms"), (90.0, "90s"), (7200.0, "2h")])
def test_a_duration_is_spelled_in_its_largest_whole_unit(seconds: float, text: str) -> None:
    assert spell_duration(seconds) == text


@pytest.mark.parametrize(("text", "size"), [("1KiB", 1024), ("1MiB", 1024**2), ("1024MiB", 1024**3)])
def test_a_size_is_a_whole_number_with_a_unit(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "1", "1MB", "1mib", "1 MiB", "01KiB", "1.5MiB", "-1KiB", "0KiB", "1025MiB", "1B"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be"):
        parse_size(text)
