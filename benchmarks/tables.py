"""Results as Markdown tables: what was measured, what it cost, and whether it is enough. Pure. Called by ``page``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.goals import Judged, Verdict, judge
from benchmarks.results import Results, Spread
from benchmarks.scenarios import SCENARIOS, Better, Metric, Scenario, Section

ABSENT = "-"


def measured(results: Results, section: Section, titles: dict[str, str], *, cost: bool) -> str:
    """One section's numbers; with *cost* what they cost the proxy instead. Empty where nothing was measured.

    Args:
        results: of one run.
        section: which table.
        titles: of the targets, by name, in the order of the columns.
        cost: which of the metrics.
    """
    targets = [name for name in titles if not (cost and name == "direct")]
    rows = [
        [f"{scenario.title}: {metric.unit}", *(_cell(results, scenario, name, metric) for name in targets)]
        for scenario in SCENARIOS
        if scenario.section is section
        for metric in scenario.metrics
        if metric.cost is cost
    ]
    rows = [row for row in rows if set(row[1:]) - {ABSENT}]
    told = [column for column in range(len(targets)) if any(row[column + 1] != ABSENT for row in rows)]
    head = ["", *(titles[targets[column]] for column in told)]
    return _table(head, [[row[0], *(row[column + 1] for column in told)] for row in rows]) if rows else ""


def judged(results: Results, titles: dict[str, str]) -> str:
    """Every ratio that is asked for, its floor and goal, and what became of it."""
    scenarios = {scenario.name: scenario for scenario in SCENARIOS}
    rows = [
        [
            f"{scenarios[each.goal.scenario].title}: {each.goal.metric.unit}",
            f"{titles[each.goal.target]} / {titles[each.goal.other]}",
            _ratio(each.ratio),
            _bound(each.goal.metric, each.goal.floor),
            ABSENT if each.goal.goal is None else _bound(each.goal.metric, each.goal.goal),
            each.verdict,
        ]
        for each in judge(results)
    ]
    return _table(["", "ratio of", "measured", "floor", "goal", ""], rows)


def tally(results: Results) -> str:
    """In one sentence how many goals were reached."""
    counts = dict.fromkeys(Verdict, 0)
    verdicts: list[Judged] = judge(results)
    for each in verdicts:
        counts[each.verdict] += 1
    return (
        f"Of {len(verdicts)} ratios {counts[Verdict.MET]} are met, {counts[Verdict.MET_FLOOR]} reach their floor and "
        f"not their goal, {counts[Verdict.MISSED]} miss their floor, {counts[Verdict.UNKNOWN]} were not measured."
    )


def failed(results: Results) -> str:
    """A list of what couldn't be measured; empty where everything could."""
    return "\n".join(
        f"- {sample.scenario}, {sample.target}, round {sample.round + 1}: {sample.failure}"
        for sample in results.failures()
    )


def _cell(results: Results, scenario: Scenario, target: str, metric: Metric) -> str:
    spread = results.spread(scenario.name, target, metric.key)
    if spread is None:
        return ABSENT
    number = _number(spread.median, metric.digits)
    if spread.count == 1:
        return number
    return f"{number} ({_number(spread.least, metric.digits)} to {_number(spread.most, metric.digits)})"


def _ratio(ratio: Spread | None) -> str:
    if ratio is None:
        return ABSENT
    return f"{ratio.median:.2f} ({ratio.least:.2f} to {ratio.most:.2f})"


def _bound(metric: Metric, bound: float) -> str:
    return f"{'≥' if metric.better is Better.MORE else '≤'} {bound:g}"


def _number(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def lines() -> Iterator[str]:
        yield _row(head)
        yield _row(["---", *["---:"] * (len(head) - 1)])
        yield from map(_row, rows)

    return "\n".join(lines())


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
