"""What a rule judges."""

from __future__ import annotations

from configurations import LISTENER, examined, written


def test_a_setting_is_quoted_as_it_was_written() -> None:
    case, _ = examined(written(more="timeouts: {preface: 5000ms}"))
    assert case.quote("timeouts", "preface") == "5000ms"


def test_a_setting_that_isnt_there_is_quoted_as_the_default_that_it_is() -> None:
    case, _ = examined(written())
    assert case.quote("timeouts", "preface") == "5s, the default"
    assert case.quote("listeners", 0, "mode") == "0660, the default"


def test_a_setting_from_variables_is_quoted_by_their_names() -> None:
    case, _ = examined(written(more="timeouts: {preface: '${A}${B}'}"), A="50", B="s")
    assert case.quote("timeouts", "preface") == "the value of ${A} and the value of ${B}"


def test_a_change_is_anything_but_the_default() -> None:
    case, _ = examined(
        written(more="shadow_wait: 250ms\nfloor_series: 2", listener=f"{LISTENER}, tls: none, mode: '0600'")
    )
    assert not case.changes("shadow_wait")
    assert not case.changes("enforcement")
    assert case.changes("floor_series")
    assert case.changes("listeners", 0, "mode")


def test_the_variables_whose_defaults_were_taken_are_named() -> None:
    case, _ = examined(written(more="timeouts: {preface: '${A:-5}${B:-s}', connect: '${C:-2s}', idle: 5m}"), C="3s")
    assert case.defaulted("timeouts", "preface") == "${A} and ${B}"
    assert case.defaulted("timeouts", "connect") == case.defaulted("timeouts", "idle") == ""
    assert case.defaulted("drain", "timeout") == ""
