"""What this slot has acted on outlives the process, whatever ends it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Start
from names import CLAIM, WRONG
from pairs import Pairs
from processes import eventually
from replica import SIDECAR, LocalProcess, configuration, sidecar_at
from volume import Volume
from yaml import safe_dump

from sidecar.identity import Epoch, Generation
from sidecar.reasons import Advice

FAST = {"poll_interval": "100ms", "revalidate_interval": "100ms", "ahead_wait": "100ms"}
EPOCHS = {"require": ["identity", "instance", "generation", "epoch"], "listener": {"unsafe_epoch": True}}


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    return tmp_path / "state"


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    """What a command comes to."""
    return subprocess.run([*SIDECAR, *map(str, arguments)], capture_output=True, text=True, timeout=60)


def configured(folder: Path, **sections: object) -> Path:
    """A configuration's file."""
    file = folder / "other.yaml"
    file.write_text(safe_dump(configuration("127.0.0.1:1", **sections)))
    return file


def test_a_restart_does_not_believe_an_older_file(
    own_local_process: LocalProcess, pairs: Pairs, tmp_path: Path, state_dir: Path
) -> None:
    volume = Volume(tmp_path / "podinfo")
    volume.publish(generation=8)
    sections = {"assignment": {"generation": volume.source("generation"), **FAST}, "state_dir": str(state_dir)}
    with sidecar_at(tmp_path, own_local_process.address, **sections) as sidecar:
        pairs.admit(sidecar, replace(CLAIM, generation=Generation(8)))
        sidecar.process.signal(signal.SIGKILL)
        sidecar.process.wait()
    volume.publish(generation=7)
    with sidecar_at(tmp_path, own_local_process.address, **sections) as sidecar:
        answer = sidecar.refuse(replace(CLAIM, generation=Generation(8)))
        assert (answer.verdict, answer.advice) == ("authority_regressed", Advice.RETRY)
        assert sidecar.refuse(CLAIM).verdict == "generation_stale"
        assert "authority_regressed" in sidecar.page("/readyz").body
        assert eventually(lambda: sidecar.scrape().total("state", state="regressed") == 1)
        assert own_local_process.untouched
        volume.publish(generation=8)
        pairs.admit(sidecar, replace(CLAIM, generation=Generation(8)))


def test_a_generation_that_is_a_value_may_not_go_back_either(
    own_local_process: LocalProcess, pairs: Pairs, tmp_path: Path, state_dir: Path
) -> None:
    with sidecar_at(tmp_path, own_local_process.address, state_dir=str(state_dir)) as sidecar:
        pairs.admit(sidecar)
    older = {"assignment": {"generation": 6}, "state_dir": str(state_dir)}
    with sidecar_at(tmp_path, own_local_process.address, **older) as sidecar:
        assert sidecar.refuse(CLAIM).verdict == "authority_regressed"
        assert sidecar.refuse(replace(CLAIM, generation=Generation(6))).verdict == "generation_stale"
    with sidecar_at(tmp_path, own_local_process.address, **older, floor_series=2) as sidecar:
        pairs.admit(sidecar, replace(CLAIM, generation=Generation(6)))
    done = run("run", configured(tmp_path, **older))  # a series that was given up isn't taken up again
    assert done.returncode == 1
    assert "floor_series" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_a_restart_knows_the_last_leader(
    own_local_process: LocalProcess, pairs: Pairs, tmp_path: Path, state_dir: Path
) -> None:
    sections = EPOCHS | {"state_dir": str(state_dir)}
    with sidecar_at(tmp_path, own_local_process.address, **sections) as sidecar:
        pairs.admit(sidecar, replace(CLAIM, epoch=Epoch(5)))
        sidecar.process.signal(signal.SIGKILL)
        sidecar.process.wait()
    with sidecar_at(tmp_path, own_local_process.address, **sections) as sidecar:
        shown = run("floor", "show", sidecar.file)
        assert shown.returncode == 0
        assert "generation: 7" in shown.stdout.splitlines()
        assert "epoch of compute: 5" in shown.stdout.splitlines()
        answer = sidecar.refuse(replace(CLAIM, epoch=Epoch(4)))
        assert (answer.verdict, answer.advice) == ("controller_stale", Advice.STOP)
        pairs.admit(sidecar, replace(CLAIM, epoch=Epoch(5)))


