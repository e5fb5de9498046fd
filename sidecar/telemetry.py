"""The pages that may face the pod network: metrics and the three probes, and nothing about peers.

Owns what each page says and when it says no. Knows the process only through :class:`Health`; ``app`` implements that,
and serves these routes with ``http_server``. They are functions on trio's loop: a loop that hangs doesn't answer, and
that is the failure that ``/livez`` shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Final, Protocol

from sidecar import exposition
from sidecar.http_server import Request, Response, Routes, text

_SHARE: Final = 0.1  # of the loop's time, for rendering metrics
_BURST_SECONDS: Final = 0.5  # of rendering, before that share is enforced


class Health(Protocol):
    """What the probes ask."""

    def started(self) -> bool:
        """Whether the configuration is loaded and every listener bound."""

    def not_ready(self) -> Sequence[str]:
        """Why this sidecar shouldn't be sent claims now, an item each; empty: it is ready."""


class Scraped(Protocol):
    """What ``/metrics`` asks; ``Metrics`` is it."""

    def render(self, accept: str | None) -> tuple[bytes, str]:
        """All metrics as text for a request with this ``Accept`` header, and the content type of that text."""


def routes(metrics: Scraped, health: Health, *, clock: Callable[[], float]) -> Routes:
    """The telemetry server's pages.

    Args:
        metrics: what ``/metrics`` shows.
        health: what the probes ask.
        clock: monotonic seconds.
    """

    def livez(_request: Request) -> Response:
        return text("alive")

    def readyz(_request: Request) -> Response:
        reasons = health.not_ready()
        return text("\n".join(reasons), HTTPStatus.SERVICE_UNAVAILABLE) if reasons else text("ready")

    def startupz(_request: Request) -> Response:
        return text("started") if health.started() else text("starting", HTTPStatus.SERVICE_UNAVAILABLE)

    return {
        ("GET", "/metrics"): _Scrapes(metrics, clock).answer,
        ("GET", "/livez"): livez,
        ("GET", "/readyz"): readyz,
        ("GET", "/startupz"): startupz,
    }


class _Scrapes:
    """``/metrics``, which costs milliseconds of the loop that relays.

    A stranger who asks without pause must not take the loop from the connections: beyond a burst, rendering gets a
    tenth of the time, and who comes sooner gets the last rendering again, which is then fractions of a second old.
    """

    def __init__(self, metrics: Scraped, clock: Callable[[], float]) -> None:
        self._metrics = metrics
        self._clock = clock
        self._last: dict[str, Response] = {}  # by content type
        self._paid_at = clock()  # when what was spent on rendering has been made good

    def answer(self, request: Request) -> Response:
        accept = request.headers.get("accept")
        content_type = exposition.content_type(accept)
        now = self._clock()
        if content_type in self._last and self._paid_at - now > _BURST_SECONDS / _SHARE:
            return self._last[content_type]
        body, content_type = self._metrics.render(accept)
        self._paid_at = max(self._paid_at, now) + (self._clock() - now) / _SHARE
        response = self._last[content_type] = Response(body, content_type=content_type)
        return response
