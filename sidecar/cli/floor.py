"""``sidecar floor``: look at the floor that a configuration's ``state_dir`` keeps, or give a damaged one up.

Owns the words for people. Starting new floors while the old ones are intact is not its business: that is what
``floor_series`` is for, which a restart can't take back.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sidecar.errors import SidecarError

if TYPE_CHECKING:
    from sidecar.config import Config
    from sidecar.floor import StoredFloor

GIVES_UP: Final = (
    "what is known of the generation and the epochs that this slot has acted on. Until the authority and the "
    "controllers have raised the new floor, a record or a controller from before may be taken for current."
)


class NoFloorError(SidecarError):
    """There is no floor to show or to give up."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to *subparsers*."""
    parser = subparsers.add_parser(
        "floor",
        help="show what a slot has acted on, or give a damaged floor up",
        description="The floor is the highest generation and epochs that a sidecar has acted on, kept in state_dir.",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    show = actions.add_parser("show", help="print it", description="Print the floor; the sidecar may be running.")
    reset = actions.add_parser(
        "reset",
        help="give a damaged floor up",
        description=f"Set a damaged floor aside, so that the next start begins a new one. It gives up {GIVES_UP}",
    )
    for action, run in ((show, run_show), (reset, run_reset)):
        action.add_argument("config", metavar="CONFIG", help="the sidecar's YAML file")
        action.set_defaults(run=run)
    reset.add_argument("--yes", action="store_true", help="do it; without, only say what is given up")


def run_show(options: argparse.Namespace) -> int:
    """Print the floor. Raises ConfigurationError, NoFloorError, FloorUnavailable, StartError."""
    from sidecar.cli.configuration import read_config
    from sidecar.floor.keeper import read_floor

    config = read_config(options.config)
    state_dir = _state_dir(config)
    stored = read_floor(state_dir)
    if stored is None:
        raise NoFloorError(f"no floor in {state_dir} yet: the first start makes one")
    sys.stdout.writelines(f"{line}\n" for line in describe(stored))
    stored.check_fits(config.identity, config.floor_series)
    return 0


def run_reset(options: argparse.Namespace) -> int:
    """Set the damaged floor aside. Raises ConfigurationError, NoFloorError, FloorUnavailable, StartError."""
    from sidecar.cli.configuration import read_config
    from sidecar.floor import FloorDamaged
    from sidecar.floor.keeper import read_floor
    from sidecar.floor.state_dir import StateDir

    config = read_config(options.config)
    state_dir = _state_dir(config)
    try:
        stored = read_floor(state_dir)
    except FloorDamaged as damage:
        sys.stdout.write(f"{damage}\nA reset gives up {GIVES_UP}\n")
    else:
        raise NoFloorError(_nothing_to_reset(state_dir, stored))
    with closing(StateDir.open(state_dir)) as directory:
        if not options.yes:
            sys.stdout.write("Nothing was changed: add --yes to do it.\n")
            return 1
        aside = directory.set_aside()
    sys.stdout.write(
        f"The damaged floor is kept as {aside}. A sidecar that runs goes on with a new one within "
        "assignment.revalidate_interval, else the next start does.\n"
    )
    return 0


def describe(stored: StoredFloor) -> Iterator[str]:
    """The lines that say what *stored* is."""
    yield f"slot: {stored.slot}"
    yield f"series: {stored.series}"
    yield f"generation: {stored.record.generation or 'none yet'}"
    for scope, epoch in sorted(stored.record.epochs.items()):
        yield f"epoch of {scope}: {epoch}"


def _state_dir(config: Config) -> Path:
    if config.state_dir is None:
        raise NoFloorError("state_dir isn't set: the floor lives in the sidecar's memory, and ends with it")
    return config.state_dir


def _nothing_to_reset(state_dir: Path, stored: StoredFloor | None) -> str:
    if stored is None:
        return f"no floor in {state_dir}: nothing to reset"
    return (
        f"the floor in {state_dir} is intact: to start new floors all the same, set floor_series to {stored.series + 1}"
    )
