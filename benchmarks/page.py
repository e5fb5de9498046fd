"""``docs/performance.md``: the words around the tables. Pure. Called by ``__main__``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks import tables
from benchmarks.results import Facts, Results
from benchmarks.scenarios import Section

_TOP = """\
# Performance

Written by `make bench`: don't edit it. [benchmarks/README.md](../benchmarks/README.md) says how each number comes
about, and how to run one alone.

The load generator, the proxy and the process behind it share the cores of one machine and talk over loopback. So what
is compared is the work that each proxy makes, not what it could do with a machine of its own. Every proxy gets the same
bytes and checks the identity in them. The sidecar checks generation and instance as well, and has every deadline,
limit, floor and metric switched on. All write one log line a connection to a file; of refusals the sidecar writes as
many as its default rate limit lets through, and HAProxy none. HAProxy runs with one thread and with splicing forced,
Envoy with one worker.

Each number is the median of the rounds, with the least and the most in brackets. Rounds are interleaved: in each, every
proxy runs every scenario once, one right after the other, in an order that turns. Differences below a tenth mean
nothing.
"""

_INTRODUCTIONS = {
    Section.BULK: "As fast as it goes, 64 KiB a write.",
    Section.ROUND_TRIPS: "One request at a time on each connection, over connections that are there.",
    Section.CONNECTIONS: "Sixteen clients, each one connection after the other. No connection is used twice.",
    Section.FLATNESS: "The same, and round trips, while so many others stand idle: the cost should stay what it was.",
    Section.MEMORY: "Of a process that has served nothing before.",
    Section.TLS: "TLS 1.3, client certificates, ECDSA P-256. The sidecar reads its preface inside; the others can't.",
}


def page(runs: Sequence[Results], titles: dict[str, str]) -> str:
    """The whole page.

    Args:
        runs: the first one's circumstances stand at the top; each has a section of its own.
        titles: of the targets, by name, in the order of the columns.
    """
    return "\n".join([_TOP, *(run_report(results, titles) for results in runs)])


def run_report(results: Results, titles: dict[str, str]) -> str:
    """What one run came to, for the page or for a terminal; *titles* as for the page."""

    def parts() -> Iterator[str]:
        yield f"## As {results.facts.user}\n"
        yield _circumstances(results.facts)
        yield "### Against the goals\n"
        yield f"{tables.tally(results)}\n"
        yield f"{tables.judged(results, titles)}\n"
        for section, introduction in _INTRODUCTIONS.items():
            yield from _section(results, titles, section, introduction)
        failures = tables.failed(results)
        if failures:
            yield "### What failed\n"
            yield f"{failures}\n"

    return "\n".join(parts())


def _section(results: Results, titles: dict[str, str], section: Section, introduction: str) -> Iterator[str]:
    numbers = tables.measured(results, section, titles, cost=False)
    if not numbers:
        return
    yield f"### {section}\n"
    yield f"{introduction}\n"
    yield f"{numbers}\n"
    costs = tables.measured(results, section, titles, cost=True)
    if costs:
        yield "The proxy's own processor time, user and system:\n"
        yield f"{costs}\n"


def _circumstances(facts: Facts) -> str:
    lines = [
        f"Measured on {facts.date}; rounds: {facts.rounds}; each run that goes by time: {facts.seconds:g} s.",
        "",
        *(f"- {name}: {what}" for name, what in {**facts.machine, **facts.versions}.items()),
        "",
    ]
    return "\n".join(lines)
