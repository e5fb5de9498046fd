"""A replica pod as its neighbours see it: a running sidecar, and the local process behind it.

The sidecar is the real program in a process of its own. The local process is a listening socket in the test's hands:
the kernel takes connections for it, so that the sidecar can dial at any time, and the test accepts them when it wants
to, or finds that there is none.
"""

from __future__ import annotations

import http.client
import itertools
import json
import select
import socket
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import yaml
from kernel import receive_all
from names import CLAIM, OWN, U1, inet, preface
from processes import Process, eventually, running
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from sidecar.identity import Generation
from sidecar.preface.answer import Answer, read_answer, write_answer
from sidecar.preface.claim import Claim
from sidecar.preface.proxy_v2 import bytes_wanted, read_header

SIDECAR = [sys.executable, "-m", "sidecar"]
SECONDS = 20.0  # for what happens at once on an idle machine
PREFIX = "identity_sidecar_"
PLACES: Mapping[str, Mapping[str, Any]] = {
    f"place-{number}": {} for number in range(1, 13)
}  # listeners, for tests that each take one

Address = tuple[str, int]


class LocalProcess:
    """What the sidecar stands in front of."""

    def __init__(self, port: int = 0) -> None:
        self._listening = socket.create_server(("127.0.0.1", port), backlog=512)
        self._listening.settimeout(SECONDS)

    @property
    def address(self) -> str:
        """Where it listens."""
        host, port = self._listening.getsockname()
        return f"{host}:{port}"

    def accept(self) -> socket.socket:
        """The next connection that reaches it."""
        connection, _ = self._listening.accept()
        connection.settimeout(SECONDS)
        return connection

    @property
    def untouched(self) -> bool:
        """Whether no connection has reached it beyond those accepted."""
        return select.select([self._listening], [], [], 0)[0] == []

    def forget(self) -> None:
        """Close whatever has reached it and wasn't accepted."""
        while not self.untouched:
            self.accept().close()

    def close(self) -> None:
        """Be gone."""
        self._listening.close()


@dataclass(frozen=True)
class Page:
    """What an HTTP server of the sidecar's has answered."""

    status: int
    content_type: str
    body: str


@dataclass(frozen=True)
class Scrape:
    """One moment's metrics."""

    samples: tuple[Sample, ...]

    @classmethod
    def parse(cls, page: str) -> Scrape:
        """The samples of a page in the plain format."""
        return cls(tuple(sample for family in text_string_to_metric_families(page) for sample in family.samples))

    def total(self, name: str, **labels: str) -> float:
        """The sum of the series called *name*, less the common prefix, that carry *labels*; there is one at least."""
        found = [
            sample.value
            for sample in self.samples
            if sample.name == PREFIX + name and labels.items() <= sample.labels.items()
        ]
        assert found, f"no series {name} {labels}"
        return sum(found)


