"""Rules for time limits that bound each other."""

from __future__ import annotations

import pytest
from configurations import LISTENER, keys, said, written

GRACE = "TERMINATION_GRACE_PERIOD_SECONDS"


def test_a_preface_deadline_below_the_authoritys_is_an_error_with_both_values() -> None:
    [line] = said(written(more="timeouts: {preface: 1s}"))
    assert line.startswith(
        "timeouts.preface: is 1s: it must not be less than assignment.timeout, which is 2s, the default"
    )
    [line] = said(written(assignment="{generation: 7, timeout: 6s}"))
    assert line.startswith(
        "timeouts.preface: is 5s, the default: it must not be less than assignment.timeout, which is 6s"
    )


def test_equal_deadlines_are_fine() -> None:
    assert keys(written(assignment="{generation: 7, timeout: 5s}")) == []


def test_a_value_from_a_variable_is_named_instead() -> None:
    [line] = said(written(more="timeouts: {preface: '${P}'}"), P="1999ms")
    assert "is the value of ${P}: it must not be less" in line
    assert "1999" not in line


@pytest.mark.parametrize(
    ("more", "fits"),
    [
        ("enforcement: shadow\nshadow_wait: 5s", False),
        ("enforcement: shadow\nshadow_wait: 4999ms", True),
        ("enforcement: shadow\nshadow_wait: 5s\ntimeouts: {preface: 6s}", True),
        ("enforcement: shadow\ntimeouts: {preface: 250ms}", False),
        ("timeouts: {preface: 250ms}", True),
    ],
)
def test_silence_is_taken_for_a_client_without_preface_before_its_time_is_up(more: str, fits: bool) -> None:
    text = written(assignment="{generation: 7, timeout: 100ms}", more=more)
    assert keys(text) == ([] if fits else ["shadow_wait"])


def test_the_message_says_what_would_become_of_them() -> None:
    [line] = said(written(listener=f"{LISTENER}, tls: none, enforcement: shadow", more="shadow_wait: 10s"))
    assert line == (
        "shadow_wait: is 10s: it must be less than timeouts.preface, which is 5s, the default, or clients without a "
        "preface are refused in shadow mode too"
    )


@pytest.mark.parametrize(
    ("drain", "grace", "fits"),
    [
        ("{}", "25", True),
        ("{}", "24", False),
        ("{delay: 3s}", "28", True),
        ("{delay: 3s}", "27", False),
        ("{timeout: 1ms}", "0", False),
        ("{timeout: 2h}", "7200", True),
    ],
)
def test_draining_ends_before_the_pod_is_killed(drain: str, grace: str, fits: bool) -> None:
    assert keys(written(more=f"drain: {drain}"), **{GRACE: grace}) == ([] if fits else ["drain.timeout"])


def test_without_the_variable_nothing_is_compared() -> None:
    assert keys(written(more="drain: {timeout: 1h}")) == []


def test_the_message_names_all_values() -> None:
    [line] = said(written(more="drain: {delay: 10s}"), **{GRACE: "30"})
    assert "is 25s, the default, and drain.delay 10s: together they must not be more than the 30s" in line


@pytest.mark.parametrize("grace", ["", "30s", "-1", "030", "3_0", "1e9", " 30", "٣"])
def test_a_grace_period_that_is_no_number_is_an_error(grace: str) -> None:
    [line] = said(written(), **{GRACE: grace})
    assert f"the variable {GRACE}, which must be a whole number of seconds" in line
