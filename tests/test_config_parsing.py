"""YAML text to a tree: what YAML may say here, and where everything stood."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.config.document import Kind, Listing, Scalar, Table, find
from sidecar.config.parsing import MAX_DEPTH, MAX_NODES, NoTreeError, parse
from sidecar.config.problems import Place, Problem


def tree(text: str | bytes) -> Table:
    root, problems = parse(text)
    assert problems == []
    return root


def text_at(root: Table, *path: str | int) -> str:
    node = find(root, path)
    assert isinstance(node, Scalar)
    return node.text


def fault(text: str | bytes) -> Problem:
    with pytest.raises(NoTreeError) as caught:
        parse(text)
    return caught.value.problem


def test_every_value_knows_its_line_and_column() -> None:
    root = tree("a: 1\nb:\n  - c\n  - {d: e}\n")
    assert root.entries["b"].place == Place(2, 1)
    assert find(root, ("b", 0)) == Scalar(Place(3, 5), "c", Kind.TEXT)
    assert find(root, ("b", 1, "d")) == Scalar(Place(4, 9), "e", Kind.TEXT)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("no", Kind.BOOLEAN),
        ("on", Kind.BOOLEAN),
        ("true", Kind.BOOLEAN),
        ("~", Kind.NULL),
        ("", Kind.NULL),
        ("null", Kind.NULL),
        ("2024-01-01", Kind.DATE),
        ("2024-01-01T00:00:00Z", Kind.DATE),
        ("010", Kind.NUMBER),
        ("1_0", Kind.NUMBER),
        ("12:30", Kind.NUMBER),
        ("0x2", Kind.NUMBER),
        ("0b11", Kind.NUMBER),
        ("+2", Kind.NUMBER),
        ("2.0", Kind.NUMBER),
        (".inf", Kind.NUMBER),
        ("=", Kind.OTHER),
        ("<<", Kind.OTHER),
        ("08", Kind.TEXT),
        ("'no'", Kind.TEXT),
        ('"010"', Kind.TEXT),
        ("|\n  no", Kind.TEXT),
    ],
)
def test_a_scalar_keeps_its_text_and_what_yaml_makes_of_it(value: str, kind: Kind) -> None:
    node = find(tree(f"a: {value}\n"), ("a",))
    assert isinstance(node, Scalar)
    assert node.kind is kind


def test_a_key_that_stands_twice_names_both_lines() -> None:
    _, problems = parse("a:\n  b: 1\n  c: 2\n  b: 3\n")
    assert problems == [Problem(Place(4, 3), "a.b", "stands twice, in line 2 and in line 4: take one of them out")]


def test_keys_that_stand_twice_are_found_at_every_level_in_one_run() -> None:
    _, problems = parse("a: {x: 1, x: 2}\nb: [{y: 1, y: 2}]\na: 1\n")
    assert [problem.key for problem in problems] == ["a.x", "b[0].y", "a"]


@pytest.mark.parametrize("key", ["on", "1", "~", "2024-01-01", "[a]", "{a: b}", "="])
def test_a_key_that_isnt_text_is_refused(key: str) -> None:
    _, problems = parse(f"? {key}\n: x\n")
    assert "quote it" in problems[0].message


def test_a_quoted_key_is_text() -> None:
    assert text_at(tree('"on": x'), "on") == "x"


@pytest.mark.parametrize("value", ["!foo x", "!!binary aGk=", "!!python/object:os.system {}", "!!set {x}", "!foo [x]"])
def test_a_tag_is_refused(value: str) -> None:
    _, problems = parse(f"a: {value}\n")
    assert problems[0].key == "a"
    assert "has a tag" in problems[0].message


def test_an_alias_stands_for_what_its_anchor_names() -> None:
    root = tree("a: &x {y: 1}\nb: *x\nc: [*x]\n")
    assert text_at(root, "b", "y") == text_at(root, "c", 0, "y") == "1"


def test_a_merge_key_is_followed_and_a_key_of_the_mapping_itself_overrides_it() -> None:
    root = tree("a: &x {p: 1, q: 2}\nb: {q: 3, <<: *x}\n")
    assert (text_at(root, "b", "p"), text_at(root, "b", "q")) == ("1", "3")


def test_of_several_merged_mappings_the_first_gives_a_key() -> None:
    root = tree("a: &x {p: 1}\nb: &y {p: 2, q: 2}\nc: {<<: [*x, *y]}\nd: {<<: *x, <<: *y}\n")
    assert (text_at(root, "c", "p"), text_at(root, "c", "q")) == ("1", "2")
    assert (text_at(root, "d", "p"), text_at(root, "d", "q")) == ("1", "2")


def test_a_merged_value_points_at_the_text_that_it_came_from() -> None:
    root = tree("a: &x {p: 1}\nb:\n  <<: *x\n")
    assert root.entries["b"].node.entries["p"].place == Place(1, 8)  # type: ignore[union-attr]


def test_only_mappings_can_be_merged() -> None:
    _, problems = parse("a: &x 1\nb: {<<: *x}\nc: {<<: [*x]}\n")
    assert [problem.key for problem in problems] == ["b.<<", "c.<<"]


def test_an_alias_bomb_is_refused() -> None:
    levels = "\n".join(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 10))
    assert "too large" in fault(f"a0: &a0 [x]\n{levels}\n").message


@pytest.mark.parametrize("text", ["a: &x [*x]", "a: &x {b: *x}", "&x {<<: *x}", "a: &x {<<: [*x, *x]}"])
def test_an_alias_within_its_own_anchor_is_refused(text: str) -> None:
    assert "too large" in fault(text).message


def test_a_text_of_too_many_values_is_refused_where_they_are_too_many() -> None:
    """Before its end, which may be far away: a reload has little time."""
    items = [f"{number}," for number in range(2 * MAX_NODES)]
    problem = fault("a: [\n" + "\n".join(items) + "\n]")
    assert problem.message == f"is too large: no configuration needs {MAX_NODES} keys and values"
    assert problem.place.line < MAX_NODES + 2


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? "])
@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 5000])
def test_deep_nesting_is_refused(opening: str, depth: int) -> None:
    assert "nested too deeply" in fault(opening * depth).message


def test_the_depth_that_is_allowed_can_be_used() -> None:
    depth = MAX_DEPTH - 1
    assert isinstance(find(tree("a: " + "[" * depth + "]" * depth), ("a",)), Listing)


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "---\n", "--- ~"])
def test_a_text_without_content_is_refused(text: str) -> None:
    assert fault(text).message.startswith(("is empty", "must be a mapping"))


@pytest.mark.parametrize("text", ["a", "[a, b]", "- a", "12"])
def test_the_top_must_be_a_mapping(text: str) -> None:
    assert "must be a mapping" in fault(text).message


def test_a_second_document_is_refused_where_it_starts() -> None:
    problem = fault("a: 1\n---\nb: 2\n")
    assert problem.place == Place(2, 1)
    assert "document" in problem.message


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("a:\n\tb: 1\n", Place(2, 1), "indent with blanks"),
        ("a: b: c\n", Place(1, 5), "isn't valid YAML"),
        ("a: *x\n", Place(1, 4), "undefined alias"),
        ("listen: [::1]:7101\n", Place(1, 10), "quote a value that starts with ["),
        ("a: {b: ${X}}\n", Place(1, 9), "must be quoted"),
        ('a: "\\UFFFFFFFF"\n', Place(1, 7), "escape sequence"),
        ("a: 1\nb: \x00\n", Place(2, 4), "character that YAML doesn't allow"),
    ],
)
def test_text_that_isnt_yaml_is_refused_with_its_place_and_a_hint(text: str, place: Place, words: str) -> None:
    problem = fault(text)
    assert words in problem.message
    assert problem.place == place


def test_bytes_must_be_utf_8() -> None:
    assert fault(b"a: 1\nb: \xff\n") == Problem(Place(2, 4), "", "isn't UTF-8 text: save the file as UTF-8")
    assert "UTF-8" in fault("a: 1".encode("utf-16")).message


@pytest.mark.parametrize("text", [b"\xef\xbb\xbfa: 1", "\ufeffa: 1"])
def test_a_byte_order_mark_is_skipped(text: str | bytes) -> None:
    assert tree(text).entries["a"].place == Place(1, 1)


TOKENS = [
    "a",
    ": ",
    "- ",
    "\n",
    "  ",
    "\t",
    "[",
    "]",
    "{",
    "}",
    ", ",
    "&x ",
    "*x",
    "<<",
    "? ",
    "!t ",
    '"',
    "'",
    "|\n",
    "#",
]
ODDITIES = ["\\U0011FFFF", "---\n", "...\n", "%YAML 1.1\n", "\r", "\x85", "~", "no", "1", "\ud800"]


@given(st.one_of(st.text(), st.binary(), st.lists(st.sampled_from([*TOKENS, *ODDITIES])).map("".join)))
def test_no_text_raises_anything_but_no_tree(text: str | bytes) -> None:
    try:
        root, _ = parse(text)
    except NoTreeError as error:
        assert error.problem.message  # noqa: PT017 - both outcomes are right
    else:
        assert isinstance(root, Table)
