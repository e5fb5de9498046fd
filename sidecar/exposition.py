"""A registry of metrics as text, in the format that the scraper asks for.

Owns the negotiation of the format and what is left out of it, over ``prometheus_client``'s writers. Knows no metric by
name; called by ``metrics``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import exposition as openmetrics


def content_type(accept: str | None) -> str:
    """The format for a request with this ``Accept`` header.

    OpenMetrics 1.0 goes to those who ask for it by name; everybody else, whatever they sent, gets plain text 0.0.4.
    """
    return openmetrics.CONTENT_TYPE_LATEST if _prefers_openmetrics(accept or "") else CONTENT_TYPE_PLAIN_0_0_4


def render(registry: CollectorRegistry, accept: str | None) -> tuple[bytes, str]:
    """Everything in *registry* as text, and the content type of that text."""
    chosen, shown = content_type(accept), _WithoutCreated(registry)
    if chosen == CONTENT_TYPE_PLAIN_0_0_4:
        return generate_latest(shown), chosen
    body: bytes = openmetrics.generate_latest(shown)  # type: ignore[no-untyped-call]  # untyped in the library
    return body, chosen


class _WithoutCreated:
    """A registry without the ``_created`` series, which would double the counters for nothing.

    The library can switch them off only for the whole process (``disable_created_metrics``); a filter on the way out
    leaves its globals alone.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        """Every metric, less those samples."""
        for metric in self._registry.collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric


def _prefers_openmetrics(accept: str) -> bool:
    """Whether *accept* names OpenMetrics 1.0 and wants it at least as much as plain text (RFC 9110, 12.5.1)."""
    open_metrics = plain = 0.0
    for media_range in accept.split(","):
        media_type, *parameters = (part.strip().lower() for part in media_range.split(";"))
        values = dict(_pairs(parameters))
        weight = _weight(values.get("q", "1"))
        if media_type == "application/openmetrics-text" and values.get("version", "1.0.0") == "1.0.0":
            open_metrics = max(open_metrics, weight)
        elif media_type == "text/plain":
            plain = max(plain, weight)
    return open_metrics > 0 and open_metrics >= plain


def _pairs(parameters: Iterable[str]) -> Iterator[tuple[str, str]]:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        yield name.strip(), value.strip().strip('"')


def _weight(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0  # nonsense is no preference
