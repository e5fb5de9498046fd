"""What the HTTP servers may see of the process, and do to it.

Owns the translation from the flow's objects to what ``telemetry`` and ``admin`` show; decides nothing. Built by
``app``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import trio

from sidecar.admin import ConnectionStatus, ListenerStatus, Status
from sidecar.assignment import Assignment
from sidecar.authority.source import Authority
from sidecar.identity import Identity
from sidecar.lifecycle import Lifecycle
from sidecar.log import RefusalLog
from sidecar.metrics import Metrics
from sidecar.reload import Reload
from sidecar.roster import Connection, Roster


@dataclass(frozen=True, slots=True)
class ProcessControl:
    """Implements ``telemetry.Health`` and ``admin.Control``."""

    identity: Identity
    authority: Authority
    lifecycle: Lifecycle
    roster: Roster
    metrics: Metrics
    log: RefusalLog
    addresses: Mapping[str, Sequence[str]]  # by listener
    configuration: Reload

    def started(self) -> bool:
        """Whether the configuration is loaded and every listener bound."""
        return self.lifecycle.started

    def not_ready(self) -> Sequence[str]:
        """What stands in the way of readiness."""
        return self.lifecycle.not_ready()

    def status(self) -> Status:
        """How things are at this moment."""
        newest = self.authority.newest
        own = newest if isinstance(newest, Assignment) else Assignment()
        return Status(
            identity=str(self.identity),
            generation=own.generation.value if own.generation else None,
            instance=str(own.instance) if own.instance else None,
            state=self.lifecycle.state,
            not_ready=self.lifecycle.not_ready(),
            draining=self.lifecycle.refusing,
            listeners=[
                ListenerStatus(name, addresses, self.metrics.listener(name).counts())
                for name, addresses in self.addresses.items()
            ],
            connections=[_connection(each) for each in self.roster],
        )

    def refusals(self) -> Sequence[Mapping[str, object]]:
        """The last refusals, oldest first."""
        return self.log.recent()

    def drain(self) -> None:
        """Refuse new claims from now on."""
        self.lifecycle.drain()

    async def reload(self) -> list[str]:
        """Read the configuration again. What is wrong with it; empty: it is in effect."""
        return await self.configuration.from_file()

    def shutdown(self) -> None:
        """Begin the orderly end."""
        self.lifecycle.shutdown()


def _connection(connection: Connection) -> ConnectionStatus:
    return ConnectionStatus(
        id=connection.id,
        listener=connection.listener,
        peer=str(connection.peer or "unix"),
        local=str(connection.local or "unix"),
        claim=connection.claim.as_text() if connection.claim is not None else {},
        state=connection.step,
        seconds=round(trio.current_time() - connection.accepted_at, 3),
        bytes_up=connection.traffic.up,
        bytes_down=connection.traffic.down,
    )
