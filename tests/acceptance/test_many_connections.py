"""A thousand connections at once: every byte of theirs arrives, the numbers add up meanwhile, and nothing is left.

Each says and hears pieces of one block of noise, of random sizes, and ends in one of three ways. What it sent, and what
it is to get back, stands before each piece, so both ends check every byte.
"""

from __future__ import annotations

import random
import resource
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import pytest
import trio
from conftest import Start
from names import CLAIM, WRONG
from processes import eventually
from replica import Scrape, Sidecar

from sidecar.client import open_connection
from sidecar.dialler import RefusedError

CONNECTIONS: Final = 1000
STRANGERS: Final = 50  # of each kind: those who are refused, and those who only look whether somebody is there
MOST: Final = 16 * 1024  # bytes of one piece
NOISE: Final = random.Random(1).randbytes(4 * MOST)

NOISY_DESCRIPTORS: Final = 5 * CONNECTIONS  # what the sidecar needs to have a place for all of them
HEAD: Final = struct.Struct("!BIIII")


class Kind(IntEnum):
    """What a piece is."""

    TRIP = 0  # one piece up, one down
    CLIENT_ENDS_FIRST = 1  # nothing more comes up; a last piece comes down after that
    PROCESS_ENDS_FIRST = 2  # a last piece comes down and nothing more; a last one goes up after that


@dataclass
class Bytes:
    """How many the clients have sent and received."""

    up: int = 0
    down: int = 0


@pytest.fixture(autouse=True)
def _descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < NOISY_DESCRIPTORS:
        pytest.skip(f"a process may only have {hard} descriptors here: raise the hard limit to {NOISY_DESCRIPTORS}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("trips", [2, pytest.param(100, marks=pytest.mark.soak)])
async def test_a_thousand_connections_at_once_lose_no_byte_and_leave_nothing(trips: int, start: Start) -> None:
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=CONNECTIONS)
    pending = CONNECTIONS + 2 * STRANGERS  # they come all at the same moment, and none is to give way
    sidecar = start(
        upstream=f"127.0.0.1:{listeners[0].socket.getsockname()[1]}",
        limits={"pending": pending},
        timeouts={"preface": "60s", "connect": "60s"},  # on a busy machine the last of them waits long for its turn
    )
    before = sidecar.scrape()
    moved = Bytes()

    async with trio.open_nursery() as until_the_end:
        until_the_end.start_soon(trio.serve_listeners, process, listeners)
        until_the_end.start_soon(watch, sidecar)
        all_here = Gathering(CONNECTIONS)
        async with trio.open_nursery() as visitors:
            for number in range(CONNECTIONS):
                visitors.start_soon(client, sidecar, random.Random(number), trips, all_here, moved)
            for _ in range(STRANGERS):
                visitors.start_soon(refused, sidecar)
                visitors.start_soon(probe, sidecar)
        assert await trio.to_thread.run_sync(eventually, lambda: sidecar.idle)
        until_the_end.cancel_scope.cancel()

    after = sidecar.scrape()
    add_up(after)
    assert after.total("connections_admitted_total") == CONNECTIONS
    assert after.total("connections_rejected_total", reason="identity_mismatch") == STRANGERS
    assert after.total("probes_total", kind="closed_before_preface") == STRANGERS
    assert after.total("connections_accepted_total") == CONNECTIONS + 2 * STRANGERS
    in_order = [after.total("connections_ended_total", cause=f"{side}_closed") for side in ("client", "upstream")]
    assert sum(in_order) == CONNECTIONS
    assert after.total("forwarded_bytes_total", direction="up") == moved.up
    assert after.total("forwarded_bytes_total", direction="down") == moved.down
    assert after.total("connections_active") == before.total("connections_active") == 0
    assert await trio.to_thread.run_sync(eventually, lambda: open_files(sidecar.scrape()) <= open_files(before))


class Gathering:
    """Holds everybody until all are there."""

    def __init__(self, expected: int) -> None:
        self._missing = expected
        self._complete = trio.Event()

    async def wait(self) -> None:
        self._missing -= 1
        if self._missing == 0:
            self._complete.set()
        await self._complete.wait()


