"""The load generator and the backend, which are C: built, started, and read.

Owns the folder they are built in, and the form of what they print. Called by ``targets``, ``rounds`` and the checks.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

SOURCES = Path(__file__).resolve().parent / "native"
BUILT = Path(__file__).resolve().parent.parent / "build" / "benchmarks"
_STOP_SECONDS = 10.0


class Addresses(NamedTuple):
    """Where the three roles of the backend are, or where a proxy takes connections for them."""

    echo: str
    sink: str
    source: str


@dataclass(frozen=True, slots=True)
class Programs:
    """What was built.

    Args:
        loadgen: the load generator's path.
        backend: the backend's.
        apart: the load generator runs on the first core alone, backends on the second.
    """

    loadgen: Path
    backend: Path
    apart: bool = False


class LoadFailed(Exception):
    """The load generator couldn't do what it was asked for."""


def build(folder: Path = BUILT, *, apart: bool = False) -> Programs:
    """Build what isn't up to date in *folder*.

    Raises:
        subprocess.CalledProcessError: the compiler or a library's headers are missing; what is said is on stderr.
    """
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["make", "--silent", "--directory", str(SOURCES), f"OUT={folder}"], check=True)
    return Programs(folder / "loadgen", folder / "backend", apart)


@contextmanager
def backend(programs: Programs, kind: str, folder: Path) -> Iterator[Addresses]:
    """A backend of its own; *kind* is ``tcp``, ``unix`` or ``handoff``, and *folder* is for its sockets."""
    option = {"tcp": ["-t"], "unix": ["-x", str(folder)], "handoff": ["-u", str(folder)]}[kind]
    process = subprocess.Popen([programs.backend, *option], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if programs.apart:
        os.sched_setaffinity(process.pid, {1})
    with process:  # leaving it closes the pipes, and at the end of its input the backend ends
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            yield Addresses(**json.loads(line)[kind])
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(_STOP_SECONDS)


def command(programs: Programs, mode: str, address: str, arguments: Sequence[str], *, seconds: float) -> list[str]:
    """The load generator's command line for one run."""
    on_a_core = ["taskset", "--cpu-list", "0"] if programs.apart else []
    return [*on_a_core, str(programs.loadgen), "-m", mode, "-a", address, "-d", str(seconds), *arguments]


def load(
    programs: Programs, mode: str, address: str, arguments: Sequence[str], *, seconds: float
) -> Mapping[str, float]:
    """What the load generator says of one run.

    Raises:
        LoadFailed: it failed, or a connection did.
    """
    line = command(programs, mode, address, arguments, seconds=seconds)
    run = subprocess.run(line, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if run.returncode:
        raise LoadFailed(run.stderr.strip() or f"loadgen ended with {run.returncode}")
    said: dict[str, float] = json.loads(run.stdout)
    if said["errs"]:
        raise LoadFailed(f"{said['errs']} connections failed, the last with errno {said['errno']}")
    return said
