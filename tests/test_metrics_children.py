"""From a closed enum to series that all exist from the start."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

from sidecar.metrics.children import children
from sidecar.reasons import Probe


def test_every_member_has_its_series_before_anything_happens() -> None:
    registry = CollectorRegistry()
    family = Counter("knocks_total", "Knocks.", ("door", "kind"), registry=registry)

    children(family, Probe, "front")

    for kind in Probe:
        assert registry.get_sample_value("knocks_total", {"door": "front", "kind": kind.value}) == 0


def test_a_child_counts_under_its_members_word() -> None:
    registry = CollectorRegistry()
    made = children(Counter("knocks_total", "Knocks.", ("kind",), registry=registry), Probe)

    made[Probe.LOCAL].inc(3)

    assert registry.get_sample_value("knocks_total", {"kind": "local_probe"}) == 3
