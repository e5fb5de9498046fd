"""The pages that may face the pod network."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from sidecar.exposition import content_type
from sidecar.http_server import Request, Response
from sidecar.telemetry import routes


class Process:
    """A process whose health tests set, and whose clock moves when told to; rendering takes *cost* seconds of it.

    Its one metric is ``happened``.
    """

    def __init__(self, cost: float = 0.0) -> None:
        self.now = 0.0
        self.cost = cost
        self.reasons: Sequence[str] = ()
        self.is_started = True
        self.renderings = 0
        self.happened = 0
        self.routes = routes(self, self, clock=lambda: self.now)

    def render(self, accept: str | None) -> tuple[bytes, str]:
        self.renderings += 1
        self.now += self.cost
        return str(self.happened).encode(), content_type(accept)

    def started(self) -> bool:
        return self.is_started

    def not_ready(self) -> Sequence[str]:
        return self.reasons

    def get(self, path: str, **headers: str) -> Response:
        return self.routes["GET", path](Request("GET", path, headers))


def test_there_are_four_pages_and_no_buttons() -> None:
    assert set(Process().routes) == {("GET", page) for page in ("/metrics", "/livez", "/readyz", "/startupz")}


def test_a_loop_that_answers_is_alive() -> None:
    assert Process().get("/livez").status == 200


def test_ready_is_200_and_says_so() -> None:
    response = Process().get("/readyz")

    assert (response.status, response.body) == (200, b"ready\n")


def test_not_ready_is_503_and_names_everything_that_is_missing() -> None:
    process = Process()
    process.reasons = ["assignment: pending", "draining"]

    response = process.get("/readyz")

    assert (response.status, response.body) == (503, b"assignment: pending\ndraining\n")


@pytest.mark.parametrize(("started", "status"), [(True, 200), (False, 503)])
def test_startup_waits_for_the_listeners_and_for_nothing_else(started: bool, status: int) -> None:
    process = Process()
    process.is_started = started
    process.reasons = ["assignment: pending"]

    assert process.get("/startupz").status == status


def test_metrics_come_in_the_format_that_was_asked_for() -> None:
    process = Process()

    for _ in range(2):
        assert process.get("/metrics").content_type.startswith("text/plain; version=0.0.4")
        response = process.get("/metrics", accept="application/openmetrics-text")
        assert response.content_type.startswith("application/openmetrics-text; version=1.0.0")


def test_every_scrape_at_a_reasonable_pace_is_fresh() -> None:
    process = Process(cost=0.005)

    for count in range(500):
        assert process.get("/metrics").body == str(count).encode()
        process.happened += 1
        process.now += 0.05

    assert process.renderings == 500


def test_scrapes_without_pause_take_a_tenth_of_the_loops_time() -> None:
    process = Process(cost=0.005)

    while process.now < 30:
        process.get("/metrics")
        process.now += 0.0005  # what the last rendering again costs

    spent = process.renderings * process.cost
    assert spent == pytest.approx(0.1 * 30, rel=0.2)


def test_who_scrapes_without_pause_gets_numbers_that_are_almost_fresh() -> None:
    process = Process(cost=0.005)
    while process.now < 20:
        process.get("/metrics")
        process.now += 0.0005
    process.happened, then = 1, process.now

    while process.get("/metrics").body == b"0":
        process.now += 0.0005

    assert process.now - then < 0.1


def test_a_choice_of_many_accept_headers_is_no_way_round_the_limit() -> None:
    process = Process(cost=0.005)

    count = 0
    while process.now < 20:
        count += 1
        process.get("/metrics", accept=f"text/x{count}, application/openmetrics-text;q=0.{count % 2}")
        process.now += 0.0005

    assert process.renderings * process.cost < 0.15 * 20
