"""The interleaved rounds: every target in every scenario, once a round, in an order that turns.

What is compared is measured within seconds of each other, and no target is always the first after something else.
Called by ``__main__``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from benchmarks.native import LoadFailed, Programs, load
from benchmarks.programs import NotThere, cpu_ticks
from benchmarks.results import Sample
from benchmarks.scenarios import RSS_AT_START, START, START_MS, Scenario
from benchmarks.targets import Target, Way, opened

_LOOK_SECONDS = 0.1
_MOST_LOOKS = 100
_TICKS_OF_REST = 0.5  # of ten in that time, for each proxy


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run.

    Args:
        users: under which user id each target's proxy runs, by the target's name; the caller's where it isn't named.
        say: gets one line for each thing that happens.
    """

    targets: Sequence[Target]
    scenarios: Sequence[Scenario]
    rounds: int
    seconds: float
    users: Mapping[str, int]
    say: Callable[[str], None]


def run(plan: Plan, programs: Programs) -> Iterator[Sample]:
    """Every sample, as it comes. A target that can't be started is said so once, and left out."""
    with ExitStack() as stack:
        ways: dict[str, Way] = {}
        for target in plan.targets:
            try:
                ways[target.name] = stack.enter_context(opened(target, programs, plan.users.get(target.name)))
            except NotThere as error:
                plan.say(f"left out: {error}")
        for number in range(plan.rounds):
            for place, scenario in enumerate(plan.scenarios):
                able = [target for target in plan.targets if target.name in ways and takes_part(target, scenario)]
                for target in turned(able, number + place):
                    _settle(ways.values())
                    sample = _sample(plan, programs, scenario, target, ways[target.name], number)
                    plan.say(_line(plan, sample))
                    yield sample


def takes_part(target: Target, scenario: Scenario) -> bool:
    """Whether *scenario* means anything for *target*."""
    if scenario.section not in target.sections:
        return False
    if scenario.handed_over:
        return target.upstream == "handoff"
    if target.proxy is None:
        return scenario.direct and not scenario.answered
    return target.answers or not scenario.answered


def turned(things: Sequence[Target], places: int) -> list[Target]:
    """*things*, beginning so many places later, and round again."""
    if not things:
        return []
    first = places % len(things)
    return [*things[first:], *things[:first]]


def _settle(ways: Iterable[Way]) -> None:
    """Wait until no proxy works off what the run before has left it, such as thousands of closed connections."""
    pids = [way.pid for way in ways if way.pid is not None]
    before = sum(map(cpu_ticks, pids))
    for _ in range(_MOST_LOOKS):
        time.sleep(_LOOK_SECONDS)  # noqa: TID251  there's no loop to block
        after = sum(map(cpu_ticks, pids))
        if after - before <= _TICKS_OF_REST * len(pids):
            return
        before = after


def _sample(plan: Plan, programs: Programs, scenario: Scenario, target: Target, way: Way, number: int) -> Sample:
    try:
        if scenario.fresh:
            with opened(target, programs, plan.users.get(target.name)) as fresh:
                values = _values(plan, programs, scenario, fresh)
        else:
            values = _values(plan, programs, scenario, way)
    except (LoadFailed, NotThere) as error:
        return Sample(scenario.name, target.name, number, {}, str(error))
    return Sample(scenario.name, target.name, number, values)


def _values(plan: Plan, programs: Programs, scenario: Scenario, way: Way) -> dict[str, float]:
    if scenario.mode == START:
        return {START_MS.key: way.start_seconds * 1000, RSS_AT_START.key: way.rss_kib}
    said = load(programs, scenario.mode, *way.dialled_by(scenario), seconds=plan.seconds)
    return {metric.key: said[metric.key] for metric in scenario.metrics}


def _line(plan: Plan, sample: Sample) -> str:
    values = sample.failure or ", ".join(f"{key} {value:g}" for key, value in sample.values.items())
    return f"round {sample.round + 1}/{plan.rounds}  {sample.scenario}  {sample.target}: {values}"
