"""The pods of the demo, at addresses of their own, and the lookup that knows where each slot is now.

Owns the addresses (loopback has millions on Linux, and needs no root for them) and which pod is at which. What pods do
when they come and go is told by the story.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Final, Self

import trio

from sidecar.demo.certificates import Certificates
from sidecar.demo.difference import DiffersError
from sidecar.demo.front import Ports
from sidecar.demo.pod import Pod
from sidecar.demo.record import Record
from sidecar.identity import Generation, Identity, Instance

HOSTS: Final = ("127.0.0.2", "127.0.0.3", "127.0.0.4")


class Fleet:
    """Three pods, one a slot.

    Attributes:
        ports: the ports of every sidecar.
        certificates: what its sidecars serve, and who may dial them.
    """

    def __init__(self, directory: Path, ports: Ports, nursery: trio.Nursery) -> None:
        self._directory = directory
        self._nursery = nursery
        self._pods: dict[int, Pod] = {}
        self._starts: Counter[int] = Counter()
        self.ports = ports
        self.certificates = Certificates(directory)

    @classmethod
    async def launch(cls, directory: Path, nursery: trio.Nursery) -> Self:
        """A fleet whose pods are ready; they run in *nursery*."""
        fleet = cls(directory, await choose_ports(), nursery)
        records = [
            Record(Identity("demo", "replica-a", ordinal), Generation(1), new_instance(), host)
            for ordinal, host in enumerate(HOSTS)
        ]
        await fleet._start(*records)
        return fleet

    def __iter__(self) -> Iterator[Pod]:
        return (self._pods[ordinal] for ordinal in sorted(self._pods))

    def __getitem__(self, ordinal: int) -> Pod:
        return self._pods[ordinal]

    def look_up(self, ordinal: int) -> Record:
        """Where the slot is now, and in which life: what a registry or a resolver would answer."""
        return self._pods[ordinal].record

    def at(self, host: str) -> Pod:
        """Who is at this address now."""
        return next(pod for pod in self if pod.record.host == host)

    async def swap_addresses(self, one: int, other: int) -> None:
        """Both pods lose their addresses and come back as themselves with each other's. Their replicas run on."""
        first, second = self[one], self[other]
        moves = ((first, second.record.host), (second, first.record.host))
        async with trio.open_nursery() as nursery:
            for pod, _ in moves:
                nursery.start_soon(pod.leave)
        async with trio.open_nursery() as nursery:
            for pod, host in moves:
                nursery.start_soon(pod.arrive, host, self._files(pod.record.ordinal))

    async def relaunch(self, ordinal: int) -> None:
        """The pod goes, and another one takes its slot at the same address: a new incarnation."""
        record = self.look_up(ordinal)
        await self.end(ordinal)
        await self._start(replace(record, generation=_next(record), instance=new_instance()))

    def move_on(self, ordinal: int) -> None:
        """The pod is reset in place: same process, a new incarnation. Its record says so, and its streams are open."""
        self[ordinal].move_on(_next(self.look_up(ordinal)))

    async def end(self, *ordinals: int) -> None:
        """End these pods, at the same time."""
        async with trio.open_nursery() as nursery:
            for ordinal in ordinals:
                nursery.start_soon(self._pods[ordinal].end)

    async def _start(self, *records: Record) -> None:
        async with trio.open_nursery() as nursery:
            for record in records:
                nursery.start_soon(self._start_one, record)

    async def _start_one(self, record: Record) -> None:
        files = self._files(record.ordinal)
        self._pods[record.ordinal] = await Pod.launch(
            record, self.ports, self.certificates.of_sidecars(), files, self._nursery
        )

    def _files(self, ordinal: int) -> Path:
        """Where the next sidecar of this slot leaves its configuration and log, without their suffixes."""
        self._starts[ordinal] += 1
        return self._directory / f"replica-{ordinal}-start-{self._starts[ordinal]}"


def new_instance() -> Instance:
    """A pod's UID."""
    return Instance(str(uuid.uuid4()))


def _next(record: Record) -> Generation:
    return Generation(record.generation.value + 1)


async def choose_ports() -> Ports:
    """Three ports that are free at every address. Raises DiffersError."""

    async def hold(port: int, host: str) -> int:
        (listener,) = await trio.open_tcp_listeners(port, host=host)
        await held.enter_async_context(listener)
        number: int = listener.socket.getsockname()[1]
        return number

    try:
        async with AsyncExitStack() as held:
            ports = [await hold(0, HOSTS[0]) for _ in range(3)]
            for host in HOSTS[1:]:
                for port in ports:
                    await hold(port, host)
    except OSError as error:  # what the kernel chose at the first address is taken at another, or there is no other
        raise DiffersError("ports on loopback", expected=f"three at {', '.join(HOSTS)}", happened=error) from error
    return Ports(*ports)
