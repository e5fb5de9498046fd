"""Medians, spreads and ratios of benchmark samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.results import Facts, Results, Sample, Spread, read, save

FACTS = Facts("2026-01-01", "root", 3, 2.0, {"kernel": "Linux"}, {"Envoy": "1.40.0"})


def results(*samples: Sample) -> Results:
    return Results(FACTS, samples)


def rates(target: str, *values: float) -> list[Sample]:
    return [Sample("churn", target, number, {"per_s": value}) for number, value in enumerate(values)]


def test_a_spread_is_the_median_between_the_least_and_the_most() -> None:
    assert results(*rates("direct", 5.0, 1.0, 3.0)).spread("churn", "direct", "per_s") == Spread(3.0, 1.0, 5.0, 3)


def test_what_was_not_measured_has_no_spread() -> None:
    found = results(*rates("direct", 5.0))
    assert found.spread("churn", "envoy", "per_s") is None
    assert found.spread("refused", "direct", "per_s") is None
    assert found.spread("churn", "direct", "p50_us") is None


def test_a_ratio_is_that_of_the_medians_between_the_least_and_the_most_of_one_round() -> None:
    found = results(*rates("sidecar", 10.0, 30.0, 20.0), *rates("haproxy", 10.0, 10.0, 40.0))
    assert found.ratio("churn", "per_s", "sidecar", "haproxy") == Spread(2.0, 0.5, 3.0, 3)


def test_a_round_in_which_one_of_the_two_failed_is_no_part_of_a_ratios_spread() -> None:
    failed = Sample("churn", "haproxy", 0, {}, "it fell over")
    found = results(*rates("sidecar", 10.0, 30.0), failed, rates("haproxy", 0.0, 10.0)[1])
    ratio = found.ratio("churn", "per_s", "sidecar", "haproxy")
    assert ratio is not None
    assert (ratio.least, ratio.most, ratio.count) == (3.0, 3.0, 1)
    assert list(found.failures()) == [failed]


@pytest.mark.parametrize("theirs", [[], [0.0, 0.0]])
def test_there_is_no_ratio_to_nothing(theirs: list[float]) -> None:
    found = results(*rates("sidecar", 10.0, 30.0), *rates("haproxy", *theirs))
    assert found.ratio("churn", "per_s", "sidecar", "haproxy") is None


def test_what_was_kept_is_read_back(tmp_path: Path) -> None:
    kept = results(*rates("direct", 5.0, 1.0), Sample("churn", "envoy", 0, {}, "gone"))
    path = tmp_path / "deep" / "results.json"
    save(kept, path)
    assert read(path) == kept
