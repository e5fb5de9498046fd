"""One pod of the demo: a replica, and a real ``sidecar run`` in front of it, started and ended as one.

Owns the sidecar's configuration, its process and the waiting for it. Where it listens and which life it is comes from
the record; moving pods is the fleet's.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import trio

from sidecar.demo import scrape
from sidecar.demo.difference import DiffersError
from sidecar.demo.leash import Leash
from sidecar.demo.record import Record
from sidecar.demo.replica import HOST, Replica

READY_SECONDS: Final = 30.0  # a start takes well under one, on a machine that isn't busy

_CONFIGURATION: Final = """\
identity: {{cluster: {record.identity.cluster}, replica: {record.identity.replica}, ordinal: {record.ordinal}}}
assignment: {{generation: {record.generation}, instance: "{record.instance}"}}
listeners:
  - name: shard
    listen: "{record.host}:{ports.shard}"
    upstream: "{upstream}"
    tls: none
    answer: full        # a refusal says why to everybody: this is a demo
drain: {{timeout: 1s}}
telemetry: {{listen: "{record.host}:{ports.telemetry}"}}
admin: {{listen: "{record.host}:{ports.admin}"}}
log: {{format: json, level: debug}}
"""


@dataclass(frozen=True, slots=True)
class Ports:
    """The three ports of every sidecar, the same at each address."""

    shard: int
    telemetry: int
    admin: int


class Pod:
    """A replica and its sidecar.

    Attributes:
        record: which slot and life it is, and where.
        replica: the local process.
        dialled: what the demo did here and how it came out, to be compared with what the sidecar has counted.
    """

    def __init__(self, record: Record, ports: Ports, directory: Path, name: str) -> None:
        self.record = record
        self.replica = Replica(record.ordinal, record.generation.value)
        self.dialled: Counter[str] = Counter()
        self._ports = ports
        self._configuration = directory / f"{name}.yaml"
        self._log = directory / f"{name}.log"
        self._process: trio.Process | None = None
        self._scope = trio.CancelScope()
        self._gone = trio.Event()

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Run both until ``end``; ``nursery.start`` returns when the sidecar is ready. Raises DiffersError."""
        try:
            with self._scope:
                async with trio.open_nursery() as nursery:
                    port = await nursery.start(self.replica.serve)
                    await self._run_sidecar(f"{HOST}:{port}", task_status)
        finally:
            self._gone.set()

    async def end(self) -> None:
        """End both, as an orderly shutdown does. Raises DiffersError: the sidecar's end wasn't clean."""
        self._scope.cancel()
        await self._gone.wait()
        if self._process is not None and self._process.returncode != 0:
            raise self._differs("exit code 0", f"it was {self._process.returncode}")

    async def counts(self, expected: scrape.Counts) -> scrape.Counts:
        """What the sidecar has counted, read again for a moment where it isn't *expected* yet. Raises DiffersError.

        A connection that was closed without waiting for anything is counted when the sidecar comes to it.
        """
        host, port = self.record.host, self._ports.telemetry
        try:
            counts = await scrape.counts(host, port)
            with trio.move_on_after(scrape.READ_SECONDS):
                while counts != expected:
                    await trio.sleep(scrape.LOOK_AGAIN_SECONDS)
                    counts = await scrape.counts(host, port)
        except OSError as error:
            raise self._differs("its /metrics", str(error)) from error
        return counts

    @property
    def pid(self) -> int | None:
        """The sidecar's process id, once it runs."""
        return self._process.pid if self._process else None

    async def _run_sidecar(self, upstream: str, task_status: trio.TaskStatus[None]) -> None:
        self._configuration.write_text(_CONFIGURATION.format(record=self.record, ports=self._ports, upstream=upstream))
        command = [sys.executable, "-m", "sidecar", "run", str(self._configuration)]
        with self._log.open("wb") as log, Leash() as leash:
            async with trio.open_nursery() as nursery:
                start = partial(
                    trio.run_process,
                    command,
                    check=False,
                    stdin=leash.child_end,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    process_group=0,  # so that a terminal's Ctrl-C comes to the demo alone, which ends this in order
                )
                self._process = process = await nursery.start(start)
                leash.tie(process.pid)
                await self._wait_ready(process)
                task_status.started()
                await process.wait()
                raise self._differs("to run", f"it ended with code {process.returncode}")

    async def _wait_ready(self, process: trio.Process) -> None:
        with trio.move_on_after(READY_SECONDS):
            while process.returncode is None:
                if await self._is_ready():
                    return
                await trio.sleep(scrape.LOOK_AGAIN_SECONDS)
            raise self._differs("to start", f"it ended with code {process.returncode}")
        raise self._differs("to be ready", f"after {READY_SECONDS:g} seconds it wasn't")

    async def _is_ready(self) -> bool:
        try:
            status, _ = await scrape.page(self.record.host, self._ports.telemetry, "/readyz")
        except OSError:
            return False
        return status == 200

    def _differs(self, expected: str, happened: str) -> DiffersError:
        return DiffersError(f"the sidecar of {self.record}, log {self._log}", expected=expected, happened=happened)
