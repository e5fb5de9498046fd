"""The command line: measure, start something to be measured by hand, or write the page from what was measured."""

from __future__ import annotations

import argparse
import fnmatch
import os
import shlex
import signal
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from benchmarks import envoy, haproxy, ours
from benchmarks.machine import machine, use_all_descriptors
from benchmarks.native import build, command
from benchmarks.page import page, run_report
from benchmarks.programs import NotThere
from benchmarks.results import Facts, Results, read, save
from benchmarks.rounds import Plan, run, takes_part
from benchmarks.scenarios import SCENARIOS, START, Scenario
from benchmarks.targets import Target, opened, targets

PAGE = Path(__file__).resolve().parent.parent / "docs" / "performance.md"

_APART = "the client on the first core, backends on the second, proxies anywhere"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    commands = parser.add_subparsers(required=True)
    _add_run(commands.add_parser("run", help="measure, and print the tables"))
    holding = commands.add_parser("hold", help="start one target and say how to load it, until Ctrl-C")
    holding.add_argument("target", choices=list(targets()))
    holding.set_defaults(command=_hold)
    writing = commands.add_parser("page", help=f"write docs/{PAGE.name}")
    writing.add_argument(
        "results", nargs="+", type=Path, help="what `run --save` kept; the page has them in this order"
    )
    writing.set_defaults(command=_page)
    options = parser.parse_args(arguments)
    return int(options.command(options))


def _add_run(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each run that goes by time")
    parser.add_argument(
        "--only", metavar="PATTERN,...", default="*", help="scenarios, as up-*,churn; --list names them"
    )
    parser.add_argument("--targets", metavar="NAME,...", default="*", help="likewise")
    parser.add_argument("--list", action="store_true", help="name scenarios and targets, and run nothing")
    parser.add_argument("--user", type=int, metavar="UID", help="root only: proxies run as this user id, the next, ...")
    parser.add_argument("--baseline", type=Path, metavar="FOLDER", help="another checkout; its sidecar runs too")
    parser.add_argument("--apart", action="store_true", help="client on the first core, backends on the second")
    parser.add_argument("--save", type=Path, metavar="FILE", help="keep the results for `page`")
    parser.set_defaults(command=_run)


def _run(options: argparse.Namespace) -> int:
    known = targets(options.baseline)
    chosen = [target for name, target in known.items() if _matches(name, options.targets)]
    scenarios = [scenario for scenario in SCENARIOS if _matches(scenario.name, options.only)]
    if options.list:
        _list(chosen, scenarios)
        return 0
    if not chosen or not scenarios:
        print("Nothing is called so; --list names scenarios and targets.", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that whatever was started is stopped
    use_all_descriptors()
    plan = Plan(
        targets=chosen,
        scenarios=scenarios,
        rounds=options.rounds,
        seconds=options.seconds,
        # Pipes are counted by user: those that share an id would take them from each other.
        users={} if options.user is None else {target.name: options.user + i for i, target in enumerate(chosen)},
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )
    samples = tuple(run(plan, build(apart=options.apart)))
    results = Results(_facts(options), samples)
    if options.save is not None:
        save(results, options.save)
    print(run_report(results, _titles(known.values())))
    return 0 if samples else 1


def _hold(options: argparse.Namespace) -> int:
    use_all_descriptors()
    target, programs = targets()[options.target], build()
    with suppress(KeyboardInterrupt), opened(target, programs, None) as way:
        print(f"process {way.pid or 'none'}; to load it:")
        for scenario in SCENARIOS:
            if takes_part(target, scenario) and scenario.mode != START:
                print(f"# {scenario.name}")
                print(shlex.join(command(programs, scenario.mode, *way.dialled_by(scenario), seconds=5)))
        sys.stdout.flush()
        signal.pause()
    return 0


def _page(options: argparse.Namespace) -> int:
    PAGE.write_text(page([read(path) for path in options.results], _titles(targets().values())))
    return 0


def _list(chosen: Sequence[Target], scenarios: Sequence[Scenario]) -> None:
    for scenario in scenarios:
        print(f"scenario  {scenario.name:<16} {scenario.section}: {scenario.title}")
    for target in chosen:
        print(f"target    {target.name:<16} {target.title}")


def _matches(name: str, patterns: str) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns.split(","))


def _titles(known: Iterable[Target]) -> dict[str, str]:
    return {target.name: target.title for target in known}


def _facts(options: argparse.Namespace) -> Facts:
    return Facts(
        date=datetime.now(UTC).date().isoformat(),
        user=_user(options.user),
        rounds=options.rounds,
        seconds=options.seconds,
        machine={**machine(), "placement": _APART if options.apart else "the scheduler's"},
        versions=_versions(),
    )


def _user(uid: int | None) -> str:
    if uid is not None:
        return "an unprivileged user"
    return "root" if os.geteuid() == 0 else "an unprivileged user"


def _versions() -> dict[str, str]:
    versions = {}
    for name, version in (("sidecar", ours.version), ("HAProxy", haproxy.version), ("Envoy", envoy.version)):
        try:
            versions[name] = version()
        except NotThere as error:
            versions[name] = str(error)
    return versions


if __name__ == "__main__":
    sys.exit(main())
