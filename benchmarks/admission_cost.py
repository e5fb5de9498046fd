"""What one connection costs in Python, step by step: from its preface to its verdict, its metrics, its line in the log.

Run by hand: ``python benchmarks/admission_cost.py``. Prints microseconds, the best of many short rounds; of the kernel
there is only the write of a line to a file. ``again`` is a controller whose claim came before, as with every
reconnection; ``new`` is a claim that is seen for the first time. The first row is for comparing machines.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable
from ipaddress import IPv4Address
from itertools import cycle, islice
from types import SimpleNamespace

import trio
from prometheus_client import CollectorRegistry, Counter

from sidecar.admission import Floor, Requirement, Rules, State, decide
from sidecar.assignment import Assignment
from sidecar.handshake import UNPROVEN, Desk, Handshake
from sidecar.identity import ControllerName, Epoch, Generation, Identity, Instance
from sidecar.journal import Journal
from sidecar.log import RefusalLog, build_logger
from sidecar.metrics import Basis, ListenerMetrics, Metrics, Outcome, Stage
from sidecar.preface.answer import ADMITTED, Answer, write_answer
from sidecar.preface.claim import FORMAT_1, Claim, claim_of, write_claim
from sidecar.preface.proxy_v2 import InetAddress, read_header, write_header
from sidecar.preface.tlv import Tlv, write_block
from sidecar.reasons import End, Reason, Refused
from sidecar.roster import Connection

ROUNDS, CALLS = 60, 500
OWN = Identity("prod-eu", "replica-a", 2)
ASSIGNED = Assignment(Generation(7), Instance("3f0c9a52-7d41-4c7e-9a56-0b8f6f1f2d31"), Epoch(5))
RULES = Rules(OWN, frozenset(Requirement))
STATE = State(floor=Floor(Generation(7), Epoch(5)))
STRANGER = UNPROVEN
DESK = Desk(RULES, FORMAT_1)
LOCAL = InetAddress(IPv4Address("127.0.0.1"), 7101)
PEERS = [InetAddress(IPv4Address("10.0.0.9"), port) for port in range(40000, 40000 + CALLS)]


def tlvs(controller: str = "controller-a") -> tuple[Tlv, ...]:
    """What a controller states that knows everything of the slot and wants an answer."""
    known = OWN, ASSIGNED.generation, ASSIGNED.instance, ASSIGNED.epoch
    return write_claim(Claim(*known, ControllerName(controller)), answer=True)


def preface(tlvs: tuple[Tlv, ...], source: InetAddress | None = None, *, crc: bool = False) -> bytes:
    """The bytes that state it; with addresses, as a proxy in between writes them."""
    return write_header(source=source, destination=source and LOCAL, tlvs=tlvs, crc=crc)


def admit(data: bytes, peer: InetAddress) -> bytes:
    """Everything between a complete preface and the bytes of the answer."""
    handshake = Handshake(DESK, STRANGER)
    handshake.receive(data, STATE)
    answer = handshake.answer(handshake.decide(ASSIGNED, STATE), ASSIGNED, STATE.floor, full=False)
    return write_answer(answer, dialler=peer, sidecar=LOCAL) if answer is not None else b""


def count(metrics: ListenerMetrics) -> None:
    """The metrics of one connection, but for its bytes."""
    metrics.accepted()
    metrics.handshake_took(Stage.PREFACE, 0.003)
    metrics.admission_took(Outcome.ADMITTED, 0.0001)
    metrics.admitted(Basis.AUTHORITY)
    metrics.ended(End.CLIENT_CLOSED)


def measure(name: str, call: Callable[..., object], *columns: Iterable[object]) -> None:
    """Print what *call* takes, less the loop around it; each call gets the next value of every column."""

    def seconds(function: Callable[..., object]) -> float:
        rows = list(islice(zip(*columns, strict=False), CALLS))
        begin = time.perf_counter()
        for row in rows:
            function(*row)
        return (time.perf_counter() - begin) / CALLS

    best, loop = (min(seconds(each) for _ in range(ROUNDS)) for each in (call, lambda *_: None))
    print(f"{name:<40}{(best - loop) * 1e6:8.2f}")


async def main() -> None:
    """Measure the steps. Within trio for its clock alone: nothing here waits."""
    known, block, received = preface(tlvs()), write_block(tlvs()), claim_of(write_block(tlvs()))
    strangers = (tlvs(f"controller-{number}") for number in range(10**9))
    answer = Answer(ADMITTED, identity=OWN, generation=ASSIGNED.generation, instance=ASSIGNED.instance)
    inputs = [cycle([value]) for value in (RULES, received, STRANGER, STATE)]
    proxied, checked = (cycle([preface(tlvs(), peer, crc=crc) for peer in PEERS]) for crc in (False, True))

    measure("(an increment in the library)", Counter.inc, cycle([Counter("a", "A.", registry=None)]))
    measure("header without addresses", read_header, cycle([known]))
    measure("header with IPv4", read_header, proxied)
    measure("header with IPv4 and a checksum", read_header, checked)
    measure("claim, again", claim_of, cycle([block]))
    measure("claim, new", claim_of, map(write_block, strangers))
    measure("decide without a reading", decide, *inputs, cycle([None]))
    measure("decide on a reading", decide, *inputs, cycle([ASSIGNED]))
    measure("answer", lambda peer: write_answer(answer, dialler=peer, sidecar=LOCAL), cycle(PEERS))
    measure("preface to answer, again", admit, cycle([known]), cycle(PEERS))
    measure("preface to answer, again, proxied", admit, proxied, cycle(PEERS))
    measure("preface to answer, new", admit, map(preface, strangers), cycle(PEERS))
    metrics = Metrics(CollectorRegistry(), listeners=["compute"], wall_clock=time.monotonic).listener("compute")
    measure("metrics of a connection", count, cycle([metrics]))

    with tempfile.TemporaryFile("w") as file:
        logger = build_logger("json", "info", file)
        storm = RefusalLog(logger, per_second=0, clock=trio.current_time, on_suppressed=lambda: None)
        journal = Journal(logger, storm, OWN, SimpleNamespace(newest=ASSIGNED))
        connections = [Connection(1, "compute", peer, LOCAL, 0.0) for peer in PEERS]
        for connection in connections:
            connection.claim = received
        rows = cycle(connections)
        measure("line of an end", journal.ended, rows, cycle([End.CLIENT_CLOSED]))
        measure("refusal without a line", journal.refused, rows, cycle([Refused(Reason.FENCED, "expired")]))


if __name__ == "__main__":
    trio.run(main)
