"""From the tree to the model: the words for every fault, its place, and what is left to judge."""

from __future__ import annotations

import pytest
from configurations import FULL, IDENTITY, LISTENER, said, written
from hypothesis import given
from hypothesis import strategies as st

from sidecar.config.document import Entry, Kind, Listing, Node, Scalar, Table
from sidecar.config.model import ConfigurationFile
from sidecar.config.parsing import parse
from sidecar.config.problems import Place, Problem
from sidecar.config.reading import read
from sidecar.config.section import Unread


def misread(text: str) -> tuple[ConfigurationFile, list[Problem]]:
    root, problems = parse(text)
    assert problems == []
    return read(root)


@pytest.mark.parametrize(
    "value", ["no", "on", "~", "2024-01-01", "010", "1_0", "12:30", "0x2", "0b11", "+2", "2.0", "true", "7"]
)
@pytest.mark.parametrize("key", ["cluster", "replica"])
def test_a_value_that_yaml_would_change_must_be_quoted_where_text_is_meant(key: str, value: str) -> None:
    rest = "replica: a" if key == "cluster" else "cluster: a"
    _, [problem] = misread(written(identity=f"\n  {rest}\n  {key}: {value}\n  ordinal: 2"))
    assert (problem.place, problem.key) == (Place(3, len(key) + 5), f"identity.{key}")
    assert problem.message.startswith("quote this value: without quotes YAML reads it as ")


@pytest.mark.parametrize("value", ["no", "on", "2024-01-01", "010", "1_0", "0x2", "2.0", "true", "7"])
def test_the_same_value_is_fine_in_quotes(value: str) -> None:
    file, problems = misread(written(identity=f"{{cluster: '{value}', replica: \"{value}\", ordinal: 2}}"))
    assert problems == []
    assert (file.identity.cluster, file.identity.replica) == (value, value)


@pytest.mark.parametrize(
    "value", ["010", "08", "1_0", "12:30", "0x2", "0b11", "+2", "2.0", '"02"', "true", "-2", "~", '""']
)
def test_an_ordinal_that_could_be_read_in_two_ways_is_refused(value: str) -> None:
    _, [problem] = misread(written(identity=f"{{cluster: a, replica: b, ordinal: {value}}}"))
    assert problem.key == "identity.ordinal"


@pytest.mark.parametrize("value", ["2", '"2"'])
def test_an_ordinal_is_a_number_with_or_without_quotes(value: str) -> None:
    file, problems = misread(written(identity=f"{{cluster: a, replica: b, ordinal: {value}}}"))
    assert problems == []
    assert file.identity.ordinal == 2


def test_an_unknown_key_is_named_with_its_place_and_the_nearest_known_one() -> None:
    _, [problem] = misread(written(more="timeouts: {connect: 2s, prefase: 3s}"))
    assert problem == Problem(Place(5, 25), "timeouts.prefase", "isn't a known key: did you mean preface?")


@pytest.mark.parametrize(
    ("text", "key", "meant"),
    [
        (written(more="timeuots: {}"), "timeuots", "timeouts"),
        (written(more="tls: {client_cas: x}"), "tls.client_cas", "client_ca"),
        (written(listener=f"{LISTENER}, tls: {{client_cas: x}}"), "listeners[0].tls.client_cas", "client_ca"),
        (written(listener=f"{LISTENER}, tlvs: {{identiy: x}}"), "listeners[0].tlvs.identiy", "identity"),
        (written(listener=f"{LISTENER}, outer_proxy: {{form: []}}"), "listeners[0].outer_proxy.form", "from"),
        (written(assignment="{generation: {fil: /x}}"), "assignment.generation.fil", "file"),
        (written(assignment="{generation: 7, lease: {tll: 10s}}"), "assignment.lease.tll", "ttl"),
    ],
)
def test_the_nearest_known_key_is_found_at_every_level(text: str, key: str, meant: str) -> None:
    _, problems = misread(text)
    assert [(problem.key, problem.message) for problem in problems] == [
        (key, f"isn't a known key: did you mean {meant}?")
    ]


def test_a_key_that_is_like_no_other_gets_the_list() -> None:
    _, [problem] = misread(written(more="drain: {zzz: 1}"))
    assert problem.message == "isn't a known key; known here: delay, timeout"


