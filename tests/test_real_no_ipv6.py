"""The whole process on hosts with and without IPv6: each is a network namespace of its own, made for the test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.processes import Process, program, running

# Brings up loopback (SIOCSIFFLAGS, netdevice(7)), sets what the kernel is told about IPv6, and becomes a program.
PREPARE = """
import fcntl, os, pathlib, socket, struct, sys
settings, command = sys.argv[1], sys.argv[2:]
with socket.socket() as any_socket:
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sH14x", b"lo", 0x1 | 0x40))
for setting in settings.split():
    name, _, value = setting.partition("=")
    pathlib.Path("/proc/sys/net/ipv6", name).write_text(value)
os.execv(command[0], command)
"""
NO_IPV6 = "conf/all/disable_ipv6=1"

CONFIG = """
identity: {{cluster: prod-eu, replica: replica-a, ordinal: 2}}
assignment: {{instance: u-1}}
listeners: [{{name: compute, listen: "{listen}", upstream: "127.0.0.1:9", tls: none}}]
telemetry: {{listen: "127.0.0.1:0"}}
admin: {{listen: "127.0.0.1:0"}}
"""


def on_a_host(settings: str, *command: str) -> list[str]:
    """*command*, run in a new network namespace with these *settings* below net/ipv6."""
    unshare = program("unshare", comes_from="util-linux")
    return [unshare, "--net", sys.executable, "-c", PREPARE, settings, *command]


@pytest.fixture(autouse=True)
def _may_make_namespaces() -> None:
    done = subprocess.run(on_a_host(NO_IPV6, "/bin/true"), capture_output=True, text=True)
    if done.returncode:
        message = f"needs root, a kernel with IPv6, and /proc/sys to write to: {done.stderr.strip()}"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)


def sidecar(tmp_path: Path, listen: str) -> list[str]:
    path = tmp_path / "sidecar.yaml"
    path.write_text(CONFIG.format(listen=listen))
    return [sys.executable, "-m", "sidecar", "run", str(path)]


@contextmanager
def started(tmp_path: Path, settings: str, *, listen: str) -> Iterator[Process]:
    with running(on_a_host(settings, *sidecar(tmp_path, listen)), ready='"event": "started"') as process:
        yield process


def reaches(process: Process, host: str) -> bool:
    """Whether a connection to *host* arrives, from inside the process's namespace."""
    dial = "import socket, sys; socket.create_connection((sys.argv[1], 7101), timeout=10).close()"
    nsenter = program("nsenter", comes_from="util-linux")
    command = [nsenter, f"--target={process.pid}", "--net", sys.executable, "-c", dial, host]
    return subprocess.run(command, capture_output=True).returncode == 0


def listening(process: Process) -> dict[str, object]:
    lines = [json.loads(line) for line in process.lines]
    (line,) = [line for line in lines if line["event"] == "listening" and line["what"] == "listeners.compute.listen"]
    return line


def test_without_ipv6_all_addresses_are_those_of_ipv4_and_the_log_says_so(tmp_path: Path) -> None:
    with started(tmp_path, NO_IPV6, listen=":7101") as process:
        line = listening(process)
        assert line["addresses"] == ["0.0.0.0:7101"]
        assert line["missing"] == ["IPv6"]
        assert reaches(process, "127.0.0.1")
        assert not reaches(process, "::1")


@pytest.mark.parametrize("listen", ["[::]:7101", "[::1]:7101"])
def test_without_ipv6_an_address_of_it_ends_the_start_with_a_clear_error(tmp_path: Path, listen: str) -> None:
    done = subprocess.run(on_a_host(NO_IPV6, *sidecar(tmp_path, listen)), capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    key = "listeners.compute.listen"
    message = f"sidecar: {key}: this host has no IPv6, which {listen} needs: change {key}"
    assert done.stderr.splitlines()[-1] == message
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("bindv6only", [0, 1])
def test_both_families_reach_it_whatever_bindv6only_says(tmp_path: Path, bindv6only: int) -> None:
    with started(tmp_path, f"bindv6only={bindv6only}", listen=":7101") as process:
        assert listening(process)["addresses"] == ["0.0.0.0:7101", "[::]:7101"]
        assert "missing" not in listening(process)
        assert reaches(process, "127.0.0.1")
        assert reaches(process, "::1")
