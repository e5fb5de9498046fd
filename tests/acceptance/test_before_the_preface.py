"""Who has said nothing yet, says it slowly, or comes in a crowd: none of them keeps a good controller out."""

from __future__ import annotations

import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import trio
from conftest import Start
from kernel import receive_all, silent_for
from names import preface
from processes import eventually
from replica import LocalProcess, Sidecar

MiB = 1 << 20
FLOOD = "127.0.0.9"
GOOD = "127.0.0.1"


def seconds_to_admit(sidecar: Sidecar, local_process: LocalProcess) -> float:
    """How long a good controller, which comes and goes, has to wait for its admission."""
    began = time.monotonic()
    client, upstream = sidecar.admit(local_process, source=GOOD)
    with client, upstream:
        return time.monotonic() - began


def has_ended(sock: socket.socket) -> bool:
    """Whether the other side has ended the connection by now."""
    return not silent_for(sock, 0) and sock.recv(1) == b""


def test_the_time_for_a_preface_is_one_for_all_of_it(start: Start) -> None:
    sidecar = start(timeouts={"preface": "3s"})
    slow = preface()
    with sidecar.counting(preface_timeout=1), sidecar.connect() as client:
        for at in range(len(slow)):
            client.send(slow[at : at + 1])
            if not silent_for(client, 1.0):
                break
        assert receive_all(client) == b""
        address = client.getsockname()
    assert 2.5 < sidecar.line("connection_refused", address)["seconds"] < 3.5


def test_five_hundred_unfinished_prefaces_hold_up_nobody_and_are_gone_in_time(
    start: Start, own_local_process: LocalProcess
) -> None:
    sidecar = start(timeouts={"preface": "3s"})
    with ExitStack() as closing, sidecar.counting(preface_timeout=500, authority=1):
        unfinished = [closing.enter_context(sidecar.connect()) for _ in range(500)]
        for client in unfinished:
            client.sendall(preface()[:20])
        assert eventually(lambda: sidecar.counts()["accepted"] == 500)
        assert seconds_to_admit(sidecar, own_local_process) < 1.0
        assert all(receive_all(client) == b"" for client in unfinished)


def test_the_oldest_of_a_flood_give_way_to_whoever_comes(start: Start, own_local_process: LocalProcess) -> None:
    sidecar = start(limits={"pending": 8})
    with ExitStack() as closing:
        bystander = closing.enter_context(sidecar.connect(source="127.0.0.2"))  # silent too, but alone at its address
        flood = [closing.enter_context(sidecar.connect(source=FLOOD)) for _ in range(30)]
        assert seconds_to_admit(sidecar, own_local_process) < 1.0
        # The last one gave way only if whoever came had to wait for its own preface.
        gave_way, perhaps, stayed = flood[:23], flood[23], [*flood[24:], bystander]
        assert all(receive_all(client) == b"" for client in gave_way)  # long before the 30 s that a preface may take
        assert not any(map(has_ended, stayed))
        assert sidecar.counts()["rejected over_capacity"] == len(gave_way) + has_ended(perhaps)


def test_the_limit_on_connections_is_one_on_admitted_ones(start: Start, own_local_process: LocalProcess) -> None:
    sidecar = start(limits={"connections": 2})
    first, second = (sidecar.admit(own_local_process) for _ in range(2))
    with first[0], first[1], second[0]:
        with sidecar.counting(over_capacity=1), sidecar.dial(answer=True) as third:
            assert receive_all(third) == b""  # refused before it could say that it wants an answer
            assert own_local_process.untouched
        for end in second:
            end.close()
        assert eventually(lambda: sidecar.scrape().total("connections_active", state="admitted") == 1)
        seconds_to_admit(sidecar, own_local_process)


def test_slow_readers_of_pages_keep_nobody_from_the_pages(sidecar: Sidecar) -> None:
    with ExitStack() as closing:
        for _ in range(50):
            reader = closing.enter_context(socket.socket())
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            reader.connect(sidecar.telemetry)
            reader.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert select.select([reader], [], [], 20)[0]
            assert len(reader.recv(1)) == 1  # and no more of it
        for _ in range(3):
            for path in ("/metrics", "/readyz"):
                began = time.monotonic()
                assert sidecar.page(path).status == 200
                assert time.monotonic() - began < 1.0


def test_a_crowd_that_speaks_another_protocol_does_not_slow_down_the_good_ones(
    start: Start, own_local_process: LocalProcess
) -> None:
    sidecar = start(log={"refusals_per_second": 10})
    with crowd(sidecar, 50, b"G" * MiB) as refused:
        waits = []
        for _ in range(10):
            seen = sum(refused)
            waits.append(seconds_to_admit(sidecar, own_local_process))
            assert eventually(lambda seen=seen: sum(refused) > seen)
    assert max(waits) < 1.0
    assert sidecar.counts()["rejected preface_missing"] == sum(refused)


@contextmanager
def crowd(sidecar: Sidecar, size: int, nonsense: bytes) -> Iterator[list[int]]:
    """Clients that send *nonsense*, are refused and come again, until the block ends; how often each was refused."""
    refused = [0] * size
    enough = threading.Event()

    async def insist(number: int) -> None:
        while not (refused[number] and enough.is_set()):
            async with await trio.open_tcp_stream(*sidecar.address(), local_address=FLOOD) as stream:
                await stream.send_all(nonsense)
                await stream.send_eof()
                assert await stream.receive_some() == b""
            refused[number] += 1

    async def all_insist() -> None:
        async with trio.open_nursery() as nursery:
            for number in range(size):
                nursery.start_soon(insist, number)

    thread = threading.Thread(target=trio.run, args=(all_insist,))
    thread.start()
    try:
        yield refused
    finally:
        enough.set()
        thread.join()
