"""A proxy as a process: its configuration written, started, and stopped whatever happens.

Knows nothing of what is measured. Called by ``targets``, with what ``ours``, ``haproxy`` and ``envoy`` say.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.certificates import Certificates
from benchmarks.native import Addresses

IDENTITY = "bench/replica/0"
OTHER_IDENTITY = "bench/replica/1"
GENERATION = "7"
INSTANCE = "3f0c9a52-7d41-4c7e-9a56-0b8f6f1f2d31"
_STOP_SECONDS = 40.0  # longer than the sidecar's drain


@dataclass(frozen=True, slots=True)
class Wiring:
    """Where a proxy listens, where it passes connections on to, and which folder is its own.

    With *certificates* it terminates TLS, and takes only peers who show one of them.
    """

    listen: Addresses
    upstream: Addresses
    spare_ports: tuple[int, int]
    folder: Path
    certificates: Certificates | None = None


@dataclass(frozen=True, slots=True)
class Proxy:
    """How to start one.

    Args:
        config: its configuration's text.
        arguments: the command, given the configuration's file.
        version: in one line.
        config_name: the file's name; by its ending some know its format.
        environment: set beside what this process has.
    """

    config: Callable[[Wiring], str]
    arguments: Callable[[Path], list[str]]
    version: Callable[[], str]
    config_name: str = "config"
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Running:
    """A process, and when it was started (``time.monotonic``)."""

    pid: int
    spawned_at: float
    has_ended: Callable[[], bool]


class NotThere(Exception):
    """A proxy isn't installed, or ended at once."""


@contextmanager
def running(proxy: Proxy, wiring: Wiring, user: int | None) -> Iterator[Running]:
    """*proxy* as a process; with *user*, under that id.

    What it writes goes to a file in its folder: one line a connection, and all its complaints.
    """
    config = wiring.folder / proxy.config_name
    config.write_text(proxy.config(wiring))
    if user is not None:
        os.chown(wiring.folder, user, user)
    with log(wiring).open("ab") as output:
        spawned_at = time.monotonic()
        process = subprocess.Popen(
            [*_as_user(user), *proxy.arguments(config)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=wiring.folder,
            env={**os.environ, **proxy.environment},
        )
    try:
        yield Running(process.pid, spawned_at, lambda: process.poll() is not None)
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _as_user(user: int | None) -> list[str]:
    """What stands before a command so that it runs as *user*, who needs no entry in any table.

    One privilege is left: to read files. The Python that runs this may lie in root's home, where nobody else may look.
    """
    if user is None:
        return []
    identity = ["--reuid", str(user), "--regid", str(user), "--clear-groups"]
    return ["setpriv", *identity, "--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"]


def log(wiring: Wiring) -> Path:
    """Where a proxy's output goes."""
    return wiring.folder / "log"


def find(name: str, *, inside: str | None = None) -> str:
    """The path of a program: within the Python package *inside* (``package/path``), beside this Python, or on PATH.

    Raises:
        NotThere: it is nowhere.
    """
    candidates = [Path(sys.executable).with_name(name), Path("/usr/sbin") / name]
    if inside is not None:
        package, _, path = inside.partition("/")
        found = importlib.util.find_spec(package)
        if found is not None and found.origin is not None:
            candidates.insert(0, Path(found.origin).parent / path)
    for candidate in candidates:
        if os.access(candidate, os.X_OK):
            return str(candidate)
    path_found = shutil.which(name)
    if path_found is None:
        raise NotThere(f"{name} isn't installed: `make bench` installs it")
    return path_found


def first_line(*command: str) -> str:
    """The first line that *command* prints which isn't empty."""
    said = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=True).stdout
    return next(line.strip() for line in said.splitlines() if line.strip())


def rss_kib(pid: int) -> float:
    """A process's resident memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return float(line.split()[1])
    return 0.0


def cpu_ticks(pid: int) -> int:
    """A process's processor time so far, user and system, in the kernel's ticks; 0 where it has gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0
    return int(fields[11]) + int(fields[12])
