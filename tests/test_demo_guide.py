import io
import os
import shlex
from pathlib import Path

import pytest
from demo_fakes import FakeFleet, FakePod, record

from sidecar.cli import connect
from sidecar.demo import guide
from sidecar.demo.front import Ports
from sidecar.demo.scrape import Counts
from sidecar.demo.screen import WIDTH, Screen
from sidecar.demo.story import NAME
from sidecar.identity import Identity


def shown(directory="/tmp/sidecar-demo-x"):
    stream = io.StringIO()
    fleet = FakeFleet(FakePod(record(host="127.0.0.3"), Counts(0, {})), ports=Ports(7101, 9902, 9901))
    guide.show(Screen(stream, color=False), fleet, Path(directory))
    return stream.getvalue()


@pytest.fixture
def commands(monkeypatch, tmp_path):
    """What is shown where `sidecar` is on PATH, as a shell would take it apart."""
    program = tmp_path / "sidecar"
    program.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    pasted = [line for line in shown().replace("\\\n", "").splitlines()[1:] if not line.strip().startswith("#")]
    return [shlex.split(line) for line in pasted]


def test_connect_is_shown_with_a_claim_that_is_right_and_one_that_is_wrong(commands):
    parser = connect_parser()
    right, wrong = (parser.parse_args(each[1:]) for each in commands if each[1:2] == ["connect"])
    there = record()
    assert right.address == wrong.address == "127.0.0.3:7101"
    assert (right.identity, right.generation, right.instance) == (there.identity, there.generation, there.instance)
    assert str(right.controller) == NAME  # a shard takes no second one beside its own
    assert wrong.identity == Identity("demo", "replica-a", 7)
    assert (wrong.generation, wrong.instance, wrong.probe) == (there.generation, there.instance, True)


def connect_parser():
    import argparse

    parser = argparse.ArgumentParser()
    connect.add_parser(parser.add_subparsers())
    return parser


def test_metrics_status_and_logs_are_shown_where_they_are(commands):
    assert ["curl", "-s", "http://127.0.0.3:9902/metrics"] in commands
    assert ["sidecar", "status", "--admin", "127.0.0.3:9901"] in commands
    assert ["ls", "/tmp/sidecar-demo-x"] in commands


def test_no_line_is_too_wide(commands, monkeypatch):
    assert max(map(len, shown().splitlines())) <= WIDTH


def test_without_sidecar_on_the_path_python_runs_it(monkeypatch):
    monkeypatch.setenv("PATH", os.devnull)
    assert "-m sidecar connect 127.0.0.3:7101" in shown()
