"""The whole process, put together: real sockets, real signals, and the order of start and end."""

from __future__ import annotations

import io
import json
import os
import signal
import socket

import pytest
import trio

from sidecar import app
from sidecar.client import open_connection
from sidecar.config import load
from sidecar.dialler import RefusedError
from sidecar.errors import StartError
from sidecar.log import LogSwitch, build_logger
from tests.names import CLAIM, U1, WRONG


def config(*, upstream=9, telemetry="127.0.0.1:0", listen="127.0.0.1:0", revalidate_interval="10s", more=""):
    text = f"""
identity: {{cluster: prod-eu, replica: replica-a, ordinal: 2}}
assignment: {{instance: {U1}, generation: "7", revalidate_interval: {revalidate_interval}}}
listeners:
  - {{name: compute, listen: "{listen}", upstream: "127.0.0.1:{upstream}", tls: none, answer: full}}
telemetry: {{listen: "{telemetry}"}}
admin: {{listen: "127.0.0.1:0"}}
{more}
"""
    return load(text, file="test.yaml", environ={})


class Running:
    """An app in this process, and what it logs."""

    def __init__(self):
        self.stream = io.StringIO()
        self.code = None
        self.reread = None  # what a reload reads

    async def run(self, config):
        switch = LogSwitch(self.stream)
        logger = build_logger("json", "info", self.stream, switch)
        self.code = await app.run(config, logger, reread=lambda: self.reread or config, switch=switch)

    @property
    def lines(self):
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def events(self):
        return [line["event"] for line in self.lines]

    async def wait_for(self, event, **fields):
        """The first line of *event* with *fields*, once it is there."""
        with trio.fail_after(5):
            while True:
                for line in self.lines:
                    if all(line.get(key) == value for key, value in {"event": event, **fields}.items()):
                        return line
                await trio.sleep(0.01)

    async def address(self, what):
        return (await self.wait_for("listening", what=what))["addresses"][0]

    async def get(self, server, path):
        """The status and body of a page; *server* is telemetry or admin."""
        host, _, port = (await self.address(f"{server}.listen")).rpartition(":")
        async with await trio.open_tcp_stream(host, int(port)) as stream:
            await stream.send_all(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            answer = b"".join([bytes(data) async for data in stream]).decode()
        head, _, body = answer.partition("\r\n\r\n")
        return int(head.split()[1]), body


@pytest.fixture
def upstream():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


async def test_it_starts_serves_and_ends_in_order(upstream):
    running = Running()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(running.run, config(upstream=upstream.getsockname()[1]))
        address = await running.address("listeners.compute.listen")
        assert await running.get("telemetry", "/readyz") == (200, "ready\n")
        assert (await running.get("telemetry", "/startupz"))[0] == 200
        stream = await open_connection(address, CLAIM)
        with pytest.raises(RefusedError):
            await open_connection(address, WRONG)
        _, metrics = await running.get("telemetry", "/metrics")
        assert 'connections_admitted_total{basis="authority",listener="compute"} 1.0' in metrics
        assert 'connections_rejected_total{listener="compute",reason="identity_mismatch"} 1.0' in metrics
        _, status = await running.get("admin", "/status")
        assert json.loads(status)["connections"][0]["state"] == "admitted"
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(RefusedError, match="draining"):
            await open_connection(address, CLAIM)
        assert (await running.get("telemetry", "/readyz"))[0] == 503
        assert running.code is None
        accepted, _ = upstream.accept()
        accepted.close()
        await stream.aclose()
    assert running.code == 0
    assert running.events() == [
        *["listening"] * 3,
        "started",
        "assignment",
        "connection_refused",
        "signal",
        "connection_refused",
        "connection_ended",
        "stopped",
    ]


async def test_a_second_signal_ends_it_at_once_with_an_exit_code_that_says_so(upstream):
    running = Running()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(running.run, config(upstream=upstream.getsockname()[1]))
        stream = await open_connection(await running.address("listeners.compute.listen"), CLAIM)
        os.kill(os.getpid(), signal.SIGTERM)
        await running.wait_for("signal")
        os.kill(os.getpid(), signal.SIGINT)
    assert running.code == 1
    (ended,) = [line for line in running.lines if line["event"] == "connection_ended"]
    assert ended["end"] == "aborted"
    with pytest.raises(trio.BrokenResourceError):
        await stream.receive_some()
    await stream.aclose()


async def test_a_hangup_reloads_what_may_change_and_refuses_the_rest_whole():
    running = Running()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(running.run, config())
        await running.address("listeners.compute.listen")
        running.reread = config(more="limits: {connections: 7}\nlog: {level: warning}")
        os.kill(os.getpid(), signal.SIGHUP)
        await running.wait_for("signal", effect="reload")
        metrics = ""
        with trio.fail_after(10):  # it isn't said at this level
            while "identity_sidecar_connections_limit 7.0" not in metrics:
                _, metrics = await running.get("telemetry", "/metrics")
        running.reread = config(upstream=10, more="limits: {connections: 8}")
        os.kill(os.getpid(), signal.SIGHUP)
        refused = await running.wait_for("reload_refused")
        assert refused["problems"] == ["listeners.compute.upstream can't be changed by a reload: restart the sidecar"]
        _, metrics = await running.get("telemetry", "/metrics")
        assert "identity_sidecar_connections_limit 7.0" in metrics
        assert "identity_sidecar_config_last_reload_successful 0.0" in metrics
        os.kill(os.getpid(), signal.SIGTERM)
    assert running.code == 0


@pytest.mark.parametrize("key", ["telemetry", "listen"])
async def test_a_port_that_is_taken_ends_the_start_with_one_error_that_names_it(key):
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        address = f"127.0.0.1:{stranger.getsockname()[1]}"
        with pytest.raises(StartError, match=f"{key}.*{address} is already in use"):
            await Running().run(config(**{key: address}))


async def test_no_listener_accepts_where_the_metrics_port_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        running = Running()
        with pytest.raises(StartError):
            await running.run(config(telemetry=f"127.0.0.1:{stranger.getsockname()[1]}"))
        assert running.lines == []


async def test_the_authority_is_read_again_and_again():
    running = Running()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(running.run, config(revalidate_interval="50ms"))

        with trio.fail_after(5):
            reads = 0.0
            while reads < 3:
                _, metrics = await running.get("telemetry", "/metrics")
                reads = float(metrics.split('authority_reads_total{result="assigned"} ')[1].split()[0])
        nursery.cancel_scope.cancel()
