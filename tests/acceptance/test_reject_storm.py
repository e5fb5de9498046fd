"""Thousands that are wrong and come again at once: counted to the last one, and nobody else feels them."""

from __future__ import annotations

import threading
import time

import trio
from conftest import Start
from names import WRONG, preface
from processes import eventually
from replica import LocalProcess, Sidecar

STORM = 5000
AT_ONCE = 20
MiB = 1 << 20


async def be_refused(sidecar: Sidecar, times: int, heard: list[bytes]) -> None:
    """Dial the wrong replica so often, one time after the other."""
    for _ in range(times):
        async with await trio.open_tcp_stream(*sidecar.address(), local_address="127.0.0.9") as stream:
            await stream.send_all(preface(WRONG))  # and asks for no answer: not one byte is owed
            heard.append(b"".join([part async for part in stream]))


async def storm(sidecar: Sidecar, times: int, heard: list[bytes]) -> None:
    """So many refusals, from many tasks."""
    async with trio.open_nursery() as nursery:
        for _ in range(AT_ONCE):
            nursery.start_soon(be_refused, sidecar, times // AT_ONCE, heard)


def test_a_storm_of_refusals_costs_nobody_anything(start: Start, own_local_process: LocalProcess) -> None:
    sidecar = start(log={"level": "info", "refusals_per_second": 10})
    heard: list[bytes] = []
    trio.run(storm, sidecar, 1000, heard)  # so that everything that grows once has grown
    memory, lines, began = sidecar.memory(), len(sidecar.lines("connection_refused")), time.monotonic()
    waits = []
    thread = threading.Thread(target=trio.run, args=(storm, sidecar, STORM, heard))
    thread.start()
    while thread.is_alive():
        dialled_at = time.monotonic()
        for end in sidecar.admit(own_local_process, source="127.0.0.1"):
            end.close()
        waits.append(time.monotonic() - dialled_at)
        thread.join(0.2)
    assert len(heard) == 1000 + STORM
    assert set(heard) == {b""}
    assert max(waits) < 1.0
    assert sidecar.counts()["rejected identity_mismatch"] == 1000 + STORM
    assert sidecar.memory() - memory < 5 * MiB
    assert len(sidecar.lines("connection_refused")) - lines <= 10 * (time.monotonic() - began + 2)

    def told_of() -> int:
        told = [*sidecar.lines("connection_refused"), *sidecar.lines("refusals_suppressed")]
        return sum(line.get("suppressed", 0) for line in told) + len(sidecar.lines("connection_refused"))

    assert eventually(lambda: told_of() == 1000 + STORM)
