"""What is compared: the ways from the load generator to the backend.

Each has a backend of its own, so that nothing is shared but the machine. Called by ``rounds``.
"""

from __future__ import annotations

import socket
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.certificates import made
from benchmarks.envoy import ENVOY
from benchmarks.haproxy import HAPROXY, HAPROXY_WITH_LARGE_PIPES
from benchmarks.native import Addresses, LoadFailed, Programs, backend, load
from benchmarks.ours import sidecar
from benchmarks.programs import (
    GENERATION,
    IDENTITY,
    INSTANCE,
    OTHER_IDENTITY,
    NotThere,
    Proxy,
    Running,
    Wiring,
    log,
    rss_kib,
    running,
)
from benchmarks.scenarios import Scenario, Section

_START_SECONDS = 20.0
_LOOK_SECONDS = 2.0  # between two looks at whether the process still lives
_LINES_OF_COMPLAINT = 5


@dataclass(frozen=True, slots=True)
class Target:
    """One way to a backend.

    Args:
        name: to choose it by.
        title: in a table.
        proxy: none is the direct way.
        upstream: by which way the backend is reached: ``tcp``, ``unix`` or ``handoff``.
        sections: where it takes part; TLS is for those that terminate it, and for them alone.
    """

    name: str
    title: str
    proxy: Proxy | None = None
    upstream: str = "tcp"
    sections: frozenset[Section] = frozenset(Section) - {Section.TLS}

    @property
    def terminates_tls(self) -> bool:
        """Whether it is dialled by mutual TLS."""
        return Section.TLS in self.sections

    @property
    def answers(self) -> bool:
        """Whether it sends an answer to a claim that asks for one."""
        return self.name.startswith("sidecar")


@dataclass(frozen=True, slots=True)
class Way:
    """A target that is up.

    Args:
        addresses: where to dial.
        right: the load generator's arguments for a claim that is admitted.
        wrong: for one that isn't.
        start_seconds: from the process's start to the first round trip.
        rss_kib: the proxy's memory after that.
        pid: the proxy's.
    """

    addresses: Addresses
    right: tuple[str, ...] = ()
    wrong: tuple[str, ...] = ()
    start_seconds: float = 0.0
    rss_kib: float = 0.0
    pid: int | None = None

    def dialled_by(self, scenario: Scenario) -> tuple[str, tuple[str, ...]]:
        """The address and the load generator's arguments."""
        address: str = getattr(self.addresses, scenario.role)
        return address, (*(self.wrong if scenario.refused else self.right), *scenario.arguments)


def targets(baseline: Path | None = None) -> Mapping[str, Target]:
    """Every target by its name, in the order of the tables.

    Args:
        baseline: another checkout, whose sidecar runs beside this one's.
    """
    every = [
        Target("direct", "direct"),
        Target("haproxy", "HAProxy", HAPROXY),
        Target("haproxy-1m", "HAProxy, 1 MiB pipes", HAPROXY_WITH_LARGE_PIPES, sections=frozenset({Section.BULK})),
        Target("envoy", "Envoy", ENVOY),
        Target("sidecar", "sidecar", sidecar()),
        Target("sidecar-unix", "sidecar, Unix upstream", sidecar(), "unix"),
        Target("sidecar-handoff", "sidecar, hand-over", sidecar(), "handoff"),
    ]
    tls = frozenset({Section.TLS})
    every += [
        Target("haproxy-tls", "HAProxy", HAPROXY, sections=tls),
        Target("envoy-tls", "Envoy", ENVOY, sections=tls),
        Target("sidecar-tls", "sidecar", sidecar(), sections=tls),
    ]
    if baseline is not None:
        every.append(Target("sidecar-baseline", "sidecar, baseline", sidecar(baseline)))
    return {target.name: target for target in every}


@contextmanager
def opened(target: Target, programs: Programs, user: int | None) -> Iterator[Way]:
    """*target* with a backend behind it, once a round trip gets through.

    Raises:
        NotThere: it can't be started here; its last words are in the message.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=f"bench-{target.name}-")))
        folder.chmod(0o755)  # another user's process looks for its sockets here
        upstream = stack.enter_context(backend(programs, target.upstream, _subfolder(folder, "upstream")))
        if target.proxy is None:
            yield Way(upstream)
            return
        *ports, telemetry, admin = _free_ports(len(Addresses._fields) + 2)
        listen = Addresses(*(f"127.0.0.1:{port}" for port in ports))
        certificates = made(_subfolder(folder, "certificates")) if target.terminates_tls else None
        wiring = Wiring(listen, upstream, (telemetry, admin), _subfolder(folder, "proxy"), certificates)
        process = stack.enter_context(running(target.proxy, wiring, user))
        claim: tuple[str, ...] = ("-P", str(process.pid), *(certificates.load if certificates is not None else ()))
        if certificates is None or target.answers:  # others read no preface inside TLS
            claim = (*claim, "-p", "pp2", "-g", GENERATION, "-I", INSTANCE)
        right = (*claim, "-i", IDENTITY)
        ready_at = _ready_at(programs, listen.echo, right, process)
        if ready_at is None:
            raise NotThere(f"{target.name} doesn't serve: {_last_words(wiring)}")
        wrong = (*claim, "-i", OTHER_IDENTITY)
        yield Way(listen, right, wrong, ready_at - process.spawned_at, rss_kib(process.pid), process.pid)


def _ready_at(programs: Programs, address: str, arguments: tuple[str, ...], process: Running) -> float | None:
    """When the first round trip got through (``time.monotonic``); None where none does."""
    deadline = process.spawned_at + _START_SECONDS
    while time.monotonic() < deadline and not process.has_ended():
        with suppress(LoadFailed):
            return load(programs, "wait", address, arguments, seconds=_LOOK_SECONDS)["ready_at"]
    return None


def _subfolder(folder: Path, name: str) -> Path:
    path = folder / name
    path.mkdir()
    return path


def _free_ports(count: int) -> list[int]:
    """Loopback ports that nothing listens on, below those that the kernel gives to connections."""
    sockets: list[socket.socket] = []
    for port in range(20_000, 32_000):
        if len(sockets) == count:
            break
        sock = socket.socket()
        try:
            sock.bind(("127.0.0.1", port))
            sockets.append(sock)
        except OSError:
            sock.close()
    ports = [sock.getsockname()[1] for sock in sockets]
    for sock in sockets:
        sock.close()
    return ports


def _last_words(wiring: Wiring) -> str:
    lines: Sequence[str] = log(wiring).read_text(errors="replace").splitlines()
    return "; ".join(line.strip() for line in lines[-_LINES_OF_COMPLAINT:]) or "it says nothing"
