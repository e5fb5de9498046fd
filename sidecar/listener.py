"""The accept loop.

Owns what needs no byte of the peer: it gives each connection its place in the roster, refuses those whose address may
not connect or for which the house is full, and starts their tasks. It never stops for an error of the kernel: without
descriptors it waits a little and tries again, and says so once a second at most. Knows nothing of claims.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import trio

from sidecar.accept import Accepted, AcceptFailed, accept, has_waiting
from sidecar.bind import BACKLOG
from sidecar.connection import serve
from sidecar.gate import Gate
from sidecar.log import Logger
from sidecar.metrics import Metrics
from sidecar.reasons import Reason, Refused

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

BACK_OFF_SECONDS: Final = 0.1  # the kernel keeps the connection queued; trying faster only burns CPU
SAY_AGAIN_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Listener:
    """One configured listener, on as many sockets as its address took."""

    name: str
    sources: Sequence[Network]  # that may connect; empty: all
    gate: Callable[[], Gate]  # the one in effect: a reload may put another in its place
    metrics: Metrics
    logger: Logger

    async def serve(self, listening: trio.SocketListener, connections: trio.Nursery) -> None:
        """Accept until cancelled; the connections' tasks live in *connections* and outlive this call."""
        said_at = float("-inf")
        while True:
            try:
                accepted = await accept(listening)
            except AcceptFailed as failure:
                self.metrics.accept_error(failure.error)
                now = trio.current_time()
                if now - said_at >= SAY_AGAIN_SECONDS:
                    said_at = now
                    self.logger.warning("accept_failed", listener=self.name, error=str(failure))
                await trio.sleep(BACK_OFF_SECONDS if failure.exhausted else 0)
            else:
                self._receive(accepted, connections)

    async def take_last(self, listening: trio.SocketListener, connections: trio.Nursery) -> None:
        """Take those who wait in the kernel's queue: closing it would reset them without a word."""
        for _ in range(BACKLOG):  # who goes on coming must not hold up the end
            if not has_waiting(listening):
                break
            with suppress(AcceptFailed):
                self._receive(await accept(listening), connections)

    def _receive(self, accepted: Accepted, connections: trio.Nursery) -> None:
        gate = self.gate()
        roster = gate.roster
        verdict = None
        if not self._may_connect(accepted):
            verdict = Refused(Reason.SOURCE_NOT_ALLOWED)
        elif roster.full:
            verdict = Refused(Reason.OVER_CAPACITY)
        connection = roster.enter(
            self.name, peer=accepted.peer, local=accepted.local, now=trio.current_time(), refused=verdict is not None
        )
        gate.metrics.accepted()
        connections.start_soon(serve, gate, accepted.stream, connection, verdict)

    def _may_connect(self, accepted: Accepted) -> bool:
        peer = accepted.peer
        return not self.sources or peer is None or any(peer.host in network for network in self.sources)
