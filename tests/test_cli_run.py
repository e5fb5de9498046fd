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


WITH_ANOTHER_APP = """
import argparse, signal, sys
import trio
from sidecar import app
from sidecar.cli import configuration, run

ALL = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

def raise_all():
    for number in ALL:
        signal.raise_signal(number)

async def heed(*args, **kwargs):
    with trio.open_signal_receiver(*ALL) as signals:
        await trio.sleep(0)
        raise_all()
        await trio.testing.wait_all_tasks_blocked()  # they are with the receiver, which nobody reads any more
    raise_all()
    return 0

async def end_early(*args, **kwargs):
    signal.raise_signal(signal.SIGTERM)

async def end_before_it_heeds(*args, **kwargs):
    await trio.sleep(0.05)
    signal.raise_signal(signal.SIGTERM)

def read_config(path, read=configuration.read_config):
    signal.raise_signal(signal.SIGHUP)
    return read(path)

import trio.testing
configuration.read_config = read_config
app.run = globals()[sys.argv[1]]
code = run.run(argparse.Namespace(config=sys.argv[2]))
raise_all()
sys.exit(code)
"""


@pytest.mark.parametrize(
    ("behaves", "code"), [("heed", 0), ("end_early", -signal.SIGTERM), ("end_before_it_heeds", -signal.SIGTERM)]
)
def test_a_signal_ends_what_has_not_begun_and_changes_nothing_of_what_has_ended(tmp_path, behaves, code):
    """Whatever comes before the app heeds signals, in its last moments, or when it has gone; a hangup never ends it."""
    arguments = [sys.executable, "-c", WITH_ANOTHER_APP, behaves, str(written(tmp_path))]
    done = subprocess.run(
        arguments, capture_output=True, text=True, env={**os.environ, "POD_UID": "u-1"}, timeout=30, check=False
    )
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr


def test_a_process_that_has_said_its_last_word_ends_as_it_said(tmp_path):
    """However many signals come after that."""
    environment = {**os.environ, "POD_UID": "u-1"}
    with subprocess.Popen(command(written(tmp_path)), stderr=subprocess.PIPE, env=environment) as process:
        for line in process.stderr:
            if b'"started"' in line:
                process.send_signal(signal.SIGTERM)
            if b'"stopped"' in line:
                break
        while process.poll() is None:
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                process.send_signal(number)
        assert process.returncode == 0
