"""What the log says of a connection: one line when its fate is settled.

Owns the fields of that line and which level each event has. Knows nothing of how it came to that; called by
``connection``. Refusals go through the rate limit of :class:`~sidecar.log.RefusalLog`, which counts what it leaves out;
counters are elsewhere and exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import trio

from sidecar.assignment import Assignment
from sidecar.authority.source import Authority
from sidecar.identity import Identity
from sidecar.log import Logger, RefusalLog
from sidecar.reasons import End, Probe, Refused
from sidecar.roster import Connection


@dataclass(frozen=True, slots=True)
class Journal:
    """Writes a connection's line."""

    logger: Logger
    refusals: RefusalLog
    own: Identity
    authority: Authority

    def probe(self, connection: Connection, kind: Probe) -> None:
        """It asked for nothing."""
        self.logger.debug("probe", kind=kind, **self._fields(connection))

    def refused(self, connection: Connection, refused: Refused) -> None:
        """It was refused."""
        self.refusals.refused(
            "connection_refused",
            refused.reason,
            detail=refused.detail or None,
            advice=refused.advice,
            **self._fields(connection),
        )

    def shadowed(self, connection: Connection, refused: Refused) -> None:
        """It would have been refused, and the shadow mode lets it through."""
        self.refusals.refused(
            "connection_would_be_refused", refused.reason, detail=refused.detail or None, **self._fields(connection)
        )

    def admitted(self, connection: Connection) -> None:
        """It was let through. Its line comes at its end; this one is for those who watch."""
        self.logger.debug("connection_admitted", **self._fields(connection))

    def ended(self, connection: Connection, end: End) -> None:
        """It was admitted once and has ended."""
        self.logger.info(
            "connection_ended",
            end=end,
            **self._fields(connection),
            bytes_up=connection.traffic.up,
            bytes_down=connection.traffic.down,
        )

    def fault(self, connection: Connection, fault: BaseException) -> None:
        """A fault of ours has ended it."""
        self.logger.error("internal_error", step=connection.step, exc_info=fault, **self._fields(connection))

    def _fields(self, connection: Connection) -> dict[str, object]:
        own, claim = self.authority.newest, connection.claim
        claimed = claim.as_text() if claim is not None else {}
        controller, epoch = claimed.pop("controller", None), claimed.pop("epoch", None)
        return {
            "listener": connection.listener,
            "connection": connection.id,
            "peer": connection.peer,
            "local": connection.local,
            "claimed_source": connection.claimed_source,
            "claim": claimed or None,
            "own": self.own,
            "generation": own.generation if isinstance(own, Assignment) else None,
            "instance": own.instance if isinstance(own, Assignment) else None,
            "controller": controller,
            "epoch": epoch,
            "seconds": round(trio.current_time() - connection.accepted_at, 6),
        }
