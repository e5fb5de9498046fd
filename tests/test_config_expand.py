"""Variables in values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.config.document import Kind, Scalar, find
from sidecar.config.expand import expand
from sidecar.config.parsing import parse
from sidecar.config.problems import Place

NASTY = "p: #\"'$w}\n"


def value(text: str, **environ: str) -> Scalar:
    """The value ``a`` of a document in which it is written as *text*."""
    root, problems = expand(parse(f"a: {text}\n")[0], environ)
    assert problems == []
    node = find(root, ("a",))
    assert isinstance(node, Scalar)
    return node


def refused(text: str, **environ: str) -> str:
    root, problems = expand(parse(f"a: {text}\n")[0], environ)
    assert [problem.key for problem in problems] == ["a"]
    node = find(root, ("a",))
    assert isinstance(node, Scalar)
    assert node.kind is Kind.OTHER  # no field takes it
    return problems[0].message


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("${X}", "x"),
        ("prod-eu.${X}", "prod-eu.x"),
        ("${X}${Y}", "xy"),
        ('"${X}"', "x"),
        ("'${X}'", "x"),
        ("${UNSET:-default}", "default"),
        ("${EMPTY:-default}", "default"),
        ("${X:-default}", "x"),
        ("${UNSET:-}", ""),
        ("${EMPTY}", ""),
        ("$${X}", "${X}"),
        ("a$${X}b${X}c", "a${X}bxc"),
        ("$$$${X}", "$$${X}"),
    ],
)
def test_references_are_filled_in(written: str, text: str) -> None:
    assert value(written, X="x", Y="y", EMPTY="").text == text


@pytest.mark.parametrize("written", ["pa$word", "$X", "$$X", "$", "a$", "$(X)", "X}", "{X}$"])
def test_a_bare_dollar_is_text(written: str) -> None:
    node = value(f"'{written}'", X="x", word="w")
    assert (node.text, node.variables) == (written, ())


def test_a_value_is_taken_exactly_as_it_is() -> None:
    assert value("${X}", X=NASTY).text == NASTY


@given(st.text())
def test_no_value_can_change_the_structure(text: str) -> None:
    root, problems = expand(parse("a: ${X}\nb: x${X}x\n")[0], {"X": text})
    assert problems == []
    assert [getattr(entry.node, "text", None) for entry in root.entries.values()] == [text, f"x{text}x"]


@pytest.mark.parametrize("inner", ["${Y}", "${Y", "$${Y}", "${X}"])
def test_a_value_is_not_expanded_again(inner: str) -> None:
    assert value("${X}", X=inner, Y="y").text == inner


def test_a_filled_in_value_is_text_whatever_it_looks_like() -> None:
    assert value("${X}", X="no").kind is Kind.TEXT
    assert value("${X}", X="").kind is Kind.TEXT


def test_a_filled_in_value_names_its_variables_each_once() -> None:
    assert value("${X}${Y:-z}${X}", X="x").variables == ("X", "Y")
    assert value("plain").variables == ()


@pytest.mark.parametrize(
    ("written", "defaulted"),
    [("${X:-a}", ()), ("${UNSET:-a}", ("UNSET",)), ("${EMPTY:-a}${X:-a}${EMPTY:-b}", ("EMPTY",)), ("${X}", ())],
)
def test_a_value_says_whose_default_it_took(written: str, defaulted: tuple[str, ...]) -> None:
    assert value(written, X="x", EMPTY="").defaulted == defaulted


def test_a_missing_variable_is_named() -> None:
    message = refused("${MISSING}")
    assert "needs the variable MISSING, which isn't set" in message


def test_a_message_shows_no_other_variables_value() -> None:
    assert "sesame" not in refused("${SECRET}${MISSING}", SECRET="sesame")


@pytest.mark.parametrize(
    "written", ["${", "${}", "${X", "${1X}", "${X-Y}", "${X:=y}", "${ X}", "${X:-${Y}}", "${X }", "${ä}"]
)
def test_a_malformed_reference_is_refused(written: str) -> None:
    assert "$${ for a literal ${" in refused(f"'{written}'", X="x", Y="y")


def test_values_are_filled_in_at_every_level_and_keys_are_not() -> None:
    root, problems = expand(parse("'${X}': [{b: '${X}'}]\n")[0], {"X": "x"})
    assert problems == []
    assert getattr(find(root, ("${X}", 0, "b")), "text", None) == "x"


def test_every_missing_variable_is_found_in_one_run() -> None:
    _, problems = expand(parse("a: ${A}\nb:\n  - ${B}\n")[0], {})
    assert [(problem.place, problem.key) for problem in problems] == [(Place(1, 4), "a"), (Place(3, 5), "b[0]")]
