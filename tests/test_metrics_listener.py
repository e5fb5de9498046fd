"""What is counted for one listener, and the equation that holds at any scrape."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from sidecar.metrics import Basis, ListenerMetrics, Outcome, Stage
from sidecar.metrics.listener import Families
from sidecar.reasons import End, Probe, Reason


class Scraped:
    """A listener's metrics, and its samples as a scrape shows them."""

    def __init__(self, now: float = 1000.0) -> None:
        self.registry = CollectorRegistry()
        families = Families(self.registry)
        self.listener = ListenerMetrics("compute", families, wall_clock=lambda: now)
        self.other = ListenerMetrics("storage", families, wall_clock=lambda: now)

    def value(self, name: str, listener: str = "compute", **labels: str) -> float:
        found = self.registry.get_sample_value(f"identity_sidecar_{name}", {"listener": listener, **labels})
        assert found is not None, f"no series {name}{labels}"
        return found

    def total(self, name: str) -> float:
        return sum(
            sample.value
            for metric in self.registry.collect()
            for sample in metric.samples
            if sample.name == f"identity_sidecar_{name}" and sample.labels["listener"] == "compute"
        )

    def balance(self) -> float:
        """What was accepted, less all that became of it: always 0."""
        signs = {"accepted": 1, "admitted": -1, "rejected": -1, "probes": -1, "pending": -1}
        balance = 0.0
        for metric in self.registry.collect():
            for sample in metric.samples:
                if sample.name.endswith("_total") or sample.labels.get("state") == "pending":
                    what = sample.labels.get("state") or sample.name.removeprefix("identity_sidecar_").split("_")[-2]
                    balance += signs.get(what, 0) * sample.value
        return balance


def test_an_accepted_connection_is_pending_until_its_verdict() -> None:
    scraped = Scraped()

    scraped.listener.accepted()

    assert scraped.value("connections_accepted_total") == 1
    assert scraped.value("connections_active", state="pending") == 1
    assert scraped.value("connections_active", state="admitted") == 0


def test_an_admission_moves_a_connection_from_pending_to_admitted() -> None:
    scraped = Scraped()
    scraped.listener.accepted()

    scraped.listener.admitted(Basis.AUTHORITY)

    assert scraped.value("connections_admitted_total", basis="authority") == 1
    assert scraped.value("connections_active", state="pending") == 0
    assert scraped.value("connections_active", state="admitted") == 1


def test_a_rejection_is_counted_by_reason_and_says_when() -> None:
    scraped = Scraped(now=1234.5)
    scraped.listener.accepted()

    scraped.listener.rejected(Reason.GENERATION_STALE)

    assert scraped.value("connections_rejected_total", reason="generation_stale") == 1
    assert scraped.value("last_rejection_timestamp_seconds", reason="generation_stale") == 1234.5
    assert scraped.value("connections_active", state="pending") == 0


def test_a_reason_that_never_occurred_has_a_series_and_no_time() -> None:
    scraped = Scraped()

    for reason in Reason:
        assert scraped.value("connections_rejected_total", reason=reason.value) == 0
        assert scraped.value("last_rejection_timestamp_seconds", reason=reason.value) == 0
    for end in End:
        assert scraped.value("connections_ended_total", cause=end.value) == 0


def test_a_probe_is_no_rejection() -> None:
    scraped = Scraped()
    scraped.listener.accepted()

    scraped.listener.probe(Probe.LOCAL)

    assert scraped.value("probes_total", kind="local_probe") == 1
    assert scraped.total("connections_rejected_total") == 0
    assert scraped.value("connections_active", state="pending") == 0


def test_an_end_takes_the_connection_from_the_admitted() -> None:
    scraped = Scraped()
    scraped.listener.accepted()
    scraped.listener.admitted(Basis.AUTHORITY)

    scraped.listener.ended(End.CLIENT_CLOSED)

    assert scraped.value("connections_ended_total", cause="client_closed") == 1
    assert scraped.value("connections_active", state="admitted") == 0


def test_listeners_count_apart() -> None:
    scraped = Scraped()

    scraped.listener.accepted()

    assert scraped.value("connections_accepted_total", listener="storage") == 0


