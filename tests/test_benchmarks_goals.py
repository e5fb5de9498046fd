"""What the benchmarks' ratios are compared with."""

from __future__ import annotations

import pytest

from benchmarks.goals import GOALS, Goal, Verdict, judge
from benchmarks.results import Facts, Results, Sample, Spread
from benchmarks.scenarios import P50, PER_S, SCENARIOS
from benchmarks.targets import targets


def ratio(value: float) -> Spread:
    return Spread(value, value, value, 1)


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        (0.79, Verdict.MISSED),
        (0.8, Verdict.MET_FLOOR),
        (0.94, Verdict.MET_FLOOR),
        (0.95, Verdict.MET),
        (2.0, Verdict.MET),
    ],
)
def test_a_rate_has_to_be_at_least_what_is_asked_for(value: float, verdict: Verdict) -> None:
    goal = Goal("churn", PER_S, "sidecar", "haproxy", floor=0.8, goal=0.95)
    assert goal.verdict(ratio(value)) is verdict


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        (1.11, Verdict.MISSED),
        (1.1, Verdict.MET_FLOOR),
        (0.96, Verdict.MET_FLOOR),
        (0.95, Verdict.MET),
        (0.1, Verdict.MET),
    ],
)
def test_a_time_has_to_be_at_most_what_is_asked_for(value: float, verdict: Verdict) -> None:
    goal = Goal("small-1", P50, "sidecar", "haproxy", floor=1.1, goal=0.95)
    assert goal.verdict(ratio(value)) is verdict


def test_a_floor_that_stands_alone_is_all_that_is_asked_for() -> None:
    assert Goal("churn", PER_S, "sidecar-handoff", "direct", floor=0.6).verdict(ratio(0.6)) is Verdict.MET


def test_what_was_not_measured_is_not_met() -> None:
    assert Goal("churn", PER_S, "sidecar", "haproxy", floor=0.8).verdict(None) is Verdict.UNKNOWN


def test_every_goal_is_about_a_number_that_is_measured_of_targets_that_exist() -> None:
    measured = {(scenario.name, metric) for scenario in SCENARIOS for metric in scenario.metrics}
    names = set(targets())
    for goal in GOALS:
        assert (goal.scenario, goal.metric) in measured
        assert {goal.target, goal.other} <= names


def test_only_scenarios_that_were_run_are_judged() -> None:
    samples = (
        Sample("churn", "sidecar", 0, {"per_s": 90.0}),
        Sample("churn", "haproxy", 0, {"per_s": 100.0}),
    )
    judged = judge(Results(Facts("", "", 1, 1.0, {}, {}), samples))
    assert {each.goal.scenario for each in judged} == {"churn"}
    verdicts = {(each.goal.target, each.goal.other): each.verdict for each in judged}
    assert verdicts["sidecar", "haproxy"] is Verdict.MET_FLOOR
    assert verdicts["sidecar-handoff", "direct"] is Verdict.UNKNOWN