class Sidecar:
    """A running sidecar."""

    def __init__(self, process: Process, file: Path, upstream: str) -> None:
        self.process = process
        self.file = file
        self.listener = "compute"  # whom a test means that names none
        self._upstream = upstream
        self._sources = itertools.count(int(ip_address("127.1.0.1")))
        self._events: list[dict[str, Any]] = []
        self._lines_read = 0

    @cached_property
    def _addresses(self) -> dict[str, str]:
        return {line["what"]: line["addresses"][0] for line in self.lines("listening")}

    def _address(self, key: str) -> Address:
        host, _, port = self._addresses[key].rpartition(":")
        return host, int(port)

    @property
    def telemetry(self) -> Address:
        """Where the public pages are."""
        return self._address("telemetry.listen")

    @property
    def admin(self) -> Address:
        """Where the private pages are."""
        return self._address("admin.listen")

    def address(self, listener: str = "") -> Address:
        """Where a listener listens."""
        return self._address(f"listeners.{listener or self.listener}.listen")

    def configure(self, **sections: Any) -> None:
        """Give it another configuration file, as ``configuration`` makes it. Nothing happens before it is read."""
        self.file.write_text(yaml.safe_dump(configuration(self._upstream, **sections)))

    def connect(self, *, source: str = "", buffers: int | None = None, listener: str = "") -> socket.socket:
        """A connection to a listener; nothing is said on it yet.

        Args:
            source: its own address; by default one that no connection had before, so that its line in the log can't be
                taken for another's.
            buffers: bytes for each of its two buffers.
            listener: which one.
        """
        with ExitStack() as unless_connected:
            sock = unless_connected.enter_context(socket.socket())
            if buffers is not None:
                for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
                    sock.setsockopt(socket.SOL_SOCKET, option, buffers)
            sock.settimeout(SECONDS)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.bind((source or str(ip_address(next(self._sources))), 0))
            sock.connect(self.address(listener))
            unless_connected.pop_all()
        return sock

    def dial(
        self, claim: Claim = CLAIM, *, answer: bool = False, source: str = "", listener: str = ""
    ) -> socket.socket:
        """A connection that has stated *claim*."""
        with ExitStack() as unless_said:
            sock = unless_said.enter_context(self.connect(source=source, listener=listener))
            sock.sendall(preface(claim, answer=answer))
            unless_said.pop_all()
        return sock

    def admit(
        self, local_process: LocalProcess, claim: Claim = CLAIM, *, source: str = "", listener: str = ""
    ) -> tuple[socket.socket, socket.socket]:
        """Both ends of an admitted connection: the controller's, which has read its answer, and the local process's."""
        with ExitStack() as unless_admitted:
            client = unless_admitted.enter_context(self.dial(claim, answer=True, source=source, listener=listener))
            answer = next_answer(client)
            assert answer.admitted, answer
            upstream = local_process.accept()
            unless_admitted.pop_all()
        return client, upstream

    def refuse(self, claim: Claim, *, source: str = "", listener: str = "") -> Answer:
        """What a controller with *claim*, which is refused, is told."""
        with self.dial(claim, answer=True, source=source, listener=listener) as client:
            answer = next_answer(client)
            assert not answer.admitted, answer
            assert receive_all(client) == b""
            return answer

    def page(self, path: str, *, method: str = "GET", admin: bool = False, **headers: str) -> Page:
        """What a page says. Header names are written with ``_`` for ``-``."""
        server = http.client.HTTPConnection(*(self.admin if admin else self.telemetry), timeout=SECONDS)
        try:
            server.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
            response = server.getresponse()
            return Page(response.status, response.getheader("Content-Type", ""), response.read().decode())
        finally:
            server.close()

    def status(self) -> dict[str, Any]:
        """The admin server's status page."""
        page = self.page("/status", admin=True)
        assert page.status == 200, page
        status: dict[str, Any] = json.loads(page.body)
        return status

    def counts(self) -> Counter[str]:
        """What has become of connections so far: ``accepted``, ``rejected identity_mismatch``, ..."""
        found: Counter[str] = Counter()
        for listener in self.status()["listeners"]:
            for kind, value in listener["counts"].items():
                if isinstance(value, dict):
                    found.update({f"{kind} {word}": count for word, count in value.items()})
                elif kind == "accepted":
                    found[kind] += value
        return found

    @contextmanager
    def counting(self, **expected: int) -> Iterator[None]:
        """The block makes exactly these counts grow, and by so much; ``accepted`` is the sum of the verdicts.

        Args:
            expected: by word: a reason, a kind of probe, ``authority`` for admissions; and ``ended_<cause>`` for ends
                of admitted connections, which aren't looked at where the test names none.
        """
        before = self.counts()
        yield
        ends = any(name.startswith("ended_") for name in expected)
        wanted = Counter(expected)
        wanted["accepted"] = sum(count for name, count in expected.items() if not name.startswith("ended_"))
        moved: Counter[str] = Counter()

        def moved_as_wanted() -> bool:
            moved.clear()
            for name, count in (self.counts() - before).items():
                kind, _, word = name.rpartition(" ")
                if kind == "ended":
                    moved.update({f"ended_{word}": count} if ends else {})
                elif not kind.startswith("shadow_"):  # counted beside the admissions
                    moved[word] += count
            return moved == wanted

        assert eventually(moved_as_wanted, seconds=SECONDS), f"expected {dict(wanted)}, and counted {dict(moved)}"

    def scrape(self) -> Scrape:
        """What the metrics page says now."""
        return Scrape.parse(self.page("/metrics").body)

    def lines(self, event: str, **fields: object) -> list[dict[str, Any]]:
        """The log's lines of *event* whose *fields* have these values."""
        new = self.process.lines[self._lines_read :]
        self._lines_read += len(new)
        self._events += (json.loads(line) for line in new if line.startswith("{"))
        return [
            line
            for line in self._events
            if line["event"] == event and all(line.get(name) == value for name, value in fields.items())
        ]

    def line(self, event: str, client: Address) -> dict[str, Any]:
        """The one line of *event* about the connection from *client*."""
        peer = f"{client[0]}:{client[1]}"
        assert eventually(lambda: bool(self.lines(event, peer=peer)), seconds=SECONDS), self.process.output
        (line,) = self.lines(event, peer=peer)
        return line

    def live(self) -> list[dict[str, Any]]:
        """The admitted connections of the listener that the test is about, as the status page shows them."""
        return [
            each
            for each in self.status()["connections"]
            if each["state"] == "admitted" and each["listener"] == self.listener
        ]

    @property
    def idle(self) -> bool:
        """Whether no connection is there."""
        return self.status()["connections"] == []

    def memory(self) -> int:
        """How many bytes of memory the process holds."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * 4096

    def descriptors(self) -> int:
        """How many files and sockets the process has open."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))


