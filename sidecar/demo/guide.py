"""What to try while the demo keeps running: commands to paste, made from what runs.

Owns these words. Called by the stage with ``--serve``.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from sidecar.certs.store import CA, CERTIFICATE, KEY
from sidecar.demo import story
from sidecar.demo.fleet import Fleet
from sidecar.demo.record import Record
from sidecar.demo.screen import Screen

_OPTIONS: Final = {"certificate": CERTIFICATE, "key": KEY, "ca": CA}


def show(screen: Screen, fleet: Fleet, directory: Path) -> None:
    """Say what can be tried with *fleet*."""
    record, ports = fleet.look_up(0), fleet.ports
    stranger = replace(record, identity=replace(record.identity, ordinal=7))
    sidecar = "sidecar" if shutil.which("sidecar") else f"{sys.executable} -m sidecar"
    screen.paragraph("It keeps running until Ctrl-C. To try from another terminal:")
    for what, *command in (
        (
            "talk to replica 0, a line at a time, as its controller",
            *_connect(sidecar, record, fleet),
            f"--controller {story.NAME}",
        ),
        ("be refused, as you mean another slot", *_connect(sidecar, stranger, fleet), "--probe"),
        ("read what is counted", f"curl -s http://{record.host}:{ports.telemetry}/metrics"),
        ("see who is connected", f"{sidecar} status --admin {record.host}:{ports.admin}"),
        ("read logs and configurations", f"ls {directory}"),
    ):
        screen.note(f"# {what}")
        screen.command(*command)


def _connect(sidecar: str, record: Record, fleet: Fleet) -> tuple[str, ...]:
    own = fleet.certificates.of_controller(story.NAME)
    return (
        f"{sidecar} connect {record.host}:{fleet.ports.shard}",
        *(f"--{option} {shlex.quote(str(own / name))}" for option, name in _OPTIONS.items()),
        f"--identity {record.identity} --generation {record.generation} --instance {record.instance}",
    )
