"""Rules for where the assignment is read, and what a claim must carry of it."""

from __future__ import annotations

import pytest
from configurations import LISTENER, examined, said, written

REGISTRY = "registry: 'etcd://127.0.0.1:2379/slots'"


def wrong(assignment: str, more: str = "") -> list[str]:
    return examined(written(assignment=assignment, more=more))[1]


def test_something_must_tell_one_life_from_another() -> None:
    assert wrong("{}") == ["assignment"]


@pytest.mark.parametrize("assignment", ["{instance: u}", "{generation: 7}", f"{{{REGISTRY}, instance: u}}"])
def test_one_part_is_enough(assignment: str) -> None:
    assert wrong(assignment) == []


@pytest.mark.parametrize("environ", [{}, {"POD_UID": ""}])
@pytest.mark.parametrize("instance", ["${POD_UID:-none}", "${POD_UID:-a}${POD_UID:-b}", "pod-${POD_UID:-x}"])
def test_an_instance_that_is_not_this_pods_own_is_refused(instance: str, environ: dict[str, str]) -> None:
    [line] = said(written(assignment=f"{{instance: '{instance}'}}"), **environ)
    assert line.startswith("assignment.instance: takes the default of ${POD_UID}: that is no pod's own")


def test_a_default_that_is_not_taken_does_no_harm() -> None:
    assert said(written(assignment="{instance: '${POD_UID:-none}'}"), POD_UID="u") == []


def test_a_default_that_is_empty_is_said_once() -> None:
    [line] = said(written(assignment="{instance: '${POD_UID:-}'}"))
    assert "is empty" in line


@pytest.mark.parametrize(
    "text",
    [
        written(assignment="{instance: u, generation: '${GENERATION:-1}'}"),
        written(identity="{cluster: '${CLUSTER:-c}', pod_name: '${POD_NAME:-replica-a-0}'}"),
    ],
)
def test_other_values_may_have_defaults(text: str) -> None:
    assert said(text) == []


def test_where_the_instances_file_is_may_be_a_default() -> None:
    assert wrong("{instance: {file: '${UID_FILE:-/etc/podinfo/uid}'}}") == []


def test_a_registry_gives_the_generation() -> None:
    assert wrong(f"{{{REGISTRY}, instance: u, generation: 7}}") == ["assignment.generation"]


def test_a_registry_is_asked_for_an_instance() -> None:
    assert wrong(f"{{{REGISTRY}}}") == ["assignment.instance"]


def test_a_lease_needs_a_registry() -> None:
    assert wrong("{generation: 7, lease: {ttl: 10s}}") == ["assignment.lease"]
    assert wrong("{generation: 7, lease: none}") == []
    assert wrong(f"{{{REGISTRY}, instance: u, lease: {{ttl: 10s}}}}") == []


def test_an_age_needs_something_that_has_one() -> None:
    assert wrong("{generation: 7, max_age: 60s}") == ["assignment.max_age"]
    assert wrong("{generation: 7, max_age: 30s}") == []
    assert wrong("{generation: {file: /g}, max_age: 60s, on_unavailable: last_known}") == []


@pytest.mark.parametrize(
    ("assignment", "fits"),
    [
        ("{generation: 7, instance: u, on_unavailable: last_known}", False),
        ("{generation: 7, on_unavailable: refuse}", True),
        ("{generation: {file: /g}, instance: u, on_unavailable: last_known}", True),
        ("{instance: {file: /i}, on_unavailable: last_known}", True),
        (f"{{{REGISTRY}, instance: u, on_unavailable: last_known}}", True),
    ],
)
def test_what_is_always_there_is_never_the_last_known(assignment: str, fits: bool) -> None:
    assert wrong(assignment) == ([] if fits else ["assignment.on_unavailable"])


@pytest.mark.parametrize(
    ("generation", "fits"),
    [
        ("/etc/podinfo/uid", False),
        ("/etc//podinfo/./uid", False),
        ("//etc/podinfo/uid", False),
        ("/etc/podinfo/gen", True),
    ],
)
def test_one_file_holds_one_value(generation: str, fits: bool) -> None:
    assignment = f"{{instance: {{file: /etc/podinfo/uid}}, generation: {{file: {generation}}}}}"
    assert wrong(assignment) == ([] if fits else ["assignment.generation"])


@pytest.mark.parametrize(
    ("assignment", "fits"),
    [
        ("{generation: 7, max_staleness: 12s}", False),
        ("{generation: 7, max_staleness: 12001ms}", True),
        ("{generation: 7, max_staleness: 12s, timeout: 1s}", True),
        ("{generation: 7, max_staleness: 13s, revalidate_interval: 11s}", False),
        ("{generation: 7, max_staleness: never, revalidate_interval: 5m}", True),
        ("{generation: 7, revalidate_interval: 5m}", True),
        (f"{{{REGISTRY}, instance: u, revalidate_interval: 28s}}", False),
        (f"{{{REGISTRY}, instance: u, revalidate_interval: 27s}}", True),
        (f"{{{REGISTRY}, instance: u, revalidate_interval: 30s, max_staleness: never}}", True),
    ],
)
def test_connections_are_not_cut_before_the_next_read(assignment: str, fits: bool) -> None:
    assert wrong(assignment) == ([] if fits else ["assignment.max_staleness"])


def test_the_message_names_all_three_values() -> None:
    [line] = said(written(assignment="{generation: 7, max_staleness: 5s, timeout: 1s}"))
    assert line.startswith(
        "assignment.max_staleness: is 5s: it must be more than assignment.revalidate_interval, which is 10s, the "
        "default, and assignment.timeout, which is 1s, together"
    )


@pytest.mark.parametrize(
    ("assignment", "require", "wrong_at"),
    [
        ("{generation: 7}", "[identity]", []),
        ("{generation: 7}", "[identity, generation, controller]", []),
        ("{generation: 7}", "[generation]", ["require"]),
        ("{generation: 7}", "[identity, instance]", ["require"]),
        ("{instance: u}", "[identity, generation]", ["require"]),
        ("{generation: 7}", "[identity, generation, identity]", ["require[2]"]),
        ("{generation: 7}", "[identity, epoch]", ["require"]),
        (f"{{{REGISTRY}, instance: u}}", "[identity, instance, generation, epoch]", []),
    ],
)
def test_what_is_required_can_be_given(assignment: str, require: str, wrong_at: list[str]) -> None:
    assert wrong(assignment, f"require: {require}") == wrong_at
    text = written(assignment=assignment, listener=f"{LISTENER}, tls: none, require: {require}")
    assert examined(text)[1] == [f"listeners[0].{key}" for key in wrong_at]


def test_epochs_can_be_required_where_a_floor_outlives_the_process() -> None:
    assert wrong("{generation: 7}", "require: [identity, epoch]\nstate_dir: /var/lib/sidecar") == []