async def client(sidecar: Sidecar, chance: random.Random, trips: int, all_here: Gathering, moved: Bytes) -> None:
    """One connection, from its first byte to its last."""
    async with await open_connection(sidecar.address(), CLAIM, answer_within=60) as stream:
        await all_here.wait()
        for _ in range(trips):
            up, down = piece(chance), piece(chance)
            await say(stream, Kind.TRIP, up, down, moved, NOISE[up])
            await hear(stream, NOISE[down])
            moved.down += len(NOISE[down])
        up, down = piece(chance), piece(chance)
        match chance.choice([None, Kind.CLIENT_ENDS_FIRST, Kind.PROCESS_ENDS_FIRST]):
            case Kind.CLIENT_ENDS_FIRST:
                await say(stream, Kind.CLIENT_ENDS_FIRST, up, down, moved)
                await stream.send_eof()
                await hear(stream, NOISE[down])
                await hear_end(stream)
                moved.down += len(NOISE[down])
            case Kind.PROCESS_ENDS_FIRST:
                await say(stream, Kind.PROCESS_ENDS_FIRST, up, down, moved)
                await hear(stream, NOISE[down])
                await hear_end(stream)
                moved.down += len(NOISE[down])
                await stream.send_all(NOISE[up])
                moved.up += len(NOISE[up])


async def process(stream: trio.SocketStream) -> None:
    """The local process: one connection that came through the sidecar."""
    async with stream:
        while head := await receive(stream, HEAD.size):
            kind, *places = HEAD.unpack(head)
            said, wanted = NOISE[slice(*places[:2])], NOISE[slice(*places[2:])]
            match kind:
                case Kind.TRIP:
                    await hear(stream, said)
                    await stream.send_all(wanted)
                case Kind.CLIENT_ENDS_FIRST:
                    await hear_end(stream)
                    await stream.send_all(wanted)
                    return
                case Kind.PROCESS_ENDS_FIRST:
                    await stream.send_all(wanted)
                    await stream.send_eof()
                    await hear(stream, said)


def piece(chance: random.Random) -> slice:
    """A random piece of the noise, mostly a short one."""
    offset = chance.randrange(len(NOISE) - MOST)
    return slice(offset, offset + min(MOST, int(chance.paretovariate(0.6))))


async def say(stream: trio.SocketStream, kind: Kind, up: slice, down: slice, moved: Bytes, data: bytes = b"") -> None:
    """Announce a piece each way, with *data* right behind it."""
    await stream.send_all(HEAD.pack(kind, up.start, up.stop, down.start, down.stop) + data)
    moved.up += HEAD.size + len(data)


async def hear(stream: trio.SocketStream, expected: bytes) -> None:
    """The next bytes are exactly *expected*."""
    assert await receive(stream, len(expected)) == expected


async def hear_end(stream: trio.SocketStream) -> None:
    """No byte comes, and the stream ends in order."""
    assert await stream.receive_some(1) == b""


async def receive(stream: trio.SocketStream, size: int) -> bytes:
    """The next *size* bytes, or what comes of them before the stream ends."""
    data = bytearray()
    while len(data) < size and (part := await stream.receive_some(size - len(data))):
        data += part
    return bytes(data)


async def refused(sidecar: Sidecar) -> None:
    """Somebody with a wrong claim."""
    with pytest.raises(RefusedError, match="identity_mismatch"):
        await open_connection(sidecar.address(), WRONG, answer_within=60)


async def probe(sidecar: Sidecar) -> None:
    """Somebody who connects and closes."""
    await (await trio.open_tcp_stream(*sidecar.address())).aclose()


async def watch(sidecar: Sidecar) -> None:
    """Look at the metrics all the time."""
    while True:
        add_up(await trio.to_thread.run_sync(sidecar.scrape))


def add_up(scrape: Scrape) -> None:
    """Every connection is in exactly one place."""
    admitted = scrape.total("connections_admitted_total")
    settled = admitted + scrape.total("connections_rejected_total") + scrape.total("probes_total")
    assert scrape.total("connections_accepted_total") == settled + scrape.total("connections_active", state="pending")
    assert scrape.total("connections_active", state="admitted") == admitted - scrape.total("connections_ended_total")


def open_files(scrape: Scrape) -> float:
    """How many files and sockets the sidecar has open."""
    (value,) = (sample.value for sample in scrape.samples if sample.name == "process_open_fds")
    return value
