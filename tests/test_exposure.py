"""The watch over the upstreams: what it says, when, and what readiness learns of it."""

from __future__ import annotations

import io
import json
import threading

import pytest
import trio
import trio.testing
from prometheus_client import CollectorRegistry

from sidecar.config import HostPort, UnixPath
from sidecar.exposure import EXPOSURE_SECONDS, MISSING_SECONDS, PRESENT_SECONDS, UpstreamWatch
from sidecar.log import build_logger
from sidecar.metrics import Metrics
from sidecar.proc_net import Look

APP = HostPort("127.0.0.1", 2101)
OTHER = UnixPath("/run/app.sock")


class Namespace:
    """Who listens, as a look finds it."""

    def __init__(self):
        self.ways_round = {}  # by upstream
        self.absent = set()
        self.error = None
        self.exposure_looks = self.presence_looks = 0
        self.threads = set()

    def look(self):
        self.threads.add(threading.current_thread())
        if self.error is not None:
            raise self.error
        return self

    def beyond_loopback(self, upstream):
        self.exposure_looks += upstream == APP
        return self.ways_round.get(upstream, [])

    def listens(self, upstream):
        self.presence_looks += upstream == APP
        return upstream not in self.absent


class Watched:
    """A watch, and all that it tells."""

    def __init__(self, upstreams=None, *, needed=True, look=None):
        self.namespace = Namespace()
        self.registry = CollectorRegistry()
        self.stream = io.StringIO()
        upstreams = upstreams or {"compute": APP, "storage": OTHER}
        self.watch = UpstreamWatch(
            upstreams,
            Metrics(self.registry, listeners=list(upstreams), wall_clock=lambda: 0.0),
            build_logger("json", "info", self.stream),
            needed=needed,
            look=look or self.namespace.look,
        )

    def said(self):
        """The lines since the last call."""
        lines = [json.loads(line) for line in self.stream.getvalue().splitlines()]
        self.stream.truncate(0)
        self.stream.seek(0)
        return lines

    @property
    def exposed(self):
        return self.registry.get_sample_value("identity_sidecar_upstream_exposed")


async def test_a_way_round_is_told_once_and_so_is_its_end():
    each = Watched()
    await each.watch.look_for_ways_round()
    assert (each.said(), each.exposed) == ([], 0)

    each.namespace.ways_round[APP] = ["0.0.0.0:2101"]
    await each.watch.look_for_ways_round()
    await each.watch.look_for_ways_round()
    (line,) = each.said()
    assert (line["level"], line["event"], line["listener"]) == ("warning", "upstream_exposed", "compute")
    assert line["addresses"] == ["0.0.0.0:2101"]
    assert line["upstream"] == "127.0.0.1:2101"
    assert "loopback only" in line["advice"]
    assert each.exposed == 1

    each.namespace.ways_round.clear()
    await each.watch.look_for_ways_round()
    await each.watch.look_for_ways_round()
    (line,) = each.said()
    assert (line["level"], line["event"], line["listener"]) == ("info", "upstream_no_longer_exposed", "compute")
    assert each.exposed == 0


async def test_another_way_round_is_told_again():
    each = Watched()
    each.namespace.ways_round[APP] = ["10.0.0.7:2101"]
    await each.watch.look_for_ways_round()
    each.namespace.ways_round[APP] = ["0.0.0.0:2101", "10.0.0.7:2101"]
    await each.watch.look_for_ways_round()
    assert [line["addresses"] for line in each.said()] == [["10.0.0.7:2101"], ["0.0.0.0:2101", "10.0.0.7:2101"]]


async def test_the_metric_falls_only_when_no_upstream_is_exposed():
    second = HostPort("127.0.0.1", 2102)
    each = Watched({"compute": APP, "storage": second})
    each.namespace.ways_round = {APP: ["0.0.0.0:2101"], second: ["0.0.0.0:2102"]}
    await each.watch.look_for_ways_round()
    del each.namespace.ways_round[APP]
    await each.watch.look_for_ways_round()
    assert each.exposed == 1


async def test_an_upstream_is_missing_until_it_has_been_seen_and_when_it_has_gone():
    each = Watched()
    assert each.watch.missing() == ["compute", "storage"]
    each.namespace.absent = {OTHER}
    await each.watch.look_for_upstreams()
    assert each.watch.missing() == ["storage"]
    each.namespace.absent = set()
    await each.watch.look_for_upstreams()
    assert each.watch.missing() == []
    each.namespace.absent = {APP}
    await each.watch.look_for_upstreams()
    assert each.watch.missing() == ["compute"]


async def test_a_look_that_fails_changes_nothing_and_is_told_once():
    each = Watched()
    each.namespace.ways_round[APP] = ["0.0.0.0:2101"]
    await each.watch.look_for_ways_round()
    await each.watch.look_for_upstreams()
    each.said()

    each.namespace.error = OSError(24, "Too many open files")
    for _ in range(2):
        await each.watch.look_for_ways_round()
        await each.watch.look_for_upstreams()
    (line,) = each.said()
    assert line["event"] == "upstreams_not_looked_at"
    assert "Too many open files" in line["error"]
    assert each.exposed == 1
    assert each.watch.missing() == []

    each.namespace.error = None
    await each.watch.look_for_ways_round()
    each.namespace.error = OSError(24, "Too many open files")
    await each.watch.look_for_ways_round()
    assert len(each.said()) == 1, "it had gone well in between"


@pytest.mark.parametrize("needed", [True, False])
async def test_it_looks_at_once_and_again_and_again_and_never_on_the_loop(needed, mock_clock, nursery):
    each = Watched(needed=needed)
    nursery.start_soon(each.watch.run)
    await trio.testing.wait_all_tasks_blocked(0.01)
    namespace, seconds = each.namespace, 0
    while namespace.exposure_looks < 4 and seconds < 1000:
        mock_clock.jump(1)
        seconds += 1
        await trio.testing.wait_all_tasks_blocked(0.01)
    assert namespace.exposure_looks == 4
    assert seconds >= 3 * EXPOSURE_SECONDS, "not more often than it should"
    if needed:
        assert 4 < namespace.presence_looks <= seconds / PRESENT_SECONDS + 1
    else:
        assert namespace.presence_looks == 0
    assert threading.main_thread() not in namespace.threads
    nursery.cancel_scope.cancel()


async def test_a_missing_upstream_is_looked_for_more_often(mock_clock, nursery):
    each = Watched()
    each.namespace.absent = {OTHER}
    nursery.start_soon(each.watch.run)
    await trio.testing.wait_all_tasks_blocked(0.01)
    for _ in range(10):
        mock_clock.jump(MISSING_SECONDS)
        await trio.testing.wait_all_tasks_blocked(0.01)
    assert each.namespace.presence_looks > 10 * MISSING_SECONDS / PRESENT_SECONDS + 1
    nursery.cancel_scope.cancel()


async def test_what_cant_be_seen_is_told_at_the_start_and_isnt_missing(nursery):
    each = Watched({"compute": HostPort("app.invalid", 2101), "storage": OTHER}, look=Look)
    nursery.start_soon(each.watch.run)
    with trio.fail_after(5):
        while "compute" in each.watch.missing():
            await trio.sleep(0.01)
    lines = [line for line in each.said() if line["event"] == "upstream_not_seen"]
    assert [(line["listener"], line["level"]) for line in lines] == [("compute", "warning")]
    assert each.watch.missing() == ["storage"]
    nursery.cancel_scope.cancel()
