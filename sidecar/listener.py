"""The accept loop.

Owns what needs no byte of the peer: it gives each connection its place in the roster, refuses those whose address may
not connect or for which the house is full, and starts their tasks. It never stops for an error of the kernel: without
descriptors it waits a little and tries again, and says so once a second at most. Knows nothing of claims.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import trio

from sidecar.accept import Accepted, AcceptFailed, Acceptor
from sidecar.bind import BACKLOG
from sidecar.connection import begin
from sidecar.gate import Gate
from sidecar.log import Logger
from sidecar.metrics import Metrics
from sidecar.reasons import Reason, Refused

Host = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

AT_ONCE: Final = 64  # connections taken before whatever else trio has to do gets its turn
BACK_OFF_SECONDS: Final = 0.1  # the kernel keeps the connection queued; trying faster only burns CPU
SAY_AGAIN_SECONDS: Final = 1.0

_MOST_KNOWN: Final = 1024  # hosts of which it is known whether they may connect


@dataclass(frozen=True, slots=True)
class Listener:
    """One configured listener, on as many sockets as its address took."""

    name: str
    sources: Sequence[Network]  # that may connect; empty: all
    gate: Callable[[], Gate]  # the one in effect: a reload may put another in its place
    metrics: Metrics
    logger: Logger
    _known: dict[Host, bool] = field(default_factory=dict, init=False, repr=False)

    async def serve(self, listening: trio.SocketListener, connections: trio.Nursery) -> None:
        """Accept until cancelled; what is accepted lives in *connections* and outlives this call."""
        said_at = float("-inf")
        keepalive: float | None = -1.0  # none yet
        with Acceptor(listening) as acceptor:
            while True:
                await acceptor.wait()
                if keepalive != self.gate().times.keepalive:
                    keepalive = self.gate().times.keepalive
                    acceptor.keep_alive(keepalive)
                try:
                    self._take(acceptor, AT_ONCE, connections)
                except AcceptFailed as failure:
                    self.metrics.accept_error(failure.error)
                    now = trio.current_time()
                    if now - said_at >= SAY_AGAIN_SECONDS:
                        said_at = now
                        self.logger.warning("accept_failed", listener=self.name, error=str(failure))
                    await trio.sleep(BACK_OFF_SECONDS if failure.exhausted else 0)

    def take_last(self, listening: trio.SocketListener, connections: trio.Nursery) -> None:
        """Take those who wait in the kernel's queue: closing it would reset them without a word."""
        with Acceptor(listening) as acceptor:
            for _ in range(BACKLOG):  # who goes on coming must not hold up the end
                with suppress(AcceptFailed):
                    if not self._take(acceptor, 1, connections):
                        break

    def _take(self, acceptor: Acceptor, most: int, connections: trio.Nursery) -> bool:
        """Take those who wait, at most so many. Whether there may be more. Raises AcceptFailed."""
        for _ in range(most):
            accepted = acceptor.accept()
            if accepted is None:
                return False
            self._receive(accepted, connections)
        return True

    def _receive(self, accepted: Accepted, connections: trio.Nursery) -> None:
        gate = self.gate()
        roster = gate.roster
        verdict = None
        if not self._may_connect(accepted):
            verdict = Refused(Reason.SOURCE_NOT_ALLOWED)
        elif roster.full:
            verdict = Refused(Reason.OVER_CAPACITY)
        connection = roster.enter(self.name, accepted.peer, accepted.local, gate.clock())
        gate.metrics.accepted()
        gate.relay.arrived()
        begin(connections, gate, accepted.sock, connection, verdict)

    def _may_connect(self, accepted: Accepted) -> bool:
        if not self.sources or accepted.peer is None:
            return True
        host = accepted.peer.host
        if host not in self._known:  # the same few come again and again, and looking costs microseconds
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[host] = any(host in network for network in self.sources)
        return self._known[host]
