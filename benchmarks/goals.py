"""The ratios to reach, and whether they are.

Each has a floor, below which the data plane isn't done, and most a goal, which is what it is built for. Ratios compare
medians of one interleaved run. Pure. Called by ``tables``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum, unique

from benchmarks.results import Results, Spread
from benchmarks.scenarios import GB_PER_S, KIB_EACH, P50, PER_S, Better, Metric


@unique
class Verdict(StrEnum):
    """What became of a goal."""

    MET = "met"
    MET_FLOOR = "floor met, goal missed"
    MISSED = "**floor missed**"
    UNKNOWN = "not measured"


@dataclass(frozen=True, slots=True)
class Goal:
    """A ratio of *target* to *other* in one scenario; without *goal* the floor is all that is asked for."""

    scenario: str
    metric: Metric
    target: str
    other: str
    floor: float
    goal: float | None = None

    def verdict(self, ratio: Spread | None) -> Verdict:
        """What *ratio* means; one that is met exactly is met."""
        if ratio is None:
            return Verdict.UNKNOWN
        if not self._reaches(ratio.median, self.floor):
            return Verdict.MISSED
        if self.goal is not None and not self._reaches(ratio.median, self.goal):
            return Verdict.MET_FLOOR
        return Verdict.MET

    def _reaches(self, ratio: float, bound: float) -> bool:
        return ratio >= bound if self.metric.better is Better.MORE else ratio <= bound


def _goals() -> Iterator[Goal]:
    for scenario in ("up-1", "up-8", "down-1", "down-8"):
        yield Goal(scenario, GB_PER_S, "sidecar", "haproxy", floor=0.9, goal=1.0)
        yield Goal(scenario, GB_PER_S, "sidecar", "envoy", floor=1.1)
        yield Goal(scenario, GB_PER_S, "sidecar-handoff", "direct", floor=0.9, goal=0.95)
    yield Goal("small-1", P50, "sidecar", "haproxy", floor=1.1, goal=0.95)
    yield Goal("small-1", P50, "sidecar", "envoy", floor=1.1, goal=0.95)
    yield Goal("small-1", P50, "sidecar-handoff", "direct", floor=1.1, goal=1.05)
    for scenario in ("small-8", "small-64"):
        yield Goal(scenario, P50, "sidecar", "haproxy", floor=0.9, goal=0.75)
        yield Goal(scenario, P50, "sidecar", "envoy", floor=1.0)
    yield Goal("churn", PER_S, "sidecar", "haproxy", floor=0.8, goal=0.95)
    yield Goal("churn", PER_S, "sidecar-unix", "haproxy", floor=1.0, goal=1.2)
    yield Goal("churn", PER_S, "sidecar", "envoy", floor=1.2, goal=1.5)
    yield Goal("churn", PER_S, "sidecar-handoff", "direct", floor=0.6)
    yield Goal("refused", PER_S, "sidecar", "haproxy", floor=0.65, goal=0.9)
    yield Goal("refused", PER_S, "sidecar", "envoy", floor=2.5, goal=3.5)
    for scenario in ("tls-up-1", "tls-up-8"):
        yield Goal(scenario, GB_PER_S, "sidecar-tls", "haproxy-tls", floor=1.2)
        yield Goal(scenario, GB_PER_S, "sidecar-tls", "envoy-tls", floor=0.8, goal=1.0)
    yield Goal("tls-small-1", P50, "sidecar-tls", "envoy-tls", floor=1.2, goal=1.1)
    yield Goal("tls-churn", PER_S, "sidecar-tls", "haproxy-tls", floor=0.85, goal=0.95)
    for scenario in ("idle-1000", "idle-8000"):
        yield Goal(scenario, KIB_EACH, "sidecar", "haproxy", floor=1.0, goal=0.5)


GOALS: tuple[Goal, ...] = tuple(_goals())


@dataclass(frozen=True, slots=True)
class Judged:
    """A goal, what was measured, and what became of it."""

    goal: Goal
    ratio: Spread | None
    verdict: Verdict


def judge(results: Results, goals: tuple[Goal, ...] = GOALS) -> list[Judged]:
    """Every goal against *results*, but for those of scenarios that weren't run."""
    ran = {sample.scenario for sample in results.samples}
    judged = []
    for goal in goals:
        if goal.scenario not in ran:
            continue
        ratio = results.ratio(goal.scenario, goal.metric.key, goal.target, goal.other)
        judged.append(Judged(goal, ratio, goal.verdict(ratio)))
    return judged
