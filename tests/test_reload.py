"""A reload: the whole file or nothing."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest
import trio
from prometheus_client import CollectorRegistry

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
        roster = Roster(connections=4096, pending=1024)
        self.text = BEFORE
        self.reload = Reload(
            config(BEFORE),
            self._reread,
            descriptors,
            SimpleNamespace(rebuild=self.rebuilt.append),
            roster,
            Lifecycle(roster, obstacles=list, delay=0, timeout=25, on_state=lambda _: None),
            RefusalLog(self.logger, per_second=10, clock=trio.current_time, on_suppressed=lambda: None),
            switch,
            Metrics(self.registry, listeners=["compute"], wall_clock=lambda: 0.0),
            self.logger,
        )

    def _reread(self):
        return config(self.text)

    def value(self, name, **labels):
        return self.registry.get_sample_value(f"identity_sidecar_{name}", labels)


async def test_everything_that_may_change_is_handed_on():
    house = House()
    house.text = BEFORE + "limits: {connections: 7}\nlog: {level: error, refusals_per_second: 3}\n"
    assert house.reload() == []
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
    problems = house.reload()
    assert len(problems) == 2
    assert house.rebuilt == []
    assert house.value("config_last_reload_successful") == 0
    house.text = BEFORE
    assert house.reload() == []
    assert house.value("config_last_reload_successful") == 1


async def test_a_change_that_takes_a_new_process_is_refused_whole_and_named():
    house = House()
    house.text = BEFORE.replace("ordinal: 2", "ordinal: 3") + "limits: {connections: 7}\n"
    assert house.reload() == ["identity can't be changed by a reload: restart the sidecar"]
    assert house.rebuilt == []
    assert house.value("connections_limit") == 0.0


async def test_a_file_that_cannot_be_read_is_a_problem_like_any_other(monkeypatch):
    house = House()

    def gone():
        raise ConfigurationError("test.yaml", [Problem(None, "", "can't be read")])

    house.reload.reread = gone
    assert house.reload() == ["test.yaml: can't be read"]


@pytest.mark.parametrize("descriptors", [1000])
async def test_limits_that_the_descriptors_do_not_carry_are_lowered_and_that_is_said(descriptors):
    house = House(descriptors=descriptors)
    assert house.reload() == []
    assert house.value("connections_limit") == 210
    assert "limits_lowered" in house.stream.getvalue()
