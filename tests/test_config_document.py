"""The tree: finding nodes, pointing at them, and what the model gets of them."""

from __future__ import annotations

import pytest

from sidecar.config.document import Entry, Kind, Listing, Scalar, Table, find, locate, plain
from sidecar.config.problems import Place


def scalar(text: str, kind: Kind = Kind.TEXT, *, line: int = 1) -> Scalar:
    return Scalar(Place(line, 5), text, kind)


TREE = Table(
    Place(1, 1),
    {
        "a": Entry(Place(1, 1), scalar("x")),
        "b": Entry(Place(2, 1), Listing(Place(2, 4), (scalar("y", line=2),))),
        "c": Entry(Place(3, 1), Table(Place(4, 3), {})),
    },
)


def test_a_node_is_found_by_its_path() -> None:
    assert find(TREE, ()) is TREE
    assert find(TREE, ("b", 0)) == scalar("y", line=2)


@pytest.mark.parametrize("path", [("z",), ("a", "z"), ("b", 1), ("b", "0"), (0,), ("c", "z")])
def test_what_isnt_there_isnt_found(path: tuple[str | int, ...]) -> None:
    assert find(TREE, path) is None


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ((), Place(1, 1)),
        (("a",), Place(1, 5)),
        (("b",), Place(2, 1)),
        (("b", 0), Place(2, 5)),
        (("c",), Place(3, 1)),
        (("c", "missing"), Place(3, 1)),
        (("missing", "below"), Place(1, 1)),
    ],
)
def test_a_value_is_pointed_at_by_itself_and_the_rest_by_its_key(path: tuple[str | int, ...], place: Place) -> None:
    assert locate(TREE, path) == place


def test_a_key_can_be_pointed_at_instead_of_its_value() -> None:
    assert locate(TREE, ("a",), at_key=True) == Place(1, 1)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("no", Kind.TEXT, "no"),
        ("0", Kind.NUMBER, 0),
        ("18446744073709551615", Kind.NUMBER, 2**64 - 1),
        ("true", Kind.BOOLEAN, True),
        ("false", Kind.BOOLEAN, False),
    ],
)
def test_what_yaml_leaves_as_it_is_becomes_itself(text: str, kind: Kind, value: object) -> None:
    assert plain(scalar(text, kind)) == value


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        *[(text, Kind.NUMBER) for text in ("010", "1_0", "+2", "-2", "2.0", "0x2", "0b11", "12:30", "9" * 21)],
        *[(text, Kind.BOOLEAN) for text in ("no", "on", "True", "yes")],
        *[("~", Kind.NULL), ("2024-01-01", Kind.DATE), ("=", Kind.OTHER)],
    ],
)
def test_what_yaml_would_change_stays_a_node_that_no_field_takes(text: str, kind: Kind) -> None:
    assert plain(scalar(text, kind)) == scalar(text, kind)


def test_tables_and_listings_become_dicts_and_tuples() -> None:
    assert plain(TREE) == {"a": "x", "b": ("y",), "c": {}}
