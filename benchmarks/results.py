"""Samples of a run, and what they come to: medians, spreads, ratios. Kept as JSON.

Pure but for the last two functions. Called by ``rounds``, which collects them, and ``goals`` and ``tables``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median


@dataclass(frozen=True, slots=True)
class Sample:
    """What one target did in one scenario of one round; *failure* says why it did nothing."""

    scenario: str
    target: str
    round: int
    values: Mapping[str, float]
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """A median and the least and the most that it lies between."""

    median: float
    least: float
    most: float
    count: int


@dataclass(frozen=True, slots=True)
class Facts:
    """Under which circumstances: whatever a reader needs to judge the numbers, by name, in the order of the page."""

    date: str
    user: str
    rounds: int
    seconds: float
    machine: Mapping[str, str]
    versions: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Results:
    """One run of the benchmarks, all of it by the same user."""

    facts: Facts
    samples: tuple[Sample, ...]

    def spread(self, scenario: str, target: str, metric: str) -> Spread | None:
        """Over the rounds; None where nothing was measured."""
        return spread(list(self._by_round(scenario, target, metric).values()))

    def ratio(self, scenario: str, metric: str, target: str, other: str) -> Spread | None:
        """*target* against *other*: the ratio of the medians, between the least and the most that one round had.

        The rounds are what makes a ratio fair: both ran within seconds of each other.
        """
        own, theirs = self._by_round(scenario, target, metric), self._by_round(scenario, other, metric)
        rounds = [own[number] / theirs[number] for number in own if theirs.get(number)]
        if not rounds:
            return None
        divisor = median(theirs.values())
        if not divisor:
            return None
        return Spread(median(own.values()) / divisor, min(rounds), max(rounds), len(rounds))

    def failures(self) -> Iterator[Sample]:
        """The samples that are none."""
        return (sample for sample in self.samples if sample.failure is not None)

    def _by_round(self, scenario: str, target: str, metric: str) -> dict[int, float]:
        return {
            sample.round: sample.values[metric]
            for sample in self.samples
            if (sample.scenario, sample.target) == (scenario, target) and metric in sample.values
        }


def spread(values: list[float]) -> Spread | None:
    """The spread of *values*; None where there are none."""
    return Spread(median(values), min(values), max(values), len(values)) if values else None


def save(results: Results, path: Path) -> None:
    """Write *results* to *path*, as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(results), indent=1) + "\n")


def read(path: Path) -> Results:
    """What ``save`` wrote."""
    kept = json.loads(path.read_text())
    return Results(Facts(**kept["facts"]), tuple(Sample(**sample) for sample in kept["samples"]))
