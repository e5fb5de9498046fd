import os
import signal
from collections import Counter
from contextlib import asynccontextmanager

import pytest
import trio
from demo_fakes import processes_naming, record

from sidecar.client import open_connection
from sidecar.demo import front as module
from sidecar.demo import scrape
from sidecar.demo.certificates import Certificates
from sidecar.demo.difference import DiffersError
from sidecar.demo.fleet import choose_ports
from sidecar.demo.front import Front
from sidecar.demo.lines import Lines
from sidecar.demo.replica import HOST, Replica, reply
from sidecar.demo.scrape import Counts
from sidecar.dialler import DialError
from sidecar.identity import ControllerName

RECORD = record(2, host="127.0.0.2")


@asynccontextmanager
async def open_front(directory, upstream="127.0.0.1:1"):
    async with trio.open_nursery() as nursery:
        ports = await choose_ports()
        certificates = Certificates(directory)
        front = Front(RECORD, ports, upstream, certificates.of_sidecars(), directory / "a-front")
        await nursery.start(front.run)
        yield front, ports, certificates.tls("c")
        nursery.cancel_scope.cancel()


async def test_a_front_that_runs_admits_who_means_it_and_ends_in_order(tmp_path):
    async with trio.open_nursery() as nursery:
        replica = Replica(2, 1)
        upstream = f"{HOST}:{await nursery.start(replica.serve)}"
        async with open_front(tmp_path, upstream) as (front, ports, tls):
            assert processes_naming(tmp_path) == [front.pid]
            lines = Lines(await open_connection((RECORD.host, ports.shard), RECORD.claim(ControllerName("c")), tls=tls))
            await lines.send("x")
            assert await lines.receive() == reply(2, 1, 1)
            expected = Counts(1, Counter(admitted=1))
            assert await front.counts(expected) == expected
            lines.close()
            await front.end()
            assert processes_naming(tmp_path) == []
        replica.end()
    assert (tmp_path / "a-front.yaml").exists()
    assert b'"exit_code": 0' in (tmp_path / "a-front.log").read_bytes()


async def test_another_one_guards_the_same_replica_at_its_own_address(tmp_path):
    elsewhere = record(2, host="127.0.0.3")
    async with open_front(tmp_path) as (front, ports, tls):
        await front.end()
        async with trio.open_nursery() as nursery:
            again = front.again(elsewhere, tmp_path / "again")
            await nursery.start(again.run)
            error = None
            try:
                await open_connection((elsewhere.host, ports.shard), elsewhere.claim(ControllerName("c")), tls=tls)
            except DialError as refused:
                error = refused
            assert error is not None
            assert error.reason == "upstream_unavailable"  # it is right, and its replica is none
            await again.end()
    assert "127.0.0.1:1" in (tmp_path / "again.yaml").read_text()


async def test_counters_that_never_come_to_what_is_expected_are_given_as_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(scrape, "READ_SECONDS", 0.5)
    async with open_front(tmp_path) as (front, _, _):
        assert await front.counts(Counts(1, Counter(admitted=1))) == Counts(0, Counter())


async def test_a_sidecar_that_dies_is_a_difference(tmp_path):
    async def kill_it():
        async with open_front(tmp_path) as (front, _, _):
            os.kill(front.pid, signal.SIGKILL)
            await trio.sleep_forever()

    with pytest.raises(BaseExceptionGroup) as caught:
        await kill_it()
    assert caught.group_contains(DiffersError, match=f"{tmp_path}/a-front.log: expected to run, but it ended")


async def test_a_sidecar_that_does_not_start_is_a_difference_that_names_its_log(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_CONFIGURATION", "nonsense: {record.host}")
    with pytest.raises(BaseExceptionGroup) as caught:
        async with open_front(tmp_path):
            raise AssertionError("it started")
    assert caught.group_contains(DiffersError, match="expected to start, but it ended with code 2")
    assert b"nonsense" in (tmp_path / "a-front.log").read_bytes()


async def test_a_sidecar_that_is_not_ready_in_time_is_a_difference_and_is_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "READY_SECONDS", 0.0)
    with pytest.raises(BaseExceptionGroup) as caught:
        async with open_front(tmp_path):
            raise AssertionError("it was ready")
    assert caught.group_contains(DiffersError, match="expected to be ready")
    assert processes_naming(tmp_path) == []


async def test_an_end_that_is_not_clean_is_a_difference(tmp_path):
    async with trio.open_nursery() as nursery:
        ports = await choose_ports()
        front = Front(RECORD, ports, "127.0.0.1:1", Certificates(tmp_path).of_sidecars(), tmp_path / "a-front")
        await nursery.start(front.run)
        os.kill(front.pid, signal.SIGKILL)
        with pytest.raises(DiffersError, match="expected exit code 0, but it was -9"):
            await front.end()


async def test_cancelling_leaves_no_process(tmp_path):
    async with trio.open_nursery() as nursery:
        front = Front(
            RECORD, await choose_ports(), "127.0.0.1:1", Certificates(tmp_path).of_sidecars(), tmp_path / "a-front"
        )
        await nursery.start(front.run)
        nursery.cancel_scope.cancel()
    assert processes_naming(tmp_path) == []
