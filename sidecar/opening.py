"""What a process rests on: the source of its assignment, its floor, and who takes connections over, as configured.

Owns the choice among the kinds of each. Called by ``app`` before anything runs; blocks a little.
"""

from __future__ import annotations

from pathlib import Path

from sidecar.authority.files import Files
from sidecar.authority.source import Source
from sidecar.authority.values import Values
from sidecar.config import Config, Handoff
from sidecar.floor import FloorFile, FloorInMemory, FloorKeeper
from sidecar.lifeline import Lifeline
from sidecar.log import Logger


def open_source(config: Config) -> Source:
    """Where the assignment is read. Raises StartError where it could never change."""
    instance, generation = config.assignment.instance, config.assignment.generation
    if isinstance(instance, Path) or isinstance(generation, Path):
        files = Files(instance=instance, generation=generation, poll_interval=config.assignment.poll_interval)
        files.check()
        return files
    return Values(config.assignment.fixed)


def open_floor(config: Config) -> FloorKeeper:
    """The floor, on disk where there is a place for it. Raises StartError where that is somebody else's."""
    if config.state_dir is None:
        return FloorInMemory()
    return FloorFile.open(config.state_dir, slot=config.identity, series=config.floor_series)


def open_lifelines(config: Config, logger: Logger) -> dict[str, Lifeline]:
    """The way to the local process of each listener that hands over, by the listener's name: one for each receiver."""
    receivers = {each.name: each.upstream.path for each in config.listeners if isinstance(each.upstream, Handoff)}
    lifelines = {path: Lifeline(path, logger) for path in receivers.values()}
    return {name: lifelines[path] for name, path in receivers.items()}
