"""What may be written and isn't there yet is refused, never ignored."""

from __future__ import annotations

import pytest
from configurations import FULL, LISTENER, examined, problems, said, written

WORDS = "not available in this version: "
PLAIN = f"{LISTENER}, tls: none"
REGISTRY = "registry: 'sqlite:///x'"


def unavailable(text: str) -> list[str]:
    """The keys that are refused as not available; nothing else may be wrong."""
    found = said(text)
    assert all(WORDS in line for line in found), found
    return [line.partition(": ")[0] for line in found]


def test_the_full_reference_is_right_and_not_all_of_it_is_available() -> None:
    assert examined(FULL, POD_UID="u")[1] == []
    assert problems(FULL, {"POD_UID": "u"}) == []


@pytest.mark.parametrize(
    ("assignment", "key"),
    [
        (f"{{{REGISTRY}, instance: u}}", "assignment.registry"),
    ],
)
def test_an_authority_that_isnt_there_is_refused(assignment: str, key: str) -> None:
    assert unavailable(written(assignment=assignment)) == [key]


def test_a_lease_is_refused() -> None:
    keys = unavailable(written(assignment=f"{{{REGISTRY}, instance: u, lease: {{ttl: 15s}}}}"))
    assert keys == ["assignment.registry", "assignment.lease"]


@pytest.mark.parametrize(
    ("listener", "key"),
    [
        (f"{PLAIN}, preface: ctp", "preface"),
    ],
)
def test_a_part_of_a_listener_that_isnt_there_is_refused(listener: str, key: str) -> None:
    assert unavailable(written(listener=listener)) == [f"listeners[0].{key}"]


@pytest.mark.parametrize(
    "listener",
    [
        f"{PLAIN}, answer: full, sources: [10.0.0.0/8, '::1']",
        f"{PLAIN}, require: [identity, generation, controller]",
        f"{PLAIN}, preface: proxy-v2, concurrency: shared, unsafe_epoch: false, send_proxy: false, epoch_scope: ''",
        f"{PLAIN}, enforcement: enforce, reject_delay: 0s, mode: '0660', tlvs: {{identity: '0x05'}}",
        "name: a, listen: '[::1]:1', upstream: 'unix:/x', tls: none",
        "name: a, listen: 'unix:/x', upstream: 'a:1', tls: none, mode: '0600'",
        f"{PLAIN}, concurrency: exclusive, epoch_scope: x, unsafe_epoch: true, send_proxy: true",
        f"{PLAIN}, enforcement: shadow, reject_delay: 1s",
    ],
)
def test_what_is_there_can_be_used(listener: str) -> None:
    assert unavailable(written(listener=listener)) == []


@pytest.mark.parametrize(
    ("assignment", "more"),
    [
        ("{instance: {file: /x}, generation: {file: /y}}", ""),
        ("{generation: {file: /x}, on_unavailable: last_known, max_age: 5s}", ""),
        ("{generation: 7, max_staleness: 30s}", ""),
        ("{generation: 7}", "enforcement: shadow\nshadow_wait: 1s\nreject_delay: 1s"),
        ("{generation: 7}", "state_dir: /x\nfloor_series: 2\nrequire: [identity, epoch]"),
        ("{generation: 7}", "telemetry: {ready_needs_upstream: true}"),
    ],
)
def test_these_parts_are_there(assignment: str, more: str) -> None:
    assert said(written(assignment=assignment, more=more)) == []


def test_the_defaults_of_what_isnt_there_may_be_written_down() -> None:
    assignment = "{generation: 7, on_unavailable: refuse, max_age: 30s, max_staleness: never, lease: none}"
    more = "enforcement: enforce\nshadow_wait: 250ms\nfloor_series: 1\nreject_delay: 0s\ntls: none"
    assert unavailable(written(assignment=assignment, more=more)) == []


def test_it_is_said_beside_what_is_wrong() -> None:
    found = said(written(assignment="{generation: 0}", listener=f"{PLAIN}, preface: ctp", more="log: {level: x}"))
    assert [line.partition(":")[0] for line in found] == [
        "assignment.generation",
        "listeners[0].preface",
        "log.level",
    ]
