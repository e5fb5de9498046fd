"""A pod that runs, moves and ends, with a real sidecar."""

from collections import Counter
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
from demo_fakes import processes_naming, record

from sidecar.client import open_connection
from sidecar.demo.certificates import Certificates
from sidecar.demo.fleet import choose_ports
from sidecar.demo.lines import Lines
from sidecar.demo.pod import Pod
from sidecar.demo.replica import reply
from sidecar.demo.scrape import Counts
from sidecar.dialler import UnreachableError
from sidecar.identity import ControllerName, Generation

RECORD = record(2, host="127.0.0.2")
ONE_ADMITTED = Counts(1, Counter(admitted=1), Counter(client_closed=1))  # which then hung up


@asynccontextmanager
async def launched(directory):
    async with trio.open_nursery() as nursery:
        ports = await choose_ports()
        certificates = Certificates(directory)
        pod = await Pod.launch(RECORD, ports, certificates.of_sidecars(), directory / "a-pod", nursery)
        yield pod, partial(dial, pod, ports, certificates.tls("c"))
        nursery.cancel_scope.cancel()


async def dial(pod, ports, tls):
    """A connection to the pod where it is now."""
    return await open_connection((pod.record.host, ports.shard), pod.record.claim(ControllerName("c")), tls=tls)


async def command(dialled):
    """Have one command carried out. What the shard says."""
    stream = await dialled()
    lines = Lines(stream)
    await lines.send("x")
    said = await lines.receive()
    await stream.aclose()
    return said


async def test_a_pod_that_runs_admits_who_means_it_and_ends_in_order(tmp_path):
    async with launched(tmp_path) as (pod, dialled):
        assert processes_naming(tmp_path) == [pod.pid]
        assert await command(dialled) == reply(2, 1, 1)
        assert pod.reached == 1
        assert await pod.counts(ONE_ADMITTED) == ONE_ADMITTED
        await pod.end()
        assert processes_naming(tmp_path) == []


async def test_a_pod_that_moves_keeps_its_replica_and_its_memory_and_counts_anew(tmp_path):
    async with launched(tmp_path) as (pod, dialled):
        await command(dialled)
        pod.dialled["admitted"] += 1
        pod.cut["superseded"] += 1
        before = pod.pid
        await pod.leave()
        with pytest.raises(UnreachableError):
            await command(dialled)
        await pod.arrive("127.0.0.3", tmp_path / "moved")
        assert pod.record == record(2, host="127.0.0.3")
        assert (pod.reached, pod.resets, pod.dialled, pod.cut) == (0, 0, {}, {})
        assert pod.pid != before
        assert await command(dialled) == reply(2, 1, 2)
        assert pod.reached == 1
        assert await pod.counts(ONE_ADMITTED) == ONE_ADMITTED
        await pod.end()
    left = {f"{start}{suffix}" for start in ("a-pod", "moved") for suffix in (".yaml", ".log", "-volume")}
    left |= {"sidecars", "controller-c"}
    assert {path.name for path in tmp_path.iterdir()} == left


async def test_a_pod_that_moves_on_runs_on_in_another_life_and_open_streams_are_reset_on_both_sides(tmp_path):
    async with launched(tmp_path) as (pod, dialled):
        old = Lines(await dialled())
        await old.send("x")
        await old.receive()
        before = pod.pid
        pod.move_on(Generation(2))
        assert pod.record == record(2, host="127.0.0.2", generation=2)
        with pytest.raises(trio.BrokenResourceError):
            await old.receive()
        old.close()
        assert await command(dialled) == reply(2, 2, 1)
        assert pod.pid == before
        assert pod.resets == 1
        counted = Counts(2, Counter(admitted=2), Counter(generation_stale=1, client_closed=1))
        assert await pod.counts(counted) == counted
        await pod.end()


async def test_cancelling_leaves_no_process(tmp_path):
    async with launched(tmp_path):
        pass
    assert processes_naming(tmp_path) == []
