"""One pod of the demo: a replica, and a real sidecar in front of it.

Owns that both begin and end with the pod, and that a replica outlives a move: its sidecar ends and another one starts
at the new address, while the replica runs on and keeps its memory. Which pod moves where is the fleet's.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Self

import trio

from sidecar.demo.front import Front, Ports
from sidecar.demo.record import Record
from sidecar.demo.replica import HOST, Replica
from sidecar.demo.scrape import Counts
from sidecar.identity import Generation


class Pod:
    """A replica and its sidecar, which run in *nursery*.

    Attributes:
        record: which slot and life it is, and where.
        replica: the local process.
        dialled: what the demo did at this address and how it came out, to be compared with what the sidecar counted.
        cut: the streams that were seen to be cut, by cause, for the same.
    """

    def __init__(self, record: Record, replica: Replica, front: Front, nursery: trio.Nursery) -> None:
        self.record = record
        self.replica = replica
        self.dialled: Counter[str] = Counter()
        self.cut: Counter[str] = Counter()
        self._front = front
        self._nursery = nursery
        self._reached_before = 0
        self._resets_before = 0

    @classmethod
    async def launch(cls, record: Record, ports: Ports, certificates: Path, files: Path, nursery: trio.Nursery) -> Self:
        """A pod whose sidecar is ready.

        Args:
            record: what it is.
            ports: its sidecar's.
            certificates: the folder with what that serves.
            files: the path of what it leaves, without suffixes.
            nursery: where both run.
        """
        replica = Replica(record.ordinal, record.generation.value)
        port = await nursery.start(replica.serve)
        front = Front(record, ports, f"{HOST}:{port}", certificates, files)
        await nursery.start(front.run)
        return cls(record, replica, front, nursery)

    async def leave(self) -> None:
        """Give the address up: the sidecar ends, the replica runs on. Raises DiffersError: the end wasn't clean."""
        await self._front.end()

    async def arrive(self, host: str, files: Path) -> None:
        """Come back at *host* after ``leave``, with a new sidecar in front of the same replica. Raises DiffersError."""
        self.record = replace(self.record, host=host)
        self.dialled, self.cut = Counter(), Counter()
        self._reached_before, self._resets_before = self.replica.connections, self.replica.resets
        self._front = self._front.again(self.record, files)
        await self._nursery.start(self._front.run)

    def move_on(self, generation: Generation) -> None:
        """Begin another life in place: the record says it first, then the replica has lost its memory."""
        self.record = replace(self.record, generation=generation)
        self._front.move_on(self.record)
        self.replica.begin_anew(generation.value)

    async def end(self) -> None:
        """End both, as an orderly shutdown does. Raises DiffersError: the sidecar's end wasn't clean."""
        self.replica.end()
        await self._front.end()

    @property
    def pid(self) -> int | None:
        """The sidecar's process id, once it runs."""
        return self._front.pid

    @property
    def reached(self) -> int:
        """How many connections the replica has seen since this sidecar was started."""
        return self.replica.connections - self._reached_before

    @property
    def resets(self) -> int:
        """How many of these connections the replica has seen reset."""
        return self.replica.resets - self._resets_before

    async def counts(self, expected: Counts) -> Counts:
        """What the sidecar has counted; see ``Front.counts``. Raises DiffersError."""
        return await self._front.counts(expected)
