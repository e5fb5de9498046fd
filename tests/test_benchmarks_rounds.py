"""Who runs in which scenario of the benchmarks, and in which order."""

from __future__ import annotations

from benchmarks.rounds import takes_part, turned
from benchmarks.scenarios import SCENARIOS, Scenario
from benchmarks.targets import targets


def scenario(name: str) -> Scenario:
    (found,) = (scenario for scenario in SCENARIOS if scenario.name == name)
    return found


def able(name: str) -> set[str]:
    return {target.name for target in targets().values() if takes_part(target, scenario(name))}


def test_every_target_is_first_once_in_so_many_turns() -> None:
    every = list(targets().values())
    orders = [turned(every, place) for place in range(len(every))]
    assert {order[0].name for order in orders} == set(targets())
    assert all(sorted(target.name for target in order) == sorted(targets()) for order in orders)
    assert turned(every, len(every)) == every
    assert turned([], 3) == []


def test_the_direct_way_refuses_nobody_and_starts_nothing() -> None:
    for name in ("refused", "start", "idle-1000"):
        assert "direct" not in able(name)
        assert {"haproxy", "envoy", "sidecar"} <= able(name)


def test_only_the_sidecar_answers() -> None:
    assert able("answered") == {"sidecar", "sidecar-unix", "sidecar-handoff"}


def test_more_connections_than_there_are_pairs_of_descriptors_can_only_be_handed_over() -> None:
    assert able("idle-10000") == {"sidecar-handoff"}


def test_larger_pipes_are_tried_where_they_matter() -> None:
    assert "haproxy-1m" in able("up-1")
    assert "haproxy-1m" not in able("small-1")