def test_with_a_damaged_floor_it_starts_and_admits_nobody(
    own_local_process: LocalProcess, pairs: Pairs, tmp_path: Path, state_dir: Path
) -> None:
    sections = {"state_dir": str(state_dir)}
    file = state_dir / "floor.json"
    with sidecar_at(tmp_path, own_local_process.address, **sections) as sidecar:
        pairs.admit(sidecar)
    damaged = file.read_bytes().replace(b'"generation": "7"', b'"generation": "6"')
    file.write_bytes(damaged)
    with sidecar_at(tmp_path, own_local_process.address, **sections) as sidecar:
        answer = sidecar.refuse(CLAIM)
        assert (answer.verdict, answer.advice) == ("floor_unavailable", Advice.RETRY)
        assert sidecar.refuse(WRONG).verdict == "identity_mismatch"
        page = sidecar.page("/readyz")
        assert page.status == 503
        assert "sidecar floor reset" in page.body
        assert eventually(lambda: sidecar.scrape().total("state", state="floor_unavailable") == 1)
        config = sidecar.file
        shown = run("floor", "show", config)
        assert shown.returncode == 1
        assert "floor.json" in shown.stderr
        assert file.read_bytes() == damaged
        assert run("floor", "reset", config, "--yes").returncode == 0
        assert (state_dir / "floor.json.damaged-1").read_bytes() == damaged  # what may be evidence is kept
        pairs.admit(sidecar)  # a claim's own read looks again: no restart is needed
        assert sidecar.page("/readyz").status == 200
    intact = run("floor", "reset", config, "--yes")
    assert intact.returncode == 1
    assert "floor_series" in intact.stderr


def test_a_directory_belongs_to_one_process(start: Start, pairs: Pairs, tmp_path: Path, state_dir: Path) -> None:
    sidecar = start(state_dir=str(state_dir))
    done = run("run", configured(tmp_path, state_dir=str(state_dir)))
    assert done.returncode == 1
    assert str(state_dir) in done.stderr.splitlines()[-1]
    assert str(sidecar.process.pid) in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    assert pairs.admit(sidecar).works


def test_a_directory_belongs_to_one_slot(start: Start, tmp_path: Path, state_dir: Path) -> None:
    sidecar = start(state_dir=str(state_dir))
    sidecar.process.signal(signal.SIGTERM)
    assert sidecar.process.wait() == 0
    done = run("run", configured(tmp_path, identity={"ordinal": 3}, state_dir=str(state_dir)))
    assert done.returncode == 1
    assert "prod-eu/replica-a/2" in done.stderr
    assert "prod-eu/replica-a/3" in done.stderr


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of a few pages."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a file system")
    path = tmp_path / "disk"
    path.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(path)], capture_output=True)
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.decode().strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


def test_what_cannot_be_kept_is_not_acted_on(
    start: Start, pairs: Pairs, own_local_process: LocalProcess, full_disk: Path, tmp_path: Path
) -> None:
    volume = Volume(tmp_path / "podinfo")
    volume.publish(generation=7)
    sidecar = start(
        assignment={"generation": volume.source("generation"), **FAST}, state_dir=str(full_disk / "state"), **EPOCHS
    )
    old = pairs.admit(sidecar, replace(CLAIM, epoch=Epoch(1)))
    ballast = full_disk / "ballast"
    _fill(ballast)
    answer = sidecar.refuse(replace(CLAIM, epoch=Epoch(2)))
    assert (answer.verdict, answer.advice) == ("floor_unavailable", Advice.RETRY)
    assert old.works  # nothing was acted on
    assert eventually(lambda: sidecar.page("/readyz").status == 503)  # no place to send a new leader to
    again = pairs.admit(sidecar, replace(CLAIM, epoch=Epoch(1)))  # what is kept already needs no writing
    volume.publish(generation=8)
    assert old.is_cut
    assert again.is_cut
    answer = sidecar.refuse(replace(CLAIM, generation=Generation(8), epoch=Epoch(1)))
    assert (answer.verdict, answer.advice) == ("floor_unavailable", Advice.RETRY)
    assert eventually(lambda: sidecar.page("/readyz").status == 503)
    assert own_local_process.untouched
    ballast.unlink()
    assert eventually(lambda: sidecar.page("/readyz").status == 200)
    pairs.admit(sidecar, replace(CLAIM, generation=Generation(8), epoch=Epoch(2)))
    kept = json.loads((full_disk / "state" / "floor.json").read_text())
    assert (kept["generation"], kept["epochs"]) == ("8", {"compute": "2"})


def test_a_directory_that_is_made_again_is_taken_again_with_what_was_in_memory(
    start: Start, pairs: Pairs, state_dir: Path
) -> None:
    sidecar = start(state_dir=str(state_dir), **EPOCHS)
    old = pairs.admit(sidecar, replace(CLAIM, epoch=Epoch(5)))
    shutil.rmtree(state_dir)
    assert sidecar.refuse(replace(CLAIM, epoch=Epoch(6))).verdict == "floor_unavailable"
    assert eventually(lambda: f"{state_dir} is gone: make it again" in sidecar.page("/readyz").body)
    assert sidecar.refuse(replace(CLAIM, epoch=Epoch(4))).verdict == "controller_stale"
    assert old.works
    state_dir.mkdir()
    assert eventually(lambda: sidecar.page("/readyz").status == 200)
    kept = json.loads((state_dir / "floor.json").read_text())
    assert (kept["generation"], kept["epochs"]) == ("7", {"compute": "5"})
    pairs.admit(sidecar, replace(CLAIM, epoch=Epoch(6)))
    assert old.is_cut


def _fill(ballast: Path) -> None:
    with ballast.open("wb", buffering=0) as file:
        while shutil.disk_usage(ballast.parent).free:
            file.write(b"x" * 4096)