@pytest.mark.parametrize(
    ("text", "key", "message"),
    [
        (written(more="log: {level: loud}"), "log.level", "must be 'debug', 'info', 'warning' or 'error'"),
        (written(more="enforcement: on"), "enforcement", "must be 'enforce' or 'shadow'; quote it"),
        (written(more="tls: {min_version: 1.3}"), "tls.min_version", "must be '1.2' or '1.3'; quote it"),
        (written(more="tls: all"), "tls", "must be 'none', or a mapping"),
        (written(more="limits: 5"), "limits", "must be a mapping of keys and values"),
        (written(more="limits: [5]"), "limits", "must be a mapping of keys and values"),
        (written(more="limits:"), "limits", "is empty: give it a value, or leave the key out"),
        (written(more="require: identity"), "require", "must be a list, such as [a, b]"),
        (written(more="require: []"), "require", "is empty: give at least one, or leave the key out"),
        (
            written(more="require: [identity, x]"),
            "require[1]",
            "must be 'identity', 'instance', 'generation', 'epoch' or 'controller'",
        ),
        (written(more="tls: {trust_domains: [a]}"), "tls.trust_domains", "must be a mapping of keys and values"),
        (
            written(listener=f"{LISTENER}, tlvs: {{identity: 0x05}}"),
            "listeners[0].tlvs.identity",
            "quote this value: without quotes YAML reads it as a number, and text is meant",
        ),
        (
            written(listener="name: a, listen: 7101, upstream: 'b:1'"),
            "listeners[0].listen",
            'is a port without an address: write ":7101"',
        ),
        (
            f"identity: {IDENTITY}\nassignment: {{}}\nlisteners: {{name: a, listen: ':1', upstream: 'b:1'}}\n",
            "listeners",
            "must be a list: begin each listener with a dash, as in - name: compute",
        ),
        (
            written(listener="name: a, listen: [a], upstream: 'b:1'"),
            "listeners[0].listen",
            "must be text; quote a value that starts with [ or {",
        ),
        (f"identity: {IDENTITY}\nassignment: {{}}\n", "listeners", "is missing"),
        (
            f"identity: {IDENTITY}\nassignment: {{}}\nlisteners: []\n",
            "listeners",
            "is empty: give at least one, or leave the key out",
        ),
        (
            f"identity: {IDENTITY}\nassignment: {{}}\nlisteners: [5]\n",
            "listeners[0]",
            "must be a mapping of keys and values",
        ),
        (written(listener="name: a, listen: ':1'"), "listeners[0].upstream", "is missing"),
    ],
)
def test_every_kind_of_fault_has_words_that_say_what_to_write(text: str, key: str, message: str) -> None:
    _, problems = misread(text)
    assert [(problem.key, problem.message) for problem in problems] == [(key, message)]


def test_a_value_from_a_variable_is_named_and_not_shown() -> None:
    text = written(
        identity="{cluster: '${A}', replica: 'x${B}${C}', ordinal: '${D}'}", assignment="{generation: '${E}'}"
    )
    found = said(text, A="open sesame", B="open", C=" sesame", D="", E="sesame")
    assert not [line for line in found if "sesame" in line]
    assert [line.rpartition(" (")[2] for line in found] == [
        "the value comes from ${A})",
        "the value comes from ${B} and ${C})",
        "the value comes from ${D})",
        "the value comes from ${E})",
    ]
    assert "identity.ordinal" in found[2]


def test_a_setting_that_is_wrong_cant_be_read_and_the_others_can() -> None:
    file, _ = misread(written(more="timeouts: {preface: 5, connect: 3s}\nlog: 7\nreqire: [identity]"))
    assert file.timeouts.connect == 3.0
    for touch in (lambda: file.timeouts.preface, lambda: file.log, lambda: file.require):
        with pytest.raises(Unread):
            touch()


def test_a_listener_that_is_wrong_leaves_the_others_where_they_are() -> None:
    file, _ = misread(
        f"identity: {IDENTITY}\nassignment: {{}}\nlisteners: [7, {{name: B}}, {{{LISTENER}, sources: [x]}}]"
    )
    with pytest.raises(Unread):
        _ = file.listeners[0].name
    for touch in (lambda: file.listeners[1].name, lambda: file.listeners[1].listen, lambda: file.listeners[2].sources):
        with pytest.raises(Unread):
            touch()
    assert file.listeners[2].name == "compute"


def test_sections_that_are_missing_cant_be_read() -> None:
    file, problems = misread("log: {}")
    assert sorted(problem.key for problem in problems) == ["assignment", "identity", "listeners"]
    for touch in (lambda: file.identity, lambda: file.assignment, lambda: file.listeners):
        with pytest.raises(Unread):
            touch()


SCALARS = st.builds(
    lambda text, kind: Scalar(Place(1, 1), text, kind),
    st.sampled_from(["", "a", "none", "never", "5s", "1", "010", "true", ":1", "/x", "identity", "${X}", "\x00", "ä"]),
    st.sampled_from(Kind),
)
NODES: st.SearchStrategy[Node] = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: Listing(Place(1, 1), tuple(items)))
        | st.dictionaries(
            st.sampled_from(["file", "from", "name", "tls", "x"]), inner.map(lambda n: Entry(Place(1, 1), n))
        ).map(lambda entries: Table(Place(1, 1), entries))
    ),
    max_leaves=6,
)


def spoiled(node: Node, places: list[bool], nodes: list[Node]) -> Node:
    """*node* with some parts of it replaced: each part in its order asks *places* whether."""
    if nodes and places and places.pop():
        return nodes.pop()
    match node:
        case Table():
            return Table(
                node.place, {k: Entry(e.place, spoiled(e.node, places, nodes)) for k, e in node.entries.items()}
            )
        case Listing():
            return Listing(node.place, tuple(spoiled(item, places, nodes) for item in node.items))
        case Scalar():
            return node


@given(st.lists(st.sampled_from([False, False, False, True]), max_size=80), st.lists(NODES, max_size=8))
def test_no_tree_is_too_wrong_to_be_read(places: list[bool], nodes: list[Node]) -> None:
    tree = spoiled(parse(FULL)[0], places, nodes)
    if isinstance(tree, Table):
        file, problems = read(tree)
        assert isinstance(file, ConfigurationFile)
        assert all(problem.message for problem in problems)
