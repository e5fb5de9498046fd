"""A real HAProxy of the age of 2.6, which can't write any TLV but its unique id, speaks for a client.

The configurations that HAProxy and the sidecar run with here are those of docs/senders.md and, with TLS, docs/tls.md,
with this test's ports.
"""

from __future__ import annotations

import csv
import json
import os
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from processes import Process, eventually, free_ports, program, running
from prometheus_client.parser import text_string_to_metric_families

from tests.certificates import CA, CONTROLLER

IDENTITY = "prod-eu/replica-a/2"
DOCS = Path(__file__).resolve().parent.parent / "docs"
SECONDS = 20.0


def from_page(marker: str, page: str = "senders.md") -> str:
    """The code block of *page* that holds *marker*."""
    found_blocks = re.findall(r"^```\w*\n(.*?)^```$", (DOCS / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    blocks = [block for block in found_blocks if marker in block]
    assert len(blocks) == 1
    found: str = blocks[0]
    return found


@dataclass(frozen=True, slots=True)
class HAProxy:
    """A running HAProxy."""

    port: int
    control: Path

    def server(self) -> dict[str, str]:
        """What it thinks of the one server that it passes connections to."""
        with socket.socket(socket.AF_UNIX) as control:
            control.connect(str(self.control))
            control.sendall(b"show stat -1 4 -1\n")  # every proxy's servers
            rows = list(csv.DictReader(control.makefile("r")))
        (server,) = (row for row in rows if row["svname"] == "replica-a-2")
        server["check_status"] = server["check_status"].removeprefix("* ")  # the mark of a check that is under way
        return server


@contextmanager
def haproxy(folder: Path, replica_port: int, *, identity: str = IDENTITY, check: str = "") -> Iterator[HAProxy]:
    """HAProxy before the replica at *replica_port*, as docs/senders.md sets it up; *check*: more for its line."""
    (port,) = free_ports(1)
    text = from_page("proxy-v2-options unique-id")
    for ours, its in (
        (f"127.0.0.1:{port}", ":7001"),
        (f"127.0.0.1:{replica_port} {check}", "10.0.7.12:7101"),
        (identity, IDENTITY),
    ):
        assert text.count(its) == 1
        text = text.replace(its, ours)
    config, control = folder / "haproxy.cfg", folder / "haproxy.sock"
    config.write_text(f"global\n    stats socket {control} level operator\n{text}")
    with running([program("haproxy", comes_from="Debian's haproxy"), "-W", "-f", str(config)], ready="Loading success"):
        yield HAProxy(port, control)


@contextmanager
def two_hops(folder: Path, replica_port: int) -> Iterator[int]:
    """HAProxy as docs/tls.md sets it up, with the files that *folder* holds. The port of its first hop."""
    (port,) = free_ports(1)
    text = from_page("abns@", "tls.md")
    for ours, its in (
        (f"127.0.0.1:{port}", "127.0.0.1:7001"),
        (f"127.0.0.1:{replica_port}", "10.0.7.12:7101"),
        (f"abns@{port}", "abns@replica-a-2"),
        (f"{folder}/", "/etc/tls/"),
    ):
        assert its in text
        text = text.replace(its, ours)
    config = folder / "haproxy.cfg"
    config.write_text(text)
    with running([program("haproxy", comes_from="Debian's haproxy"), "-W", "-f", str(config)], ready="Loading success"):
        yield port


@dataclass(frozen=True, slots=True)
class Sidecar:
    """A running sidecar, and the local process behind it: a listening socket in the test's hands."""

    port: int
    admin: int
    process: Process
    upstream: socket.socket

    def total(self, metric: str, **labels: str) -> float:
        """The value of *metric*, added up over the labels that aren't given."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.admin}/metrics", timeout=10) as response:
            families = list(text_string_to_metric_families(response.read().decode()))
        name = f"identity_sidecar_{metric}"
        samples = [sample for family in families for sample in family.samples if sample.name == name]
        return sum(sample.value for sample in samples if labels.items() <= sample.labels.items())

    def lines(self, event: str) -> list[dict[str, object]]:
        """The log's lines of *event*."""
        lines = [json.loads(line) for line in self.process.lines if line.startswith("{")]
        return [line for line in lines if line["event"] == event]

    def accept(self) -> socket.socket:
        """The next connection that reaches the local process."""
        connection, _ = self.upstream.accept()
        connection.settimeout(SECONDS)
        return connection

    @property
    def untouched(self) -> bool:
        """Whether no connection has reached the local process beyond those accepted."""
        self.upstream.settimeout(0)
        try:
            self.upstream.accept()[0].close()
        except BlockingIOError:
            return True
        return False


@contextmanager
def replica(folder: Path, *, identity: str = IDENTITY, tls: object = "none") -> Iterator[Sidecar]:
    """A sidecar with the configuration of docs/senders.md, but for the ports, *identity* and *tls*."""
    port, admin, telemetry = free_ports(3)
    with socket.create_server(("127.0.0.1", 0)) as upstream:
        upstream.settimeout(SECONDS)
        config = yaml.safe_load(from_page("require: [identity]"))
        cluster, name, ordinal = identity.split("/")
        config["identity"] = {"cluster": cluster, "replica": name, "ordinal": int(ordinal)}
        (listener,) = config["listeners"]
        listener |= {"listen": f"127.0.0.1:{port}", "upstream": f"127.0.0.1:{upstream.getsockname()[1]}", "tls": tls}
        config |= {"admin": {"listen": f"127.0.0.1:{admin}"}, "telemetry": {"listen": f"127.0.0.1:{telemetry}"}}
        file = folder / "sidecar.yaml"
        file.write_text(yaml.safe_dump(config))
        command = ["env", "POD_UID=3f0c9a52", sys.executable, "-m", "sidecar", "run", str(file)]
        with running(command, ready='"event": "started"') as process:
            yield Sidecar(port, admin, process, upstream)


@pytest.fixture(autouse=True)
def _path_to_haproxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{os.environ['PATH']}:/usr/sbin")  # on Debian few users' PATH leads there


@pytest.fixture
def sidecar(tmp_path: Path) -> Iterator[Sidecar]:
    with replica(tmp_path) as sidecar:
        yield sidecar


def dial(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=SECONDS)


def received(connection: socket.socket) -> bytes:
    """Everything up to the end of the stream."""
    with connection.makefile("rb") as stream:
        return stream.read()


def test_a_client_that_knows_nothing_of_it_gets_to_the_right_replica_byte_by_byte(
    sidecar: Sidecar, tmp_path: Path
) -> None:
    up, down = os.urandom(300_000), os.urandom(200_000)
    with haproxy(tmp_path, sidecar.port) as proxy, dial(proxy.port) as client, sidecar.accept() as upstream:
        client.sendall(up)
        client.shutdown(socket.SHUT_WR)
        assert received(upstream) == up
        upstream.sendall(down)
        upstream.shutdown(socket.SHUT_WR)
        assert received(client) == down
        name = client.getsockname()

    assert eventually(lambda: bool(sidecar.lines("connection_ended")))
    (line,) = sidecar.lines("connection_ended")
    assert line["claim"] == {"identity": IDENTITY}
    assert line["claimed_source"] == f"{name[0]}:{name[1]}"
    assert (line["bytes_up"], line["bytes_down"]) == (len(up), len(down))


def test_a_local_process_that_speaks_first_is_heard_first(sidecar: Sidecar, tmp_path: Path) -> None:
    with haproxy(tmp_path, sidecar.port) as proxy, dial(proxy.port) as client, sidecar.accept() as upstream:
        upstream.sendall(b"220 ready\r\n")
        assert client.recv(100) == b"220 ready\r\n"


def test_a_connection_that_means_another_slot_ends_at_the_sidecar(sidecar: Sidecar, tmp_path: Path) -> None:
    with haproxy(tmp_path, sidecar.port, identity="prod-eu/replica-a/3") as proxy, dial(proxy.port) as client:
        client.sendall(b"for 3")
        assert received(client) == b""  # HAProxy asks for no answer
    assert sidecar.total("connections_rejected_total", reason="identity_mismatch") == 1
    assert sidecar.total("connections_rejected_total") == sidecar.total("connections_accepted_total") == 1
    assert sidecar.untouched


@pytest.mark.parametrize("check", ["check", "check port {port} check-send-proxy"])
def test_its_health_check_is_a_probe_and_the_replica_stays_up(sidecar: Sidecar, tmp_path: Path, check: str) -> None:
    check = f"inter 200ms {check.format(port=sidecar.port)}"
    with haproxy(tmp_path, sidecar.port, check=check) as proxy:
        assert eventually(lambda: sidecar.total("probes_total", kind="local_probe") >= 3)
        assert_up(proxy.server())
    assert sidecar.total("probes_total", kind="closed_before_preface") == 0
    assert sidecar.total("connections_rejected_total") == 0
    assert sidecar.untouched


def test_its_health_check_without_a_header_leaves_no_trace_and_the_replica_stays_up(
    sidecar: Sidecar, tmp_path: Path
) -> None:
    """It resets the connection in place of the handshake's last packet, so that the sidecar never gets to see it."""
    with haproxy(tmp_path, sidecar.port, check=f"inter 200ms check port {sidecar.port}") as proxy:
        assert eventually(lambda: proxy.server()["check_status"] == "L4OK")
        assert_up(proxy.server())
    assert sidecar.total("connections_accepted_total") == sidecar.total("probes_total")
    assert sidecar.untouched


def assert_up(server: dict[str, str]) -> None:
    """HAProxy has checked the server, and never without success."""
    assert (server["status"], server["check_status"], server["chkfail"]) == ("UP", "L4OK", "0")


def test_an_identity_of_127_bytes_gets_through(tmp_path: Path) -> None:
    identity = f"{'c' * 62}/{'r' * 61}/12"
    assert len(identity) == 127
    with (
        replica(tmp_path, identity=identity) as sidecar,
        haproxy(tmp_path, sidecar.port, identity=identity) as proxy,
        dial(proxy.port) as client,
        sidecar.accept() as upstream,
    ):
        client.sendall(b"hello")
        assert upstream.recv(5) == b"hello"


def test_a_longer_identity_is_cut_and_so_refused(tmp_path: Path) -> None:
    identity = f"{'c' * 62}/{'r' * 62}/12"
    assert len(identity) == 128
    with (
        replica(tmp_path, identity=identity) as sidecar,
        haproxy(tmp_path, sidecar.port, identity=identity) as proxy,
        dial(proxy.port) as client,
    ):
        assert received(client) == b""
        assert sidecar.total("connections_rejected_total", reason="identity_mismatch") == 1
        (line,) = sidecar.lines("connection_refused")
        assert line["claim"] == {"identity": identity[:127]}


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Sidecar]:
    """The same sidecar with TLS; beside its files, HAProxy's."""
    root = CA()
    server, controller = root.issue(uris=[f"spiffe://example.org/{IDENTITY}"]), root.issue()
    (tmp_path / "tls.crt").write_bytes(server.chain_pem)
    (tmp_path / "tls.key").write_bytes(server.key_pem)
    (tmp_path / "ca.crt").write_bytes(root.pem)
    (tmp_path / "controller.pem").write_bytes(controller.chain_pem + controller.key_pem)
    files = {"certificate": tmp_path / "tls.crt", "key": tmp_path / "tls.key", "client_ca": tmp_path / "ca.crt"}
    with replica(tmp_path, tls={name: str(path) for name, path in files.items()} | {"allow": [CONTROLLER]}) as sidecar:
        yield sidecar


def test_two_hops_put_the_claim_inside_tls(secured: Sidecar, tmp_path: Path) -> None:
    up, down = os.urandom(300_000), os.urandom(200_000)
    with two_hops(tmp_path, secured.port) as port, dial(port) as client, secured.accept() as upstream:
        client.sendall(up)
        with upstream.makefile("rb") as stream:
            assert stream.read(len(up)) == up
        upstream.sendall(down)
        upstream.shutdown(socket.SHUT_WR)
        assert received(client) == down
        # Its health check is a whole handshake.
        assert eventually(lambda: secured.total("probes_total", kind="closed_before_preface") >= 1)
    assert secured.total("connections_rejected_total") == 0


def test_its_header_stands_before_tls_where_one_hop_does_both(secured: Sidecar, tmp_path: Path) -> None:
    ssl = f"ssl crt {tmp_path}/controller.pem ca-file {tmp_path}/ca.crt verify required"
    with haproxy(tmp_path, secured.port, check=ssl) as proxy, dial(proxy.port) as client:
        client.sendall(b"hello")
        assert received(client) == b""
    lines = secured.lines("connection_refused")
    assert {(line["reason"], line["detail"], line["tls"]) for line in lines} == {
        ("tls_failed", "protocol", "wrong version number")
    }
    assert secured.untouched


def test_the_check_says_what_the_listener_gives_up(tmp_path: Path) -> None:
    file = tmp_path / "sidecar.yaml"
    file.write_text(from_page("require: [identity]"))
    command = ["env", "POD_UID=3f0c9a52", sys.executable, "-m", "sidecar", "check", str(file)]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert checked.returncode == 0, checked.stderr
    assert "compute: stops connections meant for another slot" in checked.stdout
    assert "compute: warning: stops no old life" in checked.stdout
