"""A reload: the whole file or nothing."""

from __future__ import annotations

import io
import threading
from types import SimpleNamespace

import pytest
import trio
from prometheus_client import CollectorRegistry

from sidecar import reload
from sidecar.cli import admin_client
from sidecar.config import ConfigurationError, Problem, load
from sidecar.lifecycle import Lifecycle
from sidecar.log import LogSwitch, RefusalLog, build_logger
from sidecar.metrics import Metrics
from sidecar.reload import Reload
from sidecar.roster import Roster

BEFORE = """
identity: {cluster: prod-eu, replica: replica-a, ordinal: 2}
assignment: {instance: u-1}
listeners: [{name: compute, listen: ":7101", upstream: "127.0.0.1:2101", tls: none}]
"""


def config(text):
    return load(text, file="test.yaml", environ={})


class House:
    def __init__(self, *, descriptors=100_000):
        self.stream = io.StringIO()
        switch = LogSwitch(self.stream)
        self.logger = build_logger("json", "info", self.stream, switch)
        self.registry = CollectorRegistry()
        self.rebuilt = []
        self.poked = []
        roster = Roster(connections=4096, pending=1024)
        self.text = BEFORE
        self.reload = Reload(
            config(BEFORE),
            self.reread,
            descriptors,
            SimpleNamespace(rebuild=self.rebuilt.append),
            roster,
            Lifecycle(roster, obstacles=list, delay=0, timeout=25, on_state=lambda _: None),
            RefusalLog(self.logger, per_second=10, clock=trio.current_time, on_suppressed=lambda: None),
            switch,
            Metrics(self.registry, listeners=["compute"], wall_clock=lambda: 0.0),
            self.logger,
            SimpleNamespace(poke=lambda: self.poked.append(True)),
        )

    def reread(self):
        return config(self.text)

    def value(self, name, **labels):
        return self.registry.get_sample_value(f"identity_sidecar_{name}", labels)


async def test_everything_that_may_change_is_handed_on():
    house = House()
    house.text = BEFORE + "limits: {connections: 7}\nlog: {level: error, refusals_per_second: 3}\n"
    assert await house.reload.from_file() == []
    assert house.value("connections_limit") == 7
    assert house.reload.refusals.per_second == 3
    assert house.rebuilt == [house.reload.config]
    assert house.value("config_info", hash=house.reload.config.hash) == 1
    assert house.value("config_last_reload_successful") == 1
    lines = house.stream.getvalue()
    house.logger.info("not any more")
    assert house.stream.getvalue() == lines


async def test_a_file_that_is_wrong_changes_nothing_and_every_problem_is_said():
    house = House()
    house.text = BEFORE + "limits: {connections: 0, pendign: 3}\n"
    problems = await house.reload.from_file()
    assert len(problems) == 2
    assert house.rebuilt == []
    assert house.value("config_last_reload_successful") == 0
    house.text = BEFORE
    assert await house.reload.from_file() == []
    assert house.value("config_last_reload_successful") == 1


async def test_a_change_that_takes_a_new_process_is_refused_whole_and_named():
    house = House()
    house.text = BEFORE.replace("ordinal: 2", "ordinal: 3") + "limits: {connections: 7}\n"
    assert await house.reload.from_file() == ["identity can't be changed by a reload: restart the sidecar"]
    assert house.rebuilt == []
    assert house.value("connections_limit") == 0.0


async def test_a_file_that_cannot_be_read_is_a_problem_like_any_other(monkeypatch):
    house = House()

    def gone():
        raise ConfigurationError("test.yaml", [Problem(None, "", "can't be read")])

    house.reload.reread = gone
    assert await house.reload.from_file() == ["test.yaml: can't be read"]


async def test_a_fault_of_ours_is_a_failed_reload_and_not_the_end_of_the_process():
    house = House()

    def broken():
        raise ZeroDivisionError

    house.reload.reread = broken
    (problem,) = await house.reload.from_file()
    assert problem == "couldn't be read, by a fault of the sidecar's: its log has the traceback"
    assert "ZeroDivisionError" in house.stream.getvalue()
    assert house.value("config_last_reload_successful") == 0
    house.reload.reread = house.reread
    assert await house.reload.from_file() == []


class Slow:
    """Reads of the file that end when they are let go."""

    def __init__(self, house):
        self.begun = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)
        self.under_way = self.most = 0
        self._reread, house.reload.reread = house.reload.reread, self.read

    def read(self):
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        self.begun.release()
        self.may_end.acquire()
        self.under_way -= 1
        return self._reread()

    async def wait_begun(self):
        await trio.to_thread.run_sync(self.begun.acquire)


async def test_a_read_holds_up_nothing_else_and_is_applied_once_it_has_ended():
    house = House()
    slow = Slow(house)
    house.text = BEFORE + "limits: {connections: 7}\n"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(house.reload.from_file)
        await slow.wait_begun()  # trio's loop runs
        assert house.rebuilt == []
        slow.may_end.release()
    assert house.rebuilt == [house.reload.config]
    assert house.value("connections_limit") == 7


async def test_reloads_happen_one_at_a_time_and_the_last_one_to_begin_holds():
    house = House()
    slow = Slow(house)
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(house.reload.from_file)
        for number in range(3):
            await slow.wait_begun()
            house.text = BEFORE + f"limits: {{connections: {number + 1}}}\n"
            slow.may_end.release()
    assert slow.most == 1
    assert [each.limits.connections for each in house.rebuilt] == [1, 2, 3]


async def test_one_that_takes_too_long_has_failed_and_applies_nothing_even_when_it_ends_after_all(monkeypatch):
    monkeypatch.setattr(reload, "SECONDS", 0.05)
    house = House()
    slow = Slow(house)
    house.text = BEFORE + "limits: {connections: 7}\n"
    assert await house.reload.from_file() == ["couldn't be read within 0.05 s: nothing was changed"]
    assert house.value("config_last_reload_successful") == 0
    assert "reload_refused" in house.stream.getvalue()
    assert await house.reload.from_file() == ["couldn't be read within 0.05 s: nothing was changed"]  # its turn hangs
    slow.may_end.release()
    monkeypatch.setattr(reload, "SECONDS", 5.0)
    house.reload.reread = house.reread
    house.text = BEFORE + "limits: {connections: 8}\n"
    assert await house.reload.from_file() == []
    assert slow.most == 1
    assert [each.limits.connections for each in house.rebuilt] == [8]


def test_who_asks_for_a_reload_waits_until_it_has_failed():
    assert reload.SECONDS < admin_client.SECONDS


@pytest.mark.parametrize("descriptors", [1000])
async def test_limits_that_the_descriptors_do_not_carry_are_lowered_and_that_is_said(descriptors):
    house = House(descriptors=descriptors)
    assert await house.reload.from_file() == []
    assert house.value("connections_limit") == 188
    assert "limits_lowered" in house.stream.getvalue()
