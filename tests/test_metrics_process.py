"""The metrics of the whole process, and how much they may grow."""

from __future__ import annotations

import errno
from collections.abc import Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

from sidecar.metrics import Basis, Metrics, ReadResult, State
from sidecar.reasons import End, Reason

WITH_LATER_FEATURES = 600  # series with two listeners, once TLS, leases and shadow mode have theirs
FOR_LATER_FEATURES = 170  # of these, what they will need: by reason, by cause, and a histogram stage, for each listener


class Scraped:
    """A process's metrics, and what a scrape shows of them."""

    def __init__(self, *listeners: str, now: float = 1000.0) -> None:
        self.registry = CollectorRegistry()
        self.metrics = Metrics(self.registry, listeners=listeners, wall_clock=lambda: now)

    def value(self, name: str, labels: Mapping[str, str] | None = None) -> float | None:
        return self.registry.get_sample_value(f"identity_sidecar_{name}", dict(labels or {}))

    def samples(self) -> list[tuple[str, dict[str, str]]]:
        text = self.metrics.render(None)[0].decode()
        return [(s.name, s.labels) for family in text_string_to_metric_families(text) for s in family.samples]

    def series(self, name: str) -> list[dict[str, str]]:
        return [labels for found, labels in self.samples() if found == f"identity_sidecar_{name}"]


def test_ten_thousand_rejections_make_no_new_series() -> None:
    scraped = Scraped("compute")
    listener = scraped.metrics.listener("compute")
    before = scraped.samples()

    for count in range(10_000):
        listener.accepted()
        listener.rejected(list(Reason)[count % len(Reason)])

    assert scraped.samples() == before


def test_the_series_of_two_listeners_leave_room_for_those_to_come() -> None:
    scraped = Scraped("compute", "storage")

    assert len(scraped.samples()) <= WITH_LATER_FEATURES - FOR_LATER_FEATURES


def test_one_listeners_page_is_under_64_kib() -> None:
    scraped = Scraped("x" * 63)

    assert len(scraped.metrics.render(None)[0]) < 64 * 1024
    assert len(scraped.metrics.render("application/openmetrics-text")[0]) < 64 * 1024


def test_one_state_is_shown_at_a_time() -> None:
    scraped = Scraped()
    assert scraped.value("state", {"state": "pending"}) == 1

    scraped.metrics.state(State.READY)

    shown = {state: scraped.value("state", {"state": state.value}) for state in State}
    assert shown == {state: float(state is State.READY) for state in State}


def test_a_read_is_counted_and_timed_and_a_good_one_remembered() -> None:
    scraped = Scraped(now=77.0)

    scraped.metrics.authority_read(ReadResult.ASSIGNED, 0.003)

    assert scraped.value("authority_reads_total", {"result": "assigned"}) == 1
    assert scraped.value("authority_read_duration_seconds_count") == 1
    assert scraped.value("authority_last_success_timestamp_seconds") == 77.0


def test_a_read_that_failed_is_no_success() -> None:
    scraped = Scraped()

    scraped.metrics.authority_read(ReadResult.UNAVAILABLE, 2.0)
    scraped.metrics.authority_read(ReadResult.REGRESSED, 0.1)

    assert scraped.value("authority_reads_total", {"result": "unavailable"}) == 1
    assert scraped.value("authority_last_success_timestamp_seconds") == 0


def test_a_new_assignment_replaces_the_one_shown() -> None:
    scraped = Scraped()
    scraped.metrics.assignment("prod-eu/replica-a/2", "U1", 7)

    scraped.metrics.assignment("prod-eu/replica-a/2", "U2", 8)

    assert scraped.series("assignment_info") == [{"identity": "prod-eu/replica-a/2", "pod_uid": "U2"}]
    assert scraped.value("assignment_generation") == 8


def test_an_odd_instance_survives_the_way_through_a_parser() -> None:
    scraped = Scraped()
    odd = '\\n"}\\\\1#{'

    scraped.metrics.assignment("a/b/1", odd, 1)

    assert scraped.series("assignment_info") == [{"identity": "a/b/1", "pod_uid": odd}]


def test_a_reload_replaces_the_modes_and_the_hash() -> None:
    scraped = Scraped("compute", "storage")
    scraped.metrics.enforcement({"compute": "enforce", "storage": "enforce"})
    scraped.metrics.config("aaaa")

    scraped.metrics.enforcement({"compute": "shadow", "storage": "enforce"})
    scraped.metrics.config("bbbb")

    assert scraped.series("enforcement_info") == [
        {"listener": "compute", "mode": "shadow"},
        {"listener": "storage", "mode": "enforce"},
    ]
    assert scraped.series("config_info") == [{"hash": "bbbb"}]


def test_accept_errors_are_counted_by_kind() -> None:
    scraped = Scraped()

    scraped.metrics.accept_error(OSError(errno.EMFILE, "Too many open files"))

    assert scraped.value("accept_errors_total", {"kind": "emfile"}) == 1


def test_the_page_says_what_is_running_and_how_it_fares() -> None:
    names = {name for name, _ in Scraped().samples()}

    assert {"identity_sidecar_build_info", "process_open_fds", "process_resident_memory_bytes"} <= names


def test_two_processes_worth_of_metrics_live_side_by_side() -> None:
    one, other = Scraped("compute"), Scraped("compute")

    one.metrics.listener("compute").accepted()
    one.metrics.listener("compute").admitted(Basis.AUTHORITY)
    one.metrics.listener("compute").ended(End.IDLE)
    one.metrics.limit(10)

    assert other.value("connections_accepted_total", {"listener": "compute"}) == 0
    assert other.value("connections_limit") == 0
