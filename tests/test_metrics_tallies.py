"""Cheap metrics make the same page as the library's own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from sidecar import exposition
from sidecar.metrics.labels import Outcome
from sidecar.metrics.tallies import Counters, Gauges, Histograms

BOUNDS = (0.0005, 0.25, 1, 10)
OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


class Ours:
    """A counter, a gauge and a histogram of this module's."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._counters = Counters("knocks_total", "Knocks.", ("door", "outcome"), self.registry)
        self._gauges = Gauges("guests", "Guests.", ("door",), self.registry)
        self._histograms = Histograms("wait_seconds", "Waits.", ("door",), self.registry, bounds=BOUNDS)
        self.knocks = self._counters.each(Outcome, 'front "door"\n')
        self.guests = self._gauges.series("front")
        self.wait = self._histograms.series("front")

    def move(self, knocks: int, guests: int, waits: list[float]) -> None:
        self.knocks[Outcome.REFUSED].inc(knocks)
        self.guests.value = guests
        for wait in waits:
            self.wait.observe(wait)


class Library:
    """The same of the library's."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        there = {"namespace": "identity_sidecar", "registry": self.registry}
        knocks = Counter("knocks_total", "Knocks.", ("door", "outcome"), **there)
        self.knocks = {outcome: knocks.labels('front "door"\n', outcome) for outcome in Outcome}
        self.guests = Gauge("guests", "Guests.", ("door",), **there).labels("front")
        self.wait = Histogram("wait_seconds", "Waits.", ("door",), buckets=BOUNDS, **there).labels("front")

    def move(self, knocks: int, guests: int, waits: list[float]) -> None:
        self.knocks[Outcome.REFUSED].inc(knocks)
        self.guests.set(guests)
        for wait in waits:
            self.wait.observe(wait)


waits = st.one_of(st.floats(0, 20), st.sampled_from(BOUNDS))


@given(st.integers(0, 2**60), st.integers(-5, 5), st.lists(waits, max_size=20))
def test_the_page_is_byte_for_byte_the_librarys(knocks: int, guests: int, waits: list[float]) -> None:
    ours, library = Ours(), Library()
    for each in (ours, library):
        each.move(knocks, guests, waits)

    for accept in (None, OPEN_METRICS):
        assert exposition.render(ours.registry, accept) == exposition.render(library.registry, accept)


def test_every_series_exists_before_anything_happens() -> None:
    ours = Ours()

    assert ours.registry.get_sample_value("identity_sidecar_guests", {"door": "front"}) == 0
    assert ours.registry.get_sample_value("identity_sidecar_wait_seconds_count", {"door": "front"}) == 0


def test_a_value_on_a_bound_lies_below_it() -> None:
    ours = Ours()

    ours.wait.observe(0.25)

    found = {
        le: ours.registry.get_sample_value("identity_sidecar_wait_seconds_bucket", {"door": "front", "le": le})
        for le in ("0.0005", "0.25", "1.0", "10.0", "+Inf")
    }
    assert found == {"0.0005": 0, "0.25": 1, "1.0": 1, "10.0": 1, "+Inf": 1}


def test_a_name_that_is_taken_is_refused() -> None:
    ours = Ours()

    for family, name in ((Counters, "knocks_total"), (Gauges, "guests")):
        with pytest.raises(ValueError, match="Duplicate"):
            family(name, "Again.", ("door",), ours.registry)
    with pytest.raises(ValueError, match="Duplicate"):
        Histograms("wait_seconds", "Again.", ("door",), ours.registry, bounds=BOUNDS)