def test_bytes_are_counted_by_direction() -> None:
    scraped = Scraped()

    traffic = SimpleNamespace(up=3, down=70_000)
    scraped.listener.follow(traffic)
    scraped.listener.catch_up()
    assert scraped.value("forwarded_bytes_total", direction="up") == 3
    assert scraped.value("forwarded_bytes_total", direction="down") == 70_000


def test_durations_go_into_the_buckets_of_their_stage_and_outcome() -> None:
    scraped = Scraped()

    scraped.listener.handshake_took(Stage.PREFACE, 0.02)
    scraped.listener.admission_took(Outcome.REFUSED, 0.0004)

    assert scraped.value("handshake_duration_seconds_bucket", stage="preface", le="0.005") == 0
    assert scraped.value("handshake_duration_seconds_bucket", stage="preface", le="0.025") == 1
    assert scraped.value("admission_duration_seconds_bucket", outcome="refused", le="0.0005") == 1
    assert scraped.value("admission_duration_seconds_count", outcome="admitted") == 0


def test_the_buckets_of_an_admission_span_half_a_millisecond_to_ten_seconds() -> None:
    scraped = Scraped()

    scraped.value("admission_duration_seconds_bucket", outcome="admitted", le="0.0005")
    scraped.value("admission_duration_seconds_bucket", outcome="admitted", le="10.0")


def test_what_the_shadow_mode_lets_through_is_counted_apart() -> None:
    scraped = Scraped()
    scraped.listener.shadow_rejected(Reason.IDENTITY_MISMATCH)
    scraped.listener.shadow_cut(End.GENERATION_STALE)
    scraped.listener.takeover_failed()

    assert scraped.value("shadow_rejections_total", reason="identity_mismatch") == 1
    assert scraped.value("shadow_cuts_total", cause="generation_stale") == 1
    assert scraped.value("takeovers_failed_total") == 1
    assert scraped.value("connections_rejected_total", reason="identity_mismatch") == 0


def test_counts_for_people_leave_out_what_never_happened() -> None:
    scraped = Scraped()
    for _ in range(4):
        scraped.listener.accepted()
    scraped.listener.rejected(Reason.DRAINING)
    scraped.listener.probe(Probe.CLOSED_BEFORE_PREFACE)
    scraped.listener.admitted(Basis.AUTHORITY)
    scraped.listener.follow(SimpleNamespace(up=10, down=0))

    assert scraped.listener.counts() == {
        "accepted": 4,
        "pending": 1,
        "active": 1,
        "admitted": {"authority": 1},
        "rejected": {"draining": 1},
        "probes": {"closed_before_preface": 1},
        "shadow_rejected": {},
        "shadow_cuts": {},
        "ended": {},
        "bytes_up": 10,
        "bytes_down": 0,
    }


def lives() -> st.SearchStrategy[list[object]]:
    """What becomes of one connection, in order, after it was accepted; it may stop anywhere."""
    admitted = st.tuples(st.sampled_from(Basis), st.sampled_from(End)).map(list)
    whole = st.one_of(st.sampled_from(Reason).map(lambda r: [r]), st.sampled_from(Probe).map(lambda p: [p]), admitted)
    return whole.flatmap(lambda life: st.integers(0, len(life)).map(lambda length: life[:length]))


def happen(listener: ListenerMetrics, event: object) -> None:
    match event:
        case Reason():
            listener.rejected(event)
        case Probe():
            listener.probe(event)
        case Basis():
            listener.admitted(event)
        case End():
            listener.ended(event)
        case _:
            pytest.fail(f"no such event: {event}")


def interleaved(connections: list[list[object]]) -> Iterator[object]:
    """One event of each connection in turn, until none has any left."""
    while connections:
        for events in connections:
            yield events.pop(0)
        connections = [events for events in connections if events]


@settings(max_examples=40)
@given(st.lists(lives(), max_size=6))
def test_accepted_is_admitted_and_rejected_and_probes_and_pending_at_any_moment(
    connections: list[list[object]],
) -> None:
    scraped = Scraped()
    for _ in connections:
        scraped.listener.accepted()
        assert scraped.balance() == 0

    for event in interleaved([events for events in connections if events]):
        happen(scraped.listener, event)
        assert scraped.balance() == 0

    admitted, ended = scraped.total("connections_admitted_total"), scraped.total("connections_ended_total")
    assert scraped.value("connections_active", state="admitted") == admitted - ended