def next_answer(sock: socket.socket) -> Answer:
    """The answer that comes on *sock*; what follows it stays unread."""
    buffer = bytearray()
    while (header := read_header(buffer)) is None:
        received = sock.recv(bytes_wanted(buffer))
        assert received, f"the connection ended within the answer, after {bytes(buffer)!r}"
        buffer += received
    return read_answer(header)


def verdict(sock: socket.socket) -> str:
    """What the dialler with *sock* is told; ``cut`` where it was cut before it could be."""
    try:
        return next_answer(sock).verdict
    except ConnectionResetError:
        return "cut"


def admission(sock: socket.socket) -> bytes:
    """The bytes by which this replica tells the dialler with *sock* that it is admitted."""
    answer = Answer("admitted", identity=OWN, generation=Generation(7), instance=U1)
    return write_answer(answer, dialler=inet(*sock.getsockname()), sidecar=inet(*sock.getpeername()))


def configuration(upstream: str, **sections: Any) -> dict[str, Any]:
    """This replica's configuration, as a value: every port is the kernel's choice, and every refusal gets its line.

    Args:
        upstream: the local process's address.
        sections: keys that are added or replaced, by section, or a whole section that isn't a mapping; ``listener`` is
            the one listener, and ``beside`` others that are like it, by name, each with the keys in which it isn't. Of
            the assignment, None takes a part away.
    """
    config: dict[str, Any] = {
        "identity": {"cluster": OWN.cluster, "replica": OWN.replica, "ordinal": OWN.ordinal},
        "assignment": {"instance": str(U1), "generation": 7},
        "timeouts": {"preface": "30s"},  # a header in 4,096 pieces takes its time on a busy machine
        "drain": {"timeout": "200ms"},
        "telemetry": {"listen": "127.0.0.1:0"},
        "admin": {"listen": "127.0.0.1:0"},
        "log": {"format": "json", "level": "debug", "refusals_per_second": 1000},
    }
    listener: dict[str, Any] = {
        "name": "compute",
        "listen": "127.0.0.1:0",
        "upstream": upstream,
        "answer": "full",
        "tls": "none",
        **sections.pop("listener", {}),
    }
    beside = sections.pop("beside", {})
    for section, keys in sections.items():
        config[section] = config.get(section, {}) | keys if isinstance(keys, Mapping) else keys
    config["assignment"] = {key: value for key, value in config["assignment"].items() if value is not None}
    return config | {"listeners": [listener, *(listener | {"name": name} | keys for name, keys in beside.items())]}


@contextmanager
def sidecar_at(path: Path, upstream: str, *, under: Sequence[str] = (), **sections: Any) -> Iterator[Sidecar]:
    """A running sidecar with its configuration in the folder *path*; see ``configuration``.

    Args:
        path: the folder.
        upstream: the local process's address.
        under: a command that becomes the one that follows it.
        sections: its configuration's.
    """
    file = path / "sidecar.yaml"
    file.write_text(yaml.safe_dump(configuration(upstream, **sections)))
    with running([*under, *SIDECAR, "run", str(file)], ready='"event": "started"') as process:
        yield Sidecar(process, file, upstream)
