"""What is measured: the runs of the load generator, and which of their numbers count.

A table and nothing else: README.md says what each run stands for. Called by ``rounds``, ``tables`` and ``goals``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, unique


@unique
class Better(StrEnum):
    """Which way a number should go."""

    MORE = "more"
    LESS = "less"


@dataclass(frozen=True, slots=True)
class Metric:
    """One number of a run.

    Args:
        key: what the load generator calls it.
        unit: as it stands in a table's row.
        better: which way it should go.
        digits: behind the point.
        cost: whether it says what the work cost the proxy, rather than what came of it.
    """

    key: str
    unit: str
    better: Better = Better.LESS
    digits: int = 0
    cost: bool = False


@unique
class Section(StrEnum):
    """The tables of the page."""

    BULK = "Bulk"
    ROUND_TRIPS = "Round trips"
    CONNECTIONS = "Connections"
    FLATNESS = "Connections beside idle ones"
    MEMORY = "Memory and start"
    TLS = "TLS"


@dataclass(frozen=True, slots=True)
class Scenario:
    """One kind of run.

    Args:
        name: to choose it by.
        title: in a table.
        section: which table.
        mode: the load generator's.
        role: the backend's.
        arguments: the load generator's, beside those that the target brings.
        metrics: what counts of what it says.
        fresh: in a process that has served nothing yet.
        refused: dials with a claim that is wrong.
        answered: needs a proxy that answers.
        direct: whether it means anything without a proxy.
        handed_over: for connections that are handed over alone.
    """

    name: str
    title: str
    section: Section
    mode: str
    role: str
    arguments: tuple[str, ...]
    metrics: tuple[Metric, ...]
    fresh: bool = False
    refused: bool = False
    answered: bool = False
    direct: bool = True
    handed_over: bool = False


_PREFIXES = {Section.TLS: "tls-"}  # of the names of scenarios that are there for plain connections too

START = "start"  # the mode in which nothing but the start is measured
CLIENTS = 16  # so many short connections at a time keep both cores busy

GB_PER_S = Metric("gb_per_s", "GB/s", Better.MORE, 2)
P50 = Metric("p50_us", "p50, µs")
P99 = Metric("p99_us", "p99, µs")
PER_S = Metric("per_s", "/s", Better.MORE)
KIB_EACH = Metric("kib_per_conn", "KiB a connection", digits=1)
RSS_AFTER = Metric("rss_after_kib", "RSS in all, KiB")
START_MS = Metric("start_ms", "until the first round trip, ms")
RSS_AT_START = Metric("rss_before_kib", "RSS after it, KiB")
CPU_PER_GB = Metric("cpu_s_per_gb", "CPU s a GB", digits=3, cost=True)
CPU_EACH = Metric("cpu_us", "CPU µs each", digits=1, cost=True)


def _bulk(mode: str, title: str, role: str, connections: int, section: Section = Section.BULK) -> Scenario:
    return Scenario(
        name=f"{_PREFIXES.get(section, '')}{mode}-{connections}",
        title=f"{title}, {_connections(connections)}",
        section=section,
        mode=mode,
        role=role,
        arguments=("-c", str(connections)),
        metrics=(GB_PER_S, CPU_PER_GB),
    )


def _round_trips(
    name: str, title: str, size: int, connections: int, section: Section = Section.ROUND_TRIPS
) -> Scenario:
    return Scenario(
        name=f"{_PREFIXES.get(section, '')}{name}-{connections}",
        title=f"{title}, {_connections(connections)}",
        section=section,
        mode="roundtrip",
        role="echo",
        arguments=("-c", str(connections), "-s", str(size)),
        metrics=(P50, P99, CPU_EACH),
    )


def _churn(name: str, title: str, section: Section, *arguments: str, answered: bool = False) -> Scenario:
    return Scenario(
        name=name,
        title=title,
        section=section,
        mode="churn",
        role="echo",
        arguments=("-c", str(CLIENTS), *arguments),
        metrics=(PER_S, P50, P99, CPU_EACH),
        answered=answered,
    )


def _idle(connections: int, section: Section = Section.MEMORY, *, handed_over: bool = False) -> Scenario:
    return Scenario(
        name=f"{_PREFIXES.get(section, '')}idle-{connections}",
        title=f"{connections:,} idle connections",
        section=section,
        mode="idle",
        role="echo",
        arguments=("-c", str(connections)),
        metrics=(KIB_EACH, RSS_AFTER),
        fresh=True,
        direct=False,
        handed_over=handed_over,
    )


def _connections(count: int) -> str:
    return "1 connection" if count == 1 else f"{count} connections"


SCENARIOS: tuple[Scenario, ...] = (
    *(_bulk("up", "to the process", "sink", count) for count in (1, 8, 64)),
    *(_bulk("down", "from the process", "source", count) for count in (1, 8, 64)),
    *(_round_trips("small", "64 B", 64, count) for count in (1, 8, 64)),
    *(_round_trips("large", "16 KiB", 16_384, count) for count in (1, 8, 64)),
    _churn("churn", "connect, preface, one round trip, close", Section.CONNECTIONS),
    _churn("answered", "the same, with an answer awaited", Section.CONNECTIONS, "-A", answered=True),
    Scenario(
        name="refused",
        title="connect, a wrong identity, refused",
        section=Section.CONNECTIONS,
        mode="reject",
        role="echo",
        arguments=("-c", str(CLIENTS)),
        metrics=(PER_S, P50, P99, CPU_EACH),
        refused=True,
        direct=False,
    ),
    *(
        _churn(f"beside-{held}", f"beside {held:,} idle", Section.FLATNESS, "-H", str(held))
        for held in (10, 1_000, 8_000)
    ),
    Scenario(
        name="busy-500",
        title="64 B, 500 connections beside 8,000 idle",
        section=Section.FLATNESS,
        mode="roundtrip",
        role="echo",
        arguments=("-c", "500", "-s", "64", "-H", "8000"),
        metrics=(P50, P99, CPU_EACH),
    ),
    Scenario(
        name="start",
        title="start",
        section=Section.MEMORY,
        mode=START,
        role="echo",
        arguments=(),
        metrics=(START_MS, RSS_AT_START),
        fresh=True,
        direct=False,
    ),
    _idle(1_000),
    _idle(8_000),
    _idle(10_000, handed_over=True),  # two descriptors each would be more than there are
    *(_bulk("up", "to the process", "sink", count, Section.TLS) for count in (1, 8)),
    *(_bulk("down", "from the process", "source", count, Section.TLS) for count in (1, 8)),
    *(_round_trips("small", "64 B", 64, count, Section.TLS) for count in (1, 8)),
    _churn("tls-churn", "connect, full handshake, one round trip, close", Section.TLS),
    _idle(1_000, Section.TLS),
)
