"""Where a receiver listens, and whom it lets in."""

from __future__ import annotations

import errno
import os
import socket
import stat

import pytest

from sidecar.errors import StartError
from sidecar.handoff.listening import WrongUserError, check_user, listen


@pytest.fixture
def path(tmp_path):
    return tmp_path / "handoff.sock"


def connect(path):
    """Be let in, and leave again."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as dialler:
        dialler.connect(str(path))


def test_the_file_has_the_mode_that_was_asked_for(path):
    listening = listen(path, 0o640)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    listening.close()
    assert not path.exists()


def test_what_a_dead_process_left_makes_room(path):
    for kind in (socket.SOCK_SEQPACKET, socket.SOCK_STREAM):
        with socket.socket(socket.AF_UNIX, kind) as dead:
            dead.bind(str(path))
        listening = listen(path, 0o600)
        connect(path)
        listening.close()


def test_a_live_listener_is_left_alone(path):
    listening = listen(path, 0o600)
    with pytest.raises(StartError, match="already in use"):
        listen(path, 0o600)
    connect(path)
    listening.close()


def test_a_live_listener_of_another_kind_is_left_alone(path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        other.bind(str(path))
        other.listen()
        with pytest.raises(StartError, match="already in use"):
            listen(path, 0o600)
        assert path.exists()


def test_a_file_is_left_alone(path):
    path.write_text("precious")
    with pytest.raises(StartError, match="no socket"):
        listen(path, 0o600)
    assert path.read_text() == "precious"


@pytest.mark.parametrize("name", ["nowhere/handoff.sock", "x" * 200])
def test_a_path_that_cannot_be_used_is_named(tmp_path, name):
    with pytest.raises(StartError, match="choose another path"):
        listen(tmp_path / name, 0o600)


def test_a_socket_that_has_taken_its_place_is_not_removed(path):
    listening = listen(path, 0o600)
    path.unlink()
    successor = listen(path, 0o600)
    listening.close()
    connect(path)
    successor.close()


def test_a_folder_that_has_gone_is_nothing_to_complain_of(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    listening = listen(folder / "handoff.sock", 0o600)
    (folder / "handoff.sock").unlink()
    folder.rmdir()
    listening.close()


def test_nobody_can_connect_before_the_file_has_its_mode(path, monkeypatch):
    seen = []

    def chmod(self, mode, **_):
        with pytest.raises(OSError) as caught:  # noqa: PT011  its number is looked at
            connect(self)
        seen.append((caught.value.errno, mode))

    monkeypatch.setattr("pathlib.Path.chmod", chmod)
    listen(path, 0o600).close()
    assert seen == [(errno.ECONNREFUSED, 0o600)]


def test_root_and_this_process_own_user_are_let_in_unless_others_are_named():
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with near, far:
        check_user(near, None)
        check_user(near, [os.geteuid()])
        with pytest.raises(WrongUserError, match=f"user {os.geteuid()} may not hand connections over: only 9999 may"):
            check_user(near, [9999])
