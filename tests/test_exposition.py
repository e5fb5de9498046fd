"""The format in which metrics are shown: what was asked for, what is said and what is sent agree."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from sidecar.exposition import content_type, render

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PLAIN = "text/plain; version=0.0.4; charset=utf-8"

PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,"
    "text/plain;version=0.0.4;q=0.2,*/*;q=0.1"
)


def a_registry() -> CollectorRegistry:
    registry = CollectorRegistry()
    Counter("doors_total", "Doors.", registry=registry).inc(2)
    Histogram("waits_seconds", "Waits.", registry=registry, buckets=(1, 2)).observe(1.5)
    return registry


@pytest.mark.parametrize(
    "accept",
    [
        PROMETHEUS_2,
        PROMETHEUS_3,
        "application/openmetrics-text",
        "Application/OpenMetrics-Text ; Version=1.0.0",
        'application/openmetrics-text;version="1.0.0"',
        "text/plain;q=0.5, application/openmetrics-text;q=0.5",
    ],
)
def test_openmetrics_goes_to_those_who_ask_for_it(accept: str) -> None:
    assert content_type(accept) == OPENMETRICS


@pytest.mark.parametrize(
    "accept",
    [
        None,
        "",
        "*/*",
        "text/plain;version=0.0.4",
        "text/html,application/xhtml+xml,*/*;q=0.8",
        "application/openmetrics-text;version=0.0.1",
        "application/openmetrics-text;version=2.0.0",
        "application/openmetrics-text;q=0",
        "application/openmetrics-text;q=0.2, text/plain;q=0.9",
        "application/openmetrics-text;q=soon",
        ";;,=;q,,\x00\xff",
    ],
)
def test_everybody_else_gets_plain_text(accept: str | None) -> None:
    assert content_type(accept) == PLAIN


def test_what_is_called_openmetrics_is_openmetrics_to_its_end() -> None:
    body, said = render(a_registry(), "application/openmetrics-text")

    assert said == OPENMETRICS
    assert body.endswith(b"# EOF\n")
    assert {family.name for family in parse_openmetrics(body.decode())} == {"doors", "waits_seconds"}


def test_what_is_called_plain_is_plain() -> None:
    body, said = render(a_registry(), "text/plain;version=0.0.4")

    assert said == PLAIN
    assert b"# EOF" not in body
    samples = {s.name: s.value for family in parse_plain(body.decode()) for s in family.samples if not s.labels}
    assert samples == {"doors_total": 2.0, "waits_seconds_count": 1.0, "waits_seconds_sum": 1.5}


@pytest.mark.parametrize("accept", [None, "application/openmetrics-text"])
def test_no_series_says_when_a_counter_was_created(accept: str | None) -> None:
    assert b"_created" not in render(a_registry(), accept)[0]
