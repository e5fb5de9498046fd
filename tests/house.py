"""A listener's whole house over real sockets: a scripted authority, a recording journal and local process."""

from __future__ import annotations

import socket
from dataclasses import replace

import trio
from prometheus_client import CollectorRegistry

from sidecar.admission import Requirement, Rules, State
from sidecar.assignment import Assignment
from sidecar.config import HostPort
from sidecar.connection import begin
from sidecar.gate import Gate, Times
from sidecar.handshake import Desk
from sidecar.identity import Generation
from sidecar.metrics import Metrics
from sidecar.parting import Parting
from sidecar.preface.answer import Answer, read_answer
from sidecar.preface.claim import TlvTypes
from sidecar.preface.proxy_v2 import read_header
from sidecar.relay import Fence, Relay, RelayTimes, Traffic
from sidecar.roster import Roster
from tests.names import OWN, U1, inet
from tests.wires import plain, receive_all, tcp_pair

RULES = Rules(OWN, frozenset({Requirement.IDENTITY, Requirement.GENERATION, Requirement.INSTANCE}))
SEVEN = Assignment(Generation(7), U1)
EIGHT = Assignment(Generation(8), U1)


class ScriptedAuthority:
    """Answers what it was told to, when it was told to."""

    def __init__(self, reading):
        self.newest = reading
        self.remembered = None
        self.stale = False
        self.reads = 0
        self.may_answer = trio.Event()
        self.may_answer.set()

    def last_known(self):
        return self.remembered

    def forget(self):
        self.remembered = None

    def read_now(self):
        return None

    async def read(self):
        self.reads += 1
        await self.may_answer.wait()
        return self.newest


class RecordingJournal:
    """Keeps what it was told instead of writing it."""

    def __init__(self):
        self.events = []

    def __getattr__(self, name):
        return lambda connection, *what: self.events.append((name, *what))


class LocalProcess:
    """Stands for the local process: it keeps every connection that reaches it."""

    def __init__(self):
        self.server = socket.create_server(("127.0.0.1", 0))
        self.listener = trio.SocketListener(trio.socket.from_stdlib_socket(self.server))
        self.port = self.listener.socket.getsockname()[1]
        self.backlog = 0

    async def accept(self):
        return await self.listener.accept()

    async def untouched(self):
        with trio.move_on_after(0.05):
            await (await self.accept()).aclose()
            return False
        return True


class House:
    """Everything that a gate needs, and connections through it."""

    def __init__(self, nursery, process):
        self.nursery, self.process = nursery, process
        self.authority = ScriptedAuthority(SEVEN)
        self.roster = Roster(connections=4, pending=4)
        self.state = State()
        self.journal = RecordingJournal()
        self.registry = CollectorRegistry()
        self.metrics = Metrics(self.registry, listeners=["compute"], wall_clock=lambda: 0.0)
        self.relay, self.parting, self.total = Relay(pipes=8), Parting(), Traffic()
        self.metrics.listener("compute").follow(self.total)
        nursery.start_soon(self.relay.run)
        nursery.start_soon(self.parting.run)
        self.gate = Gate(
            desk=Desk(RULES, TlvTypes()),
            clock=trio.current_time,
            upstream=HostPort("127.0.0.1", process.port),
            full_answer=True,
            shadow=False,
            shadow_now=lambda: self.gate.shadow,
            send_proxy=False,
            times=Times(preface=5, authority=2, connect=2, keepalive=30, user_timeout=30),
            relay_times=RelayTimes(half_close=300, idle=None, lifetime=None),
            refusal_drain=1 << 20,
            authority=self.authority,
            roster=self.roster,
            exclusive=None,
            now=lambda: self.state,
            epoch_floor=None,
            relay=self.relay,
            fence=Fence(),
            total=self.total,
            parting=self.parting,
            lifeline=None,
            metrics=self.metrics.listener("compute"),
            journal=self.journal,
        )

    def require(self, *, also=frozenset(), without=frozenset(), **changes):
        """Have the gate require other parts of a claim than it does."""
        rules = self.gate.rules
        rules = replace(rules, require=(rules.require | also) - without, **changes)
        self.gate = replace(self.gate, desk=Desk(rules, self.gate.desk.tlvs))

    async def connect(self, *, verdict=None, **pair):
        controller, far = await tcp_pair(**pair)
        client = plain(far)
        connection = self.enter()
        begin(self.nursery, self.gate, client, connection, verdict)
        return controller, connection, client

    def enter(self):
        local = inet("127.0.0.1", 7101)
        connection = self.roster.enter("compute", inet("127.0.0.1", 51000), local, trio.current_time())
        self.gate.metrics.accepted()
        return connection

    def takeovers_failed(self):
        name = "identity_sidecar_takeovers_failed_total"
        return self.registry.get_sample_value(name, {"listener": "compute"})

    def counts(self):
        counts = self.gate.metrics.counts()
        return {name: value for name, value in counts.items() if value}

    async def settled(self, *expected):
        """Wait until everybody has left, then compare what was told to the journal."""
        with trio.fail_after(5):
            await self.roster.wait_empty()
        assert [event for event in self.journal.events if event[0] != "admitted"] == list(expected)
        counts = self.gate.metrics.counts()
        assert counts["pending"] == counts["active"] == 0
        settled = sum(sum(counts[name].values()) for name in ("admitted", "rejected", "probes"))
        assert counts["accepted"] == settled


async def answer_of(stream) -> Answer:
    data = await receive_all(stream)
    header = read_header(data)
    assert header.length == len(data)
    return read_answer(header)
