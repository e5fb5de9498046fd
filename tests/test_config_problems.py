"""How what is wrong with a configuration is told."""

from __future__ import annotations

import pytest

from sidecar.config.problems import ConfigurationError, Place, Problem, spell
from sidecar.errors import SidecarError


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), ""),
        (("identity",), "identity"),
        (("identity", "ordinal"), "identity.ordinal"),
        (("listeners", 0, "tls", "allow", 3), "listeners[0].tls.allow[3]"),
        (("a.b", "c d"), '"a.b"."c d"'),
    ],
)
def test_a_path_is_spelled_as_people_write_it(path: tuple[str | int, ...], text: str) -> None:
    assert spell(path) == text


def test_a_path_stays_on_one_line_and_within_ascii() -> None:
    assert spell(("a\nb\x1b[2J\ud800",)) == '"a\\nb\\u001b[2J\\ud800"'


def test_problems_are_listed_in_the_order_of_the_text_each_once() -> None:
    late, early = Problem(Place(10, 1), "b", "is wrong"), Problem(Place(9, 30), "a", "is wrong too")
    error = ConfigurationError("x.yaml", [late, early, late])
    assert error.problems == (early, late)
    assert str(error) == "x.yaml:9:30: a: is wrong too\nx.yaml:10:1: b: is wrong"


def test_a_problem_of_the_file_as_such_has_no_place_and_no_key() -> None:
    assert str(ConfigurationError("x.yaml", [Problem(None, "", "can't be read")])) == "x.yaml: can't be read"


def test_a_configuration_error_is_one_of_ours() -> None:
    assert issubclass(ConfigurationError, SidecarError)
