"""For the demo's tests: a sidecar without checks, a fleet without processes, and which real processes there are."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import trio

from sidecar.demo.front import Ports
from sidecar.demo.lines import Lines
from sidecar.demo.record import Record
from sidecar.demo.replica import HOST, reply
from sidecar.demo.scrape import Counts
from sidecar.dialler import DialError
from sidecar.identity import Generation, Identity, Instance
from sidecar.preface.answer import Answer, write_answer
from sidecar.preface.claim import read_claim
from sidecar.preface.proxy_v2 import bytes_wanted, read_header
from sidecar.reasons import Advice

UIDS = ("5b1f0a60-0000-4000-8000-000000000000", "6c2f0a61-1111-4111-8111-111111111111")


def record(ordinal=0, *, host=HOST, generation=1, instance=UIDS[0]):
    return Record(Identity("demo", "replica-a", ordinal), Generation(generation), Instance(instance), host)


class FakeSidecar:
    """Admits whoever asks, or refuses with *refusal*; admitted connections get *replies*, one a line, and the end."""

    def __init__(self, *, refusal=None, replies=()):
        self.refusal = refusal
        self.replies = replies
        self.claims = []

    async def serve(self, nursery):
        """Its port."""
        (listener,) = await nursery.start(partial(trio.serve_tcp, self._serve_one, 0, host=HOST))
        return listener.socket.getsockname()[1]

    async def _serve_one(self, stream):
        buffer = bytearray()
        while (header := read_header(buffer)) is None:
            buffer += await stream.receive_some(bytes_wanted(buffer))
        claim = read_claim(header.tlvs)
        self.claims.append(claim)
        answer = self.refusal or Answer("admitted", None, "", claim.identity, claim.generation, claim.instance)
        await stream.send_all(write_answer(answer, dialler=None, sidecar=None))
        if self.refusal is None:
            lines = Lines(stream)
            for line in self.replies:
                await lines.receive()
                await lines.send(line)


class FakeController:
    """Gets *outcome* from every dial: None, or a DialError. Its streams are *reset*, or else end in order."""

    def __init__(self, known, outcome=None, *, reset=True):
        self.known = {each.ordinal: each for each in known}
        self.outcome = outcome
        self.reset = reset

    async def dial(self, ordinal) -> DialError | None:
        await trio.lowlevel.checkpoint()
        return self.outcome

    async def command(self, ordinal):
        await trio.lowlevel.checkpoint()
        return reply(ordinal, self.known[ordinal].generation.value, 1)

    async def notice_end(self, ordinal):
        await trio.lowlevel.checkpoint()
        return self.reset


@dataclass
class FakePod:
    """Has counted what it is told to have counted."""

    record: Record
    counted: Counts
    reached: int = 0
    dialled: Counter[str] = field(default_factory=Counter)
    resets: int = 0
    cut: Counter[str] = field(default_factory=Counter)

    async def counts(self, expected):
        await trio.lowlevel.checkpoint()
        return self.counted


class FakeCertificates:
    """Names folders, and makes nothing."""

    def of_controller(self, name):
        return Path(f"/tmp/sidecar-demo-x/controller-{name}")

    def tls(self, name):
        return None


class FakeFleet:
    """Pods that stand where their records say."""

    def __init__(self, *pods, ports=None):
        self._pods = {pod.record.ordinal: pod for pod in pods}
        self.ports = ports or Ports(7101, 9902, 9901)
        self.certificates = FakeCertificates()

    def __getitem__(self, ordinal):
        return self._pods[ordinal]

    def look_up(self, ordinal):
        return self._pods[ordinal].record

    def at(self, host):
        return next(pod for pod in self._pods.values() if pod.record.host == host)


def refusal(reason, detail, advice=Advice.REFRESH):
    return Answer(reason, advice, detail)


def processes_naming(directory):
    """The ids of the processes that were started with a path below *directory*."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            arguments = (entry / "cmdline").read_bytes()
        except OSError:
            continue  # it has just ended
        if f"{directory}/".encode() in arguments:
            found.append(int(entry.name))
    return found
