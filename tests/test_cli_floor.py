"""``sidecar floor`` as a user runs it."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace

import pytest
import trio

from sidecar.cli import configuration, floor
from sidecar.cli.floor import NoFloorError
from sidecar.errors import StartError
from sidecar.floor import FloorDamaged, FloorFile, FloorRecord, FloorUnavailable
from sidecar.floor.state_dir import FILE
from sidecar.identity import Epoch, Generation, Identity
from tests.names import OTHER, OWN

Configure = Callable[..., None]


@pytest.fixture
def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Configure:
    """Says what the configuration file holds."""

    def configure(*, identity: Identity = OWN, state_dir: Path | None = tmp_path, floor_series: int = 1) -> None:
        config = SimpleNamespace(identity=identity, state_dir=state_dir, floor_series=floor_series)
        monkeypatch.setattr(configuration, "read_config", {"sidecar.yaml": config}.__getitem__)

    configure()
    return configure


@pytest.fixture
def damaged(tmp_path: Path, configure: Configure) -> Path:
    (tmp_path / FILE).write_text("{}")
    return tmp_path / FILE


def raised(path: Path) -> None:
    with closing(FloorFile.open(path, slot=OWN, series=1)) as kept:
        trio.run(kept.raise_generation, Generation(7))
        for scope, epoch in (("compute", 12), ("api", 3)):
            trio.run(kept.raise_epoch, scope, Epoch(epoch))


def run(*arguments: str) -> int:
    parser = argparse.ArgumentParser()
    floor.add_parser(parser.add_subparsers())
    options = parser.parse_args(["floor", *arguments])
    code: int = options.run(options)
    return code


def test_a_floor_is_shown_line_by_line(tmp_path, configure, capsys):
    raised(tmp_path)
    assert run("show", "sidecar.yaml") == 0
    assert capsys.readouterr().out.splitlines() == [
        "slot: prod-eu/replica-a/2",
        "series: 1",
        "generation: 7",
        "epoch of api: 3",
        "epoch of compute: 12",
    ]


def test_a_floor_is_shown_while_the_sidecar_runs(tmp_path, configure, capsys):
    with closing(FloorFile.open(tmp_path, slot=OWN, series=1)):
        assert run("show", "sidecar.yaml") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "generation: none yet"


def test_looking_makes_nothing(tmp_path, configure):
    configure(state_dir=tmp_path / "state")
    with pytest.raises(NoFloorError, match=f"no floor in {tmp_path / 'state'} yet: the first start makes one"):
        run("show", "sidecar.yaml")
    assert not (tmp_path / "state").exists()


def test_a_floor_that_the_start_would_refuse_is_shown_and_said_to_be_so(tmp_path, configure, capsys):
    raised(tmp_path)
    configure(identity=OTHER)
    with pytest.raises(StartError, match=f"the floor of {OWN}, and this sidecar holds {OTHER}"):
        run("show", "sidecar.yaml")
    assert "generation: 7\n" in capsys.readouterr().out


@pytest.mark.parametrize("action", ["show", "reset"])
def test_without_a_state_dir_there_is_nothing_to_look_at(configure, action):
    configure(state_dir=None)
    with pytest.raises(NoFloorError, match="state_dir isn't set: the floor lives in the sidecar's memory"):
        run(action, "sidecar.yaml")


def test_a_damaged_floor_is_said_to_be_one(damaged):
    with pytest.raises(FloorDamaged, match=f"{damaged} isn't a floor: every claim is refused with floor_unavailable"):
        run("show", "sidecar.yaml")


def test_a_damaged_floor_is_set_aside_and_the_next_start_begins_a_new_one(tmp_path, damaged, capsys):
    assert run("reset", "sidecar.yaml", "--yes") == 0
    out = capsys.readouterr().out
    assert f"{damaged} isn't a floor" in out
    assert "gives up what is known of the generation and the epochs that this slot has acted on" in out
    assert f"kept as {damaged}.damaged-1. A sidecar that runs goes on with a new one" in out
    assert (tmp_path / f"{FILE}.damaged-1").read_text() == "{}"
    with closing(FloorFile.open(tmp_path, slot=OWN, series=1)) as kept:
        assert kept.fault == ""


def test_without_yes_it_is_only_said_what_would_be_given_up(damaged, capsys):
    assert run("reset", "sidecar.yaml") == 1
    assert capsys.readouterr().out.endswith("Nothing was changed: add --yes to do it.\n")
    assert damaged.read_text() == "{}"


async def test_a_damaged_floor_is_reset_while_its_sidecar_runs_which_then_goes_on(tmp_path, damaged):
    with closing(FloorFile.open(tmp_path, slot=OWN, series=1)) as kept:
        await kept.reopen()
        assert kept.current is None
        assert run("reset", "sidecar.yaml", "--yes") == 0
        await kept.reopen()
        assert kept.current == FloorRecord()
        await kept.raise_generation(Generation(7))
        with pytest.raises(StartError, match=r"is in use by another process \(pid \d+\): stop it"):
            FloorFile.open(tmp_path, slot=OWN, series=1)


def test_an_intact_floor_is_not_reset(tmp_path, configure):
    raised(tmp_path)
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(NoFloorError, match="is intact: to start new floors all the same, set floor_series to 2"):
        run("reset", "sidecar.yaml", "--yes")
    assert (tmp_path / FILE).read_bytes() == before


def test_where_there_is_no_floor_there_is_nothing_to_reset(tmp_path, configure):
    configure(state_dir=tmp_path / "state")
    with pytest.raises(NoFloorError, match=f"no floor in {tmp_path / 'state'}: nothing to reset"):
        run("reset", "sidecar.yaml", "--yes")
    assert not (tmp_path / "state").exists()


def test_a_floor_that_cant_be_read_may_be_intact_and_is_left_alone(tmp_path, configure):
    (tmp_path / FILE).mkdir()
    with pytest.raises(FloorUnavailable, match="can't be read: Is a directory"):
        run("reset", "sidecar.yaml", "--yes")
    assert (tmp_path / FILE).is_dir()
