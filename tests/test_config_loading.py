"""From text to configuration: the steps together."""

from __future__ import annotations

import hashlib
import traceback

import pytest
from configurations import FULL, LISTENER, keys, loaded, problems, said, written
from hypothesis import given
from hypothesis import strategies as st

from sidecar.config import Config, ConfigurationError, load
from sidecar.config.problems import Place

SECRET = "open sesame\n"


def test_a_problem_says_file_line_column_and_key() -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(written(more="log: {level: loud}"), file="conf/x.yaml", environ={})
    assert str(caught.value) == "conf/x.yaml:5:14: log.level: must be 'debug', 'info', 'warning' or 'error'"


def test_everything_that_is_wrong_is_listed_at_once_in_the_order_of_the_text() -> None:
    text = """\
identity: {cluster: no, replica: replica-a, ordinal: 010}
assignment: {instance: /etc/podinfo/uid, generation: "${MISSING}", timeout: 6s}
timeouts: {prefase: 3s, connect: 0s}
listeners:
  - {name: compute, listen: ":7101", upstream: "127.0.0.1:2101", on: x}
  - {name: compute, listen: ":7101", upstream: "127.0.0.1:2102", tls: {client_cas: x}}
enforcement: shadow
timeouts: {}
"""
    assert [(p.place.line if p.place else 0, p.key) for p in problems(text)] == [
        (1, "identity.cluster"),
        (1, "identity.ordinal"),
        (2, "assignment.instance"),
        (2, "assignment.generation"),
        (3, "timeouts.prefase"),
        (3, "timeouts.connect"),
        (5, "listeners[0]"),
        (5, "listeners[0]"),
        (6, "listeners[1].name"),
        (6, "listeners[1].listen"),
        *((6, f"listeners[1].tls.{key}") for key in ("allow", "certificate", "key", "client_cas")),
        (8, "timeouts"),
    ]


def test_text_that_is_no_yaml_is_reported_by_itself() -> None:
    [problem] = problems("identity: [\n")
    assert problem.place == Place(2, 1)
    assert problem.key == ""


@pytest.mark.parametrize(
    "text",
    [
        "identity:\n  cluster: a\n  replica: b\n  ordinal: 1\n  ordinal: 2\nassignment: {generation: 7}\n",
        "ordinal: 1\nordinal: 2\n",
    ],
)
def test_a_key_that_stands_twice_is_an_error_with_both_lines(text: str) -> None:
    lines = [number for number, line in enumerate(text.splitlines(), 1) if "ordinal" in line]
    assert any(f"stands twice, in line {lines[0]} and in line {lines[1]}" in line for line in said(text))


@pytest.mark.parametrize(
    ("text", "no_default"),
    [
        (written(assignment="{instance: '${X}'}"), True),
        (written(identity="{cluster: '${X}', replica: b, ordinal: 2}"), True),
        (written(more="log: {level: '${X}'}"), False),
        (written(listener="name: a, listen: '${X}', upstream: 'b:1', tls: none"), False),
    ],
)
def test_nobody_is_talked_into_a_default_for_what_each_pod_has_for_itself(text: str, no_default: bool) -> None:
    [line] = said(text)
    assert ("set it (in Kubernetes through the downward API)" in line) == no_default
    assert ("${X:-default}" in line) != no_default


def test_a_missing_variable_is_said_once() -> None:
    assert keys(written(identity="{cluster: '${A}', replica: b, ordinal: 2}")) == ["identity.cluster"]


def test_listeners_may_share_what_they_have_in_common() -> None:
    text = """
identity: {cluster: a, replica: b, ordinal: 2}
assignment: {generation: 7}
listeners:
  - &common {name: one, listen: ":1", upstream: "127.0.0.1:1001", tls: none, answer: full}
  - {<<: *common, name: two, listen: ":2"}
"""
    one, two = loaded(text).listeners
    assert (one.name, two.name) == ("one", "two")
    assert (one.upstream, one.answer) == (two.upstream, two.answer)


@pytest.mark.parametrize("text", [written(), written().encode(), b"\xef\xbb\xbf" + written().encode()])
def test_text_and_bytes_load_alike(text: str | bytes) -> None:
    assert loaded(text).identity == loaded(written()).identity


