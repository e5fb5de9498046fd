"""A listener on a Unix path: who may connect is the file's mode, and what stands there already is looked at first."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
import yaml
from conftest import Start
from kernel import is_reset, receive_all, receive_exactly
from names import CLAIM, OWN, WRONG, preface
from processes import eventually
from replica import SECONDS, SIDECAR, LocalProcess, configuration, next_answer, sidecar_at


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "compute.sock"


def listening_at(path: Path, **keys: object) -> dict[str, object]:
    """The sections that put the listener there."""
    return {"listener": {"listen": f"unix:{path}", **keys}}


def connect(path: Path) -> socket.socket:
    """A connection to whoever listens there."""
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(SECONDS)
    try:
        sock.connect(str(path))
    except OSError:
        sock.close()
        raise
    return sock


def admits(path: Path, local_process: LocalProcess) -> bool:
    """Whether a right claim gets through to the local process and back."""
    with connect(path) as client:
        client.sendall(preface(answer=True) + b"ping")
        if not next_answer(client).admitted:
            return False
        with local_process.accept() as upstream:
            upstream.sendall(b"pong")
            return receive_exactly(upstream, 4) + receive_exactly(client, 4) == b"pingpong"


def test_claims_are_decided_as_on_any_listener(start: Start, own_local_process: LocalProcess, path: Path) -> None:
    start(**listening_at(path))
    assert admits(path, own_local_process)
    with connect(path) as client:
        client.sendall(preface(WRONG, answer=True))
        answer = next_answer(client)
        assert (answer.verdict, answer.identity) == ("identity_mismatch", OWN)
        assert receive_all(client) == b""
    assert own_local_process.untouched


def test_both_ways_may_be_paths(start: Start, path: Path, tmp_path: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as local_process:
        local_process.bind(str(tmp_path / "local.sock"))
        local_process.listen()
        local_process.settimeout(SECONDS)
        sidecar = start(upstream=f"unix:{tmp_path / 'local.sock'}", **listening_at(path))
        with connect(path) as client:
            client.sendall(preface(answer=True) + b"ping")
            assert next_answer(client).admitted
            with local_process.accept()[0] as upstream:
                upstream.settimeout(SECONDS)
                assert receive_exactly(upstream, 4) == b"ping"
                client.shutdown(socket.SHUT_WR)
                assert receive_all(upstream) == b""
                upstream.sendall(b"late reply")
                upstream.close()
                assert receive_all(client) == b"late reply"
        assert eventually(lambda: bool(sidecar.lines("connection_ended")))
        (line,) = sidecar.lines("connection_ended")
        assert line["end"] == "client_closed"


@pytest.mark.parametrize("mode", ["0660", "0600"])
def test_the_file_has_its_mode_whatever_the_umask_is(mode: str, path: Path, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        with sidecar_at(tmp_path, "127.0.0.1:1", **listening_at(path, mode=mode)):
            assert stat.S_IMODE(path.stat().st_mode) == int(mode, 8)
    finally:
        os.umask(before)


def test_the_path_is_removed_at_the_end(own_local_process: LocalProcess, path: Path, tmp_path: Path) -> None:
    with sidecar_at(tmp_path, own_local_process.address, **listening_at(path)) as sidecar:
        assert path.exists()
        sidecar.process.signal(signal.SIGTERM)
        assert sidecar.process.wait() == 0
    assert not path.exists()


def test_what_a_killed_life_left_makes_room(own_local_process: LocalProcess, path: Path, tmp_path: Path) -> None:
    for _ in range(2):
        with sidecar_at(tmp_path, own_local_process.address, **listening_at(path)) as sidecar:
            assert admits(path, own_local_process)
            sidecar.process.signal(signal.SIGKILL)
            sidecar.process.wait()
        assert path.exists()


def run(tmp_path: Path, path: Path) -> subprocess.CompletedProcess[str]:
    """A start that is expected to fail."""
    file = tmp_path / "second.yaml"
    file.write_text(yaml.safe_dump(configuration("127.0.0.1:1", **listening_at(path))))
    return subprocess.run([*SIDECAR, "run", str(file)], capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("kind", ["file", "folder", "link to a file"])
def test_what_is_no_socket_is_left_alone(kind: str, tmp_path: Path, path: Path) -> None:
    other = tmp_path / "precious"
    other.write_text("precious")
    if kind == "folder":
        path.mkdir()
    elif kind == "file":
        path.write_text("precious")
    else:
        path.symlink_to(other)
    before = path.lstat()
    done = run(tmp_path, path)
    assert done.returncode == 1
    last_line = done.stderr.splitlines()[-1]
    assert str(path) in last_line
    assert "listeners.compute.listen" in last_line
    assert "Traceback" not in done.stderr
    assert path.lstat() == before
    assert other.read_text() == "precious"


def test_a_live_listener_is_left_alone(tmp_path: Path, path: Path, own_local_process: LocalProcess) -> None:
    with sidecar_at(tmp_path, own_local_process.address, **listening_at(path)) as sidecar:
        done = run(tmp_path, path)
        assert done.returncode == 1
        assert "already in use" in done.stderr.splitlines()[-1]
        assert "Traceback" not in done.stderr
        assert admits(path, own_local_process)
        assert sidecar.counts()["probes closed_before_preface"] <= 1  # the look that found it alive


def test_a_live_listener_whose_queue_is_full_is_left_alone(tmp_path: Path, path: Path) -> None:
    with closing(socket.socket(socket.AF_UNIX)) as busy:
        busy.bind(str(path))
        busy.listen(0)
        with connect(path):
            done = run(tmp_path, path)
        assert done.returncode == 1
        assert "already in use" in done.stderr.splitlines()[-1]
        busy.accept()[0].close()


def test_a_cut_is_no_end_of_the_stream_for_the_local_process(
    own_local_process: LocalProcess, path: Path, tmp_path: Path
) -> None:
    with sidecar_at(tmp_path, own_local_process.address, **listening_at(path)) as sidecar, connect(path) as client:
        client.sendall(preface(answer=True))
        assert next_answer(client).admitted
        with own_local_process.accept() as upstream:
            sidecar.process.signal(signal.SIGTERM)
            assert is_reset(upstream)


def test_an_exclusive_place_works_for_peers_without_address(
    start: Start, own_local_process: LocalProcess, path: Path
) -> None:
    start(**listening_at(path, concurrency="exclusive"))
    with connect(path) as old:
        old.sendall(preface(CLAIM, answer=True))
        assert next_answer(old).admitted
        with own_local_process.accept() as upstream:
            assert admits(path, own_local_process)
            assert is_reset(upstream)
            assert old.recv(1) == b"" or is_reset(old)
