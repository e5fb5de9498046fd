"""Rules for the identity section."""

from __future__ import annotations

import pytest
from configurations import keys, loaded, said, written


@pytest.mark.parametrize(
    ("identity", "slot"),
    [
        ("{cluster: prod-eu, replica: replica-a, ordinal: 2}", "prod-eu/replica-a/2"),
        ("{cluster: prod-eu, pod_name: replica-a-2}", "prod-eu/replica-a/2"),
        ("{cluster: prod-eu, replica: main, pod_name: replica-a-2}", "prod-eu/main/2"),
        ("{prefix: prod-eu/replica-a, ordinal: 2}", "prod-eu/replica-a/2"),
        ("{prefix: prod-eu/main, pod_name: replica-a-2}", "prod-eu/main/2"),
        ("{cluster: a, pod_name: db-2024-1-0}", "a/db-2024-1/0"),
        ("{cluster: a, pod_name: replica-a-10}", "a/replica-a/10"),
        ("{cluster: a, replica: b, pod_name: a--1}", "a/b/1"),
    ],
)
def test_a_slot_can_be_named_in_three_ways(identity: str, slot: str) -> None:
    assert str(loaded(written(identity=identity)).identity) == slot


@pytest.mark.parametrize(
    ("identity", "missing"),
    [
        ("{}", ["identity.cluster", "identity.ordinal", "identity.replica"]),
        ("{cluster: a}", ["identity.ordinal", "identity.replica"]),
        ("{cluster: a, replica: b}", ["identity.ordinal"]),
        ("{replica: b, ordinal: 2}", ["identity.cluster"]),
        ("{prefix: a/b}", ["identity.ordinal"]),
        ("{pod_name: b-2}", ["identity.cluster"]),
    ],
)
def test_what_a_slot_lacks_is_named(identity: str, missing: list[str]) -> None:
    found = said(written(identity=identity))
    assert [line.partition(":")[0] for line in found] == missing
    assert all("is missing" in line for line in found)


@pytest.mark.parametrize(
    ("identity", "key"),
    [
        ("{cluster: a, replica: b, ordinal: 2, pod_name: b-2}", "identity.ordinal"),
        ("{prefix: a/b, cluster: a, ordinal: 2}", "identity.cluster"),
        ("{prefix: a/b, replica: b, ordinal: 2}", "identity.replica"),
    ],
)
def test_two_ways_at_once_contradict_each_other_even_where_they_agree(identity: str, key: str) -> None:
    [line] = said(written(identity=identity))
    assert line.startswith(f"{key}: contradicts")


@pytest.mark.parametrize("name", ["a--1", f"{'a' * 64}-1"])
def test_a_pod_name_whose_base_is_no_segment_needs_a_replica(name: str) -> None:
    [line] = said(written(identity=f"{{cluster: a, pod_name: {name}}}"))
    assert line.startswith("identity.pod_name: has a base that can't be the replica")


def test_the_host_name_is_never_looked_at() -> None:
    text = written(identity="{cluster: a, pod_name: '${POD_NAME}'}")
    assert loaded(text, HOSTNAME="ip-10-0-0-7", POD_NAME="replica-a-2").identity.ordinal == 2
    [line] = said(text, HOSTNAME="ip-10-0-0-7")
    assert "needs the variable POD_NAME" in line


@pytest.mark.parametrize("key", ["cluster", "replica", "ordinal"])
@pytest.mark.parametrize("value", ["${UNSET}", "${EMPTY}", '""', "~", ""])
def test_a_part_whose_source_is_empty_never_switches_the_check_off(key: str, value: str) -> None:
    parts = {"cluster": "a", "replica": "b", "ordinal": "2", key: value}
    lines = "".join(f"\n  {name}: {part}" for name, part in parts.items())
    assert keys(written(identity=lines), EMPTY="") == [f"identity.{key}"]


@pytest.mark.parametrize("key", ["instance", "generation"])
@pytest.mark.parametrize("value", ["${UNSET}", "${EMPTY}", '""', "~", ""])
def test_a_value_whose_source_is_empty_never_switches_the_check_off(key: str, value: str) -> None:
    parts = {"instance": "u", "generation": "7", key: value}
    lines = "".join(f"\n  {name}: {part}" for name, part in parts.items())
    assert keys(written(assignment=lines), EMPTY="") == [f"assignment.{key}"]
