import os
import signal
from collections import Counter
from contextlib import asynccontextmanager

import pytest
import trio
from demo_fakes import processes_naming, record

from sidecar.client import open_connection
from sidecar.demo import pod as module
from sidecar.demo import scrape
from sidecar.demo.difference import DiffersError
from sidecar.demo.fleet import choose_ports
from sidecar.demo.lines import Lines
from sidecar.demo.pod import Pod
from sidecar.demo.replica import reply
from sidecar.demo.scrape import Counts
from sidecar.identity import ControllerName

RECORD = record(2, host="127.0.0.2")


@asynccontextmanager
async def open_pod(directory):
    async with trio.open_nursery() as nursery:
        ports = await choose_ports()
        pod = Pod(RECORD, ports, directory, "a-pod")
        await nursery.start(pod.run)
        yield pod, ports
        nursery.cancel_scope.cancel()


async def test_a_pod_that_runs_admits_who_means_it_and_ends_in_order(tmp_path):
    async with open_pod(tmp_path) as (pod, ports):
        assert processes_naming(tmp_path) == [pod.pid]
        stream = await open_connection((RECORD.host, ports.shard), RECORD.claim(ControllerName("c")))
        lines = Lines(stream)
        await lines.send("x")
        assert await lines.receive() == reply(2, 1, 1)
        assert pod.replica.connections == 1
        expected = Counts(1, Counter(admitted=1))
        assert await pod.counts(expected) == expected
        lines.close()
        await pod.end()
        assert processes_naming(tmp_path) == []
    assert (tmp_path / "a-pod.yaml").exists()
    assert b'"exit_code": 0' in (tmp_path / "a-pod.log").read_bytes()


async def test_counters_that_never_come_to_what_is_expected_are_given_as_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(scrape, "READ_SECONDS", 0.5)
    async with open_pod(tmp_path) as (pod, _):
        assert await pod.counts(Counts(1, Counter(admitted=1))) == Counts(0, Counter())


async def test_a_sidecar_that_dies_is_a_difference_and_takes_its_replica_with_it(tmp_path):
    async def kill_it():
        async with open_pod(tmp_path) as (pod, _):
            os.kill(pod.pid, signal.SIGKILL)
            await trio.sleep_forever()

    with pytest.raises(BaseExceptionGroup) as caught:
        await kill_it()
    assert caught.group_contains(DiffersError, match=f"{tmp_path}/a-pod.log: expected to run, but it ended")


async def test_a_sidecar_that_does_not_start_is_a_difference_that_names_its_log(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_CONFIGURATION", "nonsense: {record.host}")
    with pytest.raises(BaseExceptionGroup) as caught:
        async with open_pod(tmp_path):
            raise AssertionError("it started")
    assert caught.group_contains(DiffersError, match="expected to start, but it ended with code 2")
    assert b"nonsense" in (tmp_path / "a-pod.log").read_bytes()


async def test_a_sidecar_that_is_not_ready_in_time_is_a_difference_and_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "READY_SECONDS", 0.0)
    with pytest.raises(BaseExceptionGroup) as caught:
        async with open_pod(tmp_path):
            raise AssertionError("it was ready")
    assert caught.group_contains(DiffersError, match="expected to be ready")
    assert processes_naming(tmp_path) == []


async def test_an_end_that_is_not_clean_is_a_difference(tmp_path):
    async with trio.open_nursery() as nursery:
        ports = await choose_ports()
        pod = Pod(RECORD, ports, tmp_path, "a-pod")
        await nursery.start(pod.run)
        os.kill(pod.pid, signal.SIGKILL)
        with pytest.raises(DiffersError, match="expected exit code 0, but it was -9"):
            await pod.end()


async def test_cancelling_leaves_no_process(tmp_path):
    async with trio.open_nursery() as nursery:
        pod = Pod(RECORD, await choose_ports(), tmp_path, "a-pod")
        await nursery.start(pod.run)
        nursery.cancel_scope.cancel()
    assert processes_naming(tmp_path) == []
