"""Metrics that cost next to nothing to move.

Theory of operation. A connection moves a dozen metrics, and the library's own take a lock and several calls for each.
These are plain numbers; they become the library's samples when somebody scrapes. That is exact without a lock, because
one thread does both: a scrape is a function on trio's loop, and so it sees no event half counted. What another thread
counts, it has to hand over to the loop.

Owns the numbers and their way into samples. Names, labels and help text are those of the module that defines metrics
(``listener``); what a page looks like is the library's.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Generic, TypeVar

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from sidecar.metrics.children import NAMESPACE, Kind

Series = TypeVar("Series")


class Tally:
    """The number that a counter or a gauge stands at; a counter's only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def inc(self, by: float = 1) -> None:
        """Add *by*."""
        self.value += by


class Spread:
    """What a histogram stands at: how many values lie between two bounds each, and the sum of all."""

    __slots__ = ("_bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * (len(bounds) + 1)  # the last: beyond the last bound
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """There was *value*; a bound belongs to what lies below it."""
        self.counts[bisect_left(self._bounds, value)] += 1
        self.sum += value


class _Family(Collector, Generic[Series]):
    """A metric with all its series, in the order in which they were made."""

    def __init__(self, name: str, text: str, labels: Sequence[str], registry: CollectorRegistry) -> None:
        self._name = f"{NAMESPACE}_{name}"
        self._text = text
        self._labels = labels
        self._series: dict[tuple[str, ...], Series] = {}
        registry.register(self)

    def series(self, *labels: str) -> Series:
        """A new series, which exists from now on."""
        series = self._series[labels] = self._new()
        return series

    def each(self, kinds: Iterable[Kind], *labels: str) -> dict[Kind, Series]:
        """A new series for each of *kinds*, which is its last label."""
        return {kind: self.series(*labels, kind.value) for kind in kinds}

    def describe(self) -> Iterable[Metric]:
        """What the registry asks for when it is given this: a metric without series."""
        return self.collect()

    @abstractmethod
    def collect(self) -> Iterable[Metric]:
        """The metric as it stands."""

    @abstractmethod
    def _new(self) -> Series: ...


class Counters(_Family[Tally]):
    """The library's ``Counter``."""

    def collect(self) -> Iterable[Metric]:
        """The metric as it stands."""
        metric = CounterMetricFamily(self._name, self._text, labels=self._labels)
        for labels, tally in self._series.items():
            metric.add_metric(labels, tally.value)
        return [metric]

    def _new(self) -> Tally:
        return Tally()


class Gauges(_Family[Tally]):
    """The library's ``Gauge``."""

    def collect(self) -> Iterable[Metric]:
        """The metric as it stands."""
        metric = GaugeMetricFamily(self._name, self._text, labels=self._labels)
        for labels, tally in self._series.items():
            metric.add_metric(labels, tally.value)
        return [metric]

    def _new(self) -> Tally:
        return Tally()


class Histograms(_Family[Spread]):
    """The library's ``Histogram``."""

    def __init__(
        self, name: str, text: str, labels: Sequence[str], registry: CollectorRegistry, *, bounds: Sequence[float]
    ) -> None:
        self._bounds = bounds
        self._bound_names = [*(str(float(bound)) for bound in bounds), "+Inf"]
        super().__init__(name, text, labels, registry)

    def collect(self) -> Iterable[Metric]:
        """The metric as it stands."""
        metric = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        for labels, spread in self._series.items():
            at_most = zip(self._bound_names, accumulate(spread.counts), strict=True)
            metric.add_metric(labels, list(at_most), spread.sum)
        return [metric]

    def _new(self) -> Spread:
        return Spread(self._bounds)
