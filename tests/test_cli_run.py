"""``sidecar run``: a process of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys

import pytest

from tests.processes import free_ports, running

CONFIG = """
identity: {cluster: prod-eu, replica: replica-a, ordinal: 2}
assignment: {instance: "${POD_UID}"}
listeners: [{name: compute, listen: "127.0.0.1:0", upstream: "127.0.0.1:9", tls: none}]
telemetry: {listen: "127.0.0.1:0"}
admin: {listen: "127.0.0.1:0"}
"""


def command(path):
    return [sys.executable, "-m", "sidecar", "run", str(path)]


def written(tmp_path, text=CONFIG):
    path = tmp_path / "sidecar.yaml"
    path.write_text(text)
    return path


def test_it_runs_until_it_is_told_to_stop_and_says_what_it_is(tmp_path, monkeypatch):
    monkeypatch.setenv("POD_UID", "u-1")
    with running(command(written(tmp_path)), ready='"event": "started"') as process:
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
    lines = [json.loads(line) for line in process.lines]
    remarks = [line["remark"] for line in lines if line["event"] == "configuration"]
    assert any("fixed for the life of the container" in remark for remark in remarks)
    assert lines[-1]["event"] == "stopped"


def test_what_stops_no_old_life_is_warned_about_at_every_start(tmp_path, monkeypatch):
    monkeypatch.setenv("POD_UID", "u-1")
    path = written(tmp_path, CONFIG + "require: [identity]\n")
    with running(command(path), ready='"event": "started"') as process:
        pass
    warnings = [json.loads(line) for line in process.lines if '"warning"' in line]
    assert any("old life" in line["remark"] for line in warnings)


def run(path, **variables):
    environment = {**os.environ, **variables}
    return subprocess.run(command(path), capture_output=True, text=True, check=False, env=environment, timeout=30)


def test_an_empty_variable_ends_the_start_and_names_itself(tmp_path):
    done = run(written(tmp_path), POD_UID="")
    assert done.returncode == 2
    assert "POD_UID" in done.stderr
    assert "assignment.instance" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_missing_file_ends_the_start(tmp_path):
    done = run(tmp_path / "none.yaml")
    assert done.returncode == 2
    assert "none.yaml" in done.stderr


def test_a_port_that_is_taken_ends_the_start_with_a_message(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        address = f"127.0.0.1:{stranger.getsockname()[1]}"
        text = CONFIG.replace('listen: "127.0.0.1:0", upstream', f'listen: "{address}", upstream')
        done = run(written(tmp_path, text), POD_UID="u-1")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(f"sidecar: listeners.compute.listen: address {address} is already")
    assert "Traceback" not in done.stderr


def test_a_log_that_nobody_reads_stops_nothing(tmp_path):
    """A stalled reader of stderr must not stop the loop: the probes answer, and SIGTERM ends it."""
    text = CONFIG.replace(
        'telemetry: {listen: "127.0.0.1:0"}', f'telemetry: {{listen: "127.0.0.1:{free_ports(1)[0]}"}}'
    )
    (port,) = free_ports(1)
    text = (
        text.replace('listen: "127.0.0.1:0", upstream', f'listen: "127.0.0.1:{port}", upstream')
        + "log: {refusals_per_second: 100000}\n"
    )
    environment = {**os.environ, "POD_UID": "u-1"}
    with subprocess.Popen(command(written(tmp_path, text)), stderr=subprocess.PIPE, env=environment) as process:
        while b"started" not in process.stderr.readline():
            pass
        for _ in range(1000):
            with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
                client.sendall(b"GET / HTTP/1.1\r\n\r\n")
                assert client.recv(1) == b""
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0
        process.stderr.read()


def test_a_standard_error_that_is_closed_ends_nothing(tmp_path):
    shell = f"exec {sys.executable} -m sidecar run {written(tmp_path)} 2>&-"
    with subprocess.Popen(["sh", "-c", shell], env={**os.environ, "POD_UID": "u-1"}) as process:
        try:
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(timeout=2)
        finally:
            process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=10) == 0
