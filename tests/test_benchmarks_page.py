"""The page that the benchmarks write."""

from __future__ import annotations

from benchmarks.page import page, run_report
from benchmarks.results import Facts, Results, Sample
from benchmarks.targets import targets

TITLES = {target.name: target.title for target in targets().values()}
FACTS = Facts("2026-01-01", "root", 2, 2.0, {"kernel": "Linux 6.1"}, {"HAProxy": "2.8.25"})


def sample(target: str, number: int, rate: float, cpu: float = 0.0) -> Sample:
    values = {"per_s": rate, "p50_us": 10.0, "p99_us": 20.0, "cpu_us": cpu}
    return Sample("churn", target, number, values)


def report(*samples: Sample) -> str:
    return run_report(Results(FACTS, samples), TITLES)


def rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]


def test_a_cell_is_the_median_with_the_least_and_the_most() -> None:
    text = report(sample("haproxy", 0, 9_000), sample("haproxy", 1, 11_000), sample("direct", 0, 20_000))
    name = "connect, preface, one round trip, close: /s"
    assert [name, "20,000", "10,000 (9,000 to 11,000)"] in rows(text)


def test_a_ratio_stands_with_its_floor_its_goal_and_what_became_of_it() -> None:
    text = report(sample("sidecar", 0, 9_000), sample("haproxy", 0, 10_000))
    name = "connect, preface, one round trip, close: /s"
    assert [name, "sidecar / HAProxy", "0.90 (0.90 to 0.90)", "≥ 0.8", "≥ 0.95", "floor met, goal missed"] in rows(text)


def test_costs_stand_apart_and_the_direct_way_has_none() -> None:
    text = report(sample("haproxy", 0, 9_000, cpu=91.04), sample("direct", 0, 20_000))
    _, _, costs = text.partition("processor time")
    assert rows(costs)[0] == ["", "HAProxy"]
    assert ["connect, preface, one round trip, close: CPU µs each", "91.0"] in rows(costs)


def test_a_target_that_was_not_measured_has_no_column() -> None:
    text = report(sample("haproxy", 0, 9_000))
    assert ["", "HAProxy"] in rows(text)


def test_what_failed_is_said() -> None:
    text = report(sample("haproxy", 0, 9_000), Sample("churn", "sidecar", 0, {}, "3 connections failed"))
    assert "- churn, sidecar, round 1: 3 connections failed" in text
    assert "What failed" not in report(sample("haproxy", 0, 9_000))


def test_date_machine_and_versions_stand_there() -> None:
    text = report(sample("haproxy", 0, 9_000))
    assert "Measured on 2026-01-01; rounds: 2; each run that goes by time: 2 s." in text
    assert "- kernel: Linux 6.1" in text
    assert "- HAProxy: 2.8.25" in text


def test_each_run_has_its_section() -> None:
    other = Facts("2026-01-02", "an unprivileged user", 2, 2.0, {}, {})
    text = page([Results(FACTS, (sample("haproxy", 0, 9.0),)), Results(other, (sample("haproxy", 0, 9.0),))], TITLES)
    heads = [line for line in text.splitlines() if line.startswith("## ")]
    assert heads == ["## As root", "## As an unprivileged user"]
