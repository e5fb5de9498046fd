"""The locked directory and the one file in it."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from sidecar.errors import StartError
from sidecar.floor import state_dir as state_dir_module
from sidecar.floor.record import FloorUnavailable
from sidecar.floor.state_dir import FILE, StateDir, read_kept
from tests.failing_disk import STEPS, Disk


@pytest.fixture
def state_dir(tmp_path: Path) -> Iterator[StateDir]:
    with closing(StateDir.open(tmp_path)) as opened:
        yield opened


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk(tmp_path)
    monkeypatch.setattr(state_dir_module, "os", disk)
    return disk


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_what_was_put_in_place_is_read_with_or_without_the_lock(state_dir):
    assert read_kept(state_dir.path) is None
    state_dir.replace(b"one")
    assert read_kept(state_dir.path) == b"one"
    state_dir.replace(b"two")
    assert read_kept(state_dir.path) == b"two"


def test_nobody_else_may_read_it_and_nothing_is_left_beside_it(tmp_path):
    path = tmp_path / "state"
    with closing(StateDir.open(path)) as state_dir:
        state_dir.replace(b"one")
    assert mode(path) == 0o700
    assert {file.name: mode(file) for file in path.iterdir()} == {FILE: 0o600, "lock": 0o600}


def test_a_missing_directory_is_nothing_kept_yet(tmp_path):
    assert read_kept(tmp_path / "none") is None


def test_a_directory_is_made_but_not_the_ones_above_it(tmp_path):
    with pytest.raises(StartError) as caught:
        StateDir.open(tmp_path / "none" / "state")
    assert str(caught.value) == f"state_dir: {tmp_path / 'none'} doesn't exist: make it, or mount a volume there"


def test_a_file_is_no_directory(tmp_path):
    (tmp_path / "state").touch()
    with pytest.raises(StartError, match=f"state_dir: {tmp_path / 'state'} can't be used: Not a directory: give a dir"):
        StateDir.open(tmp_path / "state")


def test_what_cant_be_read_is_said_to_be_so(tmp_path):
    (tmp_path / FILE).mkdir()
    with pytest.raises(FloorUnavailable, match=f"{tmp_path / FILE} can't be read: Is a directory"):
        read_kept(tmp_path)


def test_a_new_file_reaches_the_disk_before_its_name_does(state_dir, disk):
    state_dir.replace(b"new")
    assert tuple(disk.calls) == STEPS


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("step", range(len(STEPS)))
def test_a_step_that_fails_leaves_the_old_or_the_new_content_whole(state_dir, disk, step, late):
    state_dir.replace(b"old")
    disk.fail(step, late=late)
    with pytest.raises(FloorUnavailable, match=f"{state_dir.path / FILE} can't be written: Input/output error"):
        state_dir.replace(b"new")
    assert read_kept(state_dir.path) in (b"old", b"new")
    state_dir.replace(b"newer, and longer")
    assert read_kept(state_dir.path) == b"newer, and longer"


def test_what_reads_back_otherwise_counts_as_not_written(tmp_path):
    """As where the directory was replaced or mounted over: the next start would find something else."""
    path, moved = tmp_path / "state", tmp_path / "moved"
    with closing(StateDir.open(path)) as state_dir:
        path.rename(moved)
        path.mkdir()
        with pytest.raises(FloorUnavailable, match=f"{path / FILE} reads back other than it was written"):
            state_dir.replace(b"one")


def test_a_file_set_aside_is_kept_under_the_next_free_name(state_dir):
    for number, content in ((1, b"one"), (2, b"two")):
        state_dir.replace(content)
        aside = state_dir.set_aside()
        assert aside == state_dir.path / f"{FILE}.damaged-{number}"
        assert aside.read_bytes() == content
        assert read_kept(state_dir.path) is None


def test_it_is_said_when_a_file_cant_be_set_aside(state_dir):
    with pytest.raises(FloorUnavailable, match="can't be renamed: No such file or directory"):
        state_dir.set_aside()


def test_a_directory_has_one_process_at_a_time(tmp_path):
    with closing(StateDir.open(tmp_path)), pytest.raises(StartError, match=rf"{tmp_path} is in use .* \(pid \d+\): st"):
        StateDir.open(tmp_path)
    StateDir.open(tmp_path).close()


def test_the_lock_ends_with_its_process_however_that_ends(tmp_path):
    script = (
        "import sys, signal; from pathlib import Path; from sidecar.floor.state_dir import StateDir;"
        "kept = StateDir.open(Path(sys.argv[1])); print('locked', flush=True); signal.pause()"
    )
    command = [sys.executable, "-c", script, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        with pytest.raises(StartError, match=rf"\(pid {process.pid}\)"):
            StateDir.open(tmp_path)
        process.send_signal(signal.SIGKILL)
        process.wait()
    StateDir.open(tmp_path).close()


def test_a_closed_one_writes_nowhere(tmp_path):
    state_dir = StateDir.open(tmp_path)
    state_dir.close()
    with pytest.raises(FloorUnavailable, match="can't be written: Bad file descriptor"):
        state_dir.replace(b"one")


def test_a_start_that_fails_keeps_no_descriptor(tmp_path):
    def descriptors() -> set[str]:
        return {entry.name for entry in Path("/proc/self/fd").iterdir()}

    (tmp_path / "file").touch()
    with closing(StateDir.open(tmp_path)):
        before = descriptors()
        for path in (tmp_path, tmp_path / "file"):
            with pytest.raises(StartError):
                StateDir.open(path)
        assert descriptors() == before


def test_a_directory_that_was_made_again_is_another_one_and_can_be_locked(tmp_path):
    path = tmp_path / "state"
    with closing(StateDir.open(path)) as before:
        assert before.is_in_place()
        path.rename(tmp_path / "moved")
        with pytest.raises(FloorUnavailable, match=f"{path} is gone: make it again, or mount it"):
            before.is_in_place()
        path.mkdir()
        assert not before.is_in_place()
        with closing(before.open_successor()) as successor:
            assert successor.is_in_place()
            successor.replace(b"one")
            assert read_kept(path) == b"one"
            with pytest.raises(StartError, match="is in use"):
                before.open_successor()


def test_one_that_is_seen_through_another_mount_is_no_successor(tmp_path, monkeypatch):
    with closing(StateDir.open(tmp_path)) as before:
        before.close()
        elsewhere = os.open("/proc", os.O_RDONLY)
        before._directory, before._lock = elsewhere, os.dup(elsewhere)
        with pytest.raises(FloorUnavailable, match=f"{tmp_path} is on another volume than when this sidecar started"):
            before.open_successor()
        StateDir.open(tmp_path).close()