def test_the_hash_names_the_text_and_not_the_environment() -> None:
    text = written(assignment="{instance: '${X}'}")
    one, other = loaded(text, X="x"), loaded(text, X="y")
    assert one.hash == other.hash == hashlib.sha256(text.encode()).hexdigest()[:16]
    assert loaded(text + "\n", X="x").hash != one.hash
    assert loaded(text.encode(), X="x").hash == one.hash


def leaves(text: str) -> list[tuple[int, str, str]]:
    """Line number, what stands before the value, and the value of each line that has one."""
    found = []
    for number, line in enumerate(text.splitlines()):
        head, colon, value = line.partition(": ")
        if colon and value:
            found.append((number, head + colon, value))
    return found


@pytest.mark.parametrize("leaf", leaves(FULL), ids=lambda leaf: leaf[1].strip(" -:"))
@pytest.mark.parametrize(
    "written_as", ["${SECRET}", "x${SECRET}y", "[a, '${SECRET}']", "{file: '${SECRET}', x: '${SECRET}'}"]
)
def test_a_value_from_a_variable_is_never_shown(leaf: tuple[int, str, str], written_as: str) -> None:
    number, head, _ = leaf
    lines = FULL.splitlines()
    lines[number] = head + written_as
    try:
        load("\n".join(lines), file="x", environ={"SECRET": SECRET, "POD_UID": "u"})
    except ConfigurationError as error:
        told = "".join(traceback.format_exception(error)) + repr(error)
        assert "sesame" not in told
    else:
        assert head.strip() == "epoch_scope:", "every other key has a form of its own"


def test_a_value_that_is_right_by_itself_isnt_shown_in_a_contradiction() -> None:
    text = written(
        identity="{cluster: a, replica: b, ordinal: '${N}', pod_name: '${P}'}",
        assignment="{generation: '${N}', timeout: '${T}', max_staleness: '${T}'}",
        listener=f"{LISTENER}, tls: none, tlvs: {{identity: '${{X}}', generation: '${{X}}'}}, mode: '${{M}}'",
        more="drain: {delay: '${T}'}\nshadow_wait: '${T}'",
    )
    values = {"N": "1234567", "P": "sesame-1234567", "T": "7654s", "X": "0x5c", "M": "0765"}
    found = problems(text, {**values, "TERMINATION_GRACE_PERIOD_SECONDS": "30"})
    assert len(found) >= 6
    for value in (*values.values(), "92", "0x5C", "7679"):
        assert not [problem for problem in found if value in problem.message], value


def test_nothing_but_the_named_variables_is_looked_up() -> None:
    class Environ(dict[str, str]):
        def __getitem__(self, name: str) -> str:
            asked.add(name)
            return super().__getitem__(name)

        def __contains__(self, name: object) -> bool:
            asked.add(str(name))
            return super().__contains__(name)

    asked: set[str] = set()
    load(written(assignment="{instance: '${POD_UID}'}"), file="x", environ=Environ(POD_UID="u", HOSTNAME="h-7"))
    assert asked == {"POD_UID", "TERMINATION_GRACE_PERIOD_SECONDS"}


def attempt(text: str | bytes, environ: dict[str, str]) -> None:
    try:
        config = load(text, file="x", environ=environ)
    except ConfigurationError as error:
        assert error.problems  # noqa: PT017 - both outcomes are right
        assert len(str(error).splitlines()) == len(error.problems)  # noqa: PT017
    else:
        assert isinstance(config, Config)


@given(st.one_of(st.text(), st.binary()))
def test_no_text_raises_anything_but_a_configuration_error(text: str | bytes) -> None:
    attempt(text, {})


CUTS = st.integers(min_value=0, max_value=len(FULL))


@given(CUTS, CUTS, st.text(max_size=12), st.text(max_size=12))
def test_no_damage_raises_anything_but_a_configuration_error(start: int, end: int, text: str, value: str) -> None:
    attempt(FULL[: min(start, end)] + text + FULL[max(start, end) :], {"POD_UID": value})


@given(
    st.sampled_from(leaves(FULL)),
    st.sampled_from(["", "~", "[]", "{}", "no", "-1", "010", "'${V}'", "*x", "&x y"]),
    st.text(),
)
def test_no_value_raises_anything_but_a_configuration_error(
    leaf: tuple[int, str, str], value: str, variable: str
) -> None:
    lines = FULL.splitlines()
    lines[leaf[0]] = leaf[1] + value
    attempt("\n".join(lines), {"POD_UID": "u", "V": variable})
