"""One real ``sidecar run`` of the demo, in front of a replica at an address.

Owns its configuration, the file that says its generation, its process, and the waiting for it. Which slot and life it
stands for, and where it listens, comes from the record; which replica it guards, from the pod that starts it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import trio

from sidecar.demo import scrape
from sidecar.demo.certificates import ALLOW
from sidecar.demo.difference import DiffersError
from sidecar.demo.leash import Leash
from sidecar.demo.record import Record
from sidecar.demo.volume import MountedFile

READY_SECONDS: Final = 30.0  # a start takes well under one, on a machine that isn't busy
POLL_MILLISECONDS: Final = 200  # between two looks at the file

_CONFIGURATION: Final = """\
identity: {{cluster: {record.identity.cluster}, replica: {record.identity.replica}, ordinal: {record.ordinal}}}
assignment: {{generation: {{file: {file}}}, instance: "{record.instance}", poll_interval: {poll}ms}}
listeners:
  - name: shard
    listen: "{record.host}:{ports.shard}"
    upstream: "{upstream}"
    concurrency: exclusive
tls: {{certificate: "{tls}/tls.crt", key: "{tls}/tls.key", client_ca: "{tls}/ca.crt", allow: ["{allow}"]}}
drain: {{timeout: 200ms}}
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


class Front:
    """A sidecar process, from its start to its end.

    Args:
        record: whose slot and life it holds, and where it listens.
        ports: its ports at that address.
        upstream: the replica's address.
        certificates: the folder with what it serves.
        files: the path of what it reads and its log, without their suffixes.
    """

    def __init__(self, record: Record, ports: Ports, upstream: str, certificates: Path, files: Path) -> None:
        self._record = record
        self._ports = ports
        self._upstream = upstream
        self._certificates = certificates
        self._configuration = files.with_name(f"{files.name}.yaml")
        self._generation = MountedFile(files.with_name(f"{files.name}-volume") / "generation")
        self._log = files.with_name(f"{files.name}.log")
        self._process: trio.Process | None = None
        self._scope = trio.CancelScope()
        self._gone = trio.Event()

    def again(self, record: Record, files: Path) -> Front:
        """Another one, in front of the same replica."""
        return Front(record, self._ports, self._upstream, self._certificates, files)

    @property
    def pid(self) -> int | None:
        """Its process id, once it runs."""
        return self._process.pid if self._process else None

    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Run it until ``end``; ``nursery.start`` returns when it is ready. Raises DiffersError."""
        try:
            with self._scope:
                await self._run(task_status)
        finally:
            self._gone.set()

    async def end(self) -> None:
        """End it, as an orderly shutdown does. Raises DiffersError: its end wasn't clean."""
        self._scope.cancel()
        await self._gone.wait()
        if self._process is not None and self._process.returncode != 0:
            raise self._differs("exit code 0", f"it was {self._process.returncode}")

    def move_on(self, record: Record) -> None:
        """Let the file say *record*'s generation; the sidecar comes to see it by itself."""
        self._record = record
        self._generation.publish(str(record.generation))

    async def counts(self, expected: scrape.Counts) -> scrape.Counts:
        """What it has counted, read again for a moment where it isn't *expected* yet. Raises DiffersError.

        A connection that was closed without waiting for anything is counted when the sidecar comes to it.
        """
        host, port = self._record.host, self._ports.telemetry
        try:
            counts = await scrape.counts(host, port)
            with trio.move_on_after(scrape.READ_SECONDS):
                while counts != expected:
                    await trio.sleep(scrape.LOOK_AGAIN_SECONDS)
                    counts = await scrape.counts(host, port)
        except OSError as error:
            raise self._differs("its /metrics", str(error)) from error
        return counts

    async def _run(self, task_status: trio.TaskStatus[None]) -> None:
        self.move_on(self._record)
        self._configuration.write_text(
            _CONFIGURATION.format(
                record=self._record,
                file=json.dumps(str(self._generation.path)),  # a JSON string is a YAML one, whatever is in it
                poll=POLL_MILLISECONDS,
                ports=self._ports,
                upstream=self._upstream,
                tls=json.dumps(str(self._certificates))[1:-1],
                allow=ALLOW,
            )
        )
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
            status, _ = await scrape.page(self._record.host, self._ports.telemetry, "/readyz")
        except OSError:
            return False
        return status == 200

    def _differs(self, expected: str, happened: str) -> DiffersError:
        return DiffersError(f"the sidecar of {self._record}, log {self._log}", expected=expected, happened=happened)
