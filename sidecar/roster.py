"""Who is here: every connection from accept to its end.

Owns the places. A connection without a verdict holds a *pending* place; when those are full, the oldest of the source
that holds most gives way, so that a flood from one address can't keep a good controller out. One that passed the first
decision holds one of ``limits.connections``, taken before the local process is dialled. One that was refused *lingers*
for a moment while its reason reaches the peer, and the longest-lingering gives way too.

Knows nothing of bytes, sockets or decisions: it ends a connection by saying so to its :class:`Connection`, whose task
(``connection``) does the rest. Called by ``listener``, ``connection`` and, to drain, ``app``. Everything here is
synchronous, so that between two looks nothing changes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address, IPv6Address

import trio

from sidecar.handshake import DRAINING_PREFACE_SECONDS
from sidecar.identity import ControllerName, Epoch
from sidecar.preface.claim import ReceivedClaim
from sidecar.preface.proxy_v2 import Address, InetAddress
from sidecar.reasons import End, Reason
from sidecar.relay import Traffic


class Step(StrEnum):
    """How far a connection has come."""

    PREFACE = "preface"  # reading the claim
    AUTHORITY = "authority"  # waiting for the authority
    DIAL = "dial"  # passed the first decision; the local process is being dialled
    ADMITTED = "admitted"
    LEAVING = "leaving"  # refused, or a probe: the last words are on their way to the peer


@dataclass(eq=False, slots=True)
class Connection:
    """One connection: what is known of it, and the handle by which others end it.

    Attributes:
        id: Unique in the process.
        listener: The name of the listener that accepted it.
        peer: The socket's other end; None on a Unix socket.
        local: The socket's own end; None on a Unix socket.
        accepted_at: On trio's clock.
        step: How far it has come.
        claim: What its preface carried, once it is complete.
        claimed_source: The address that the preface gives for the dialler.
        traffic: What was relayed so far.
        scope: Its task's.
        budget: The scope of its time up to the verdict.
        ended_by: Why somebody ended it from outside.
        controller: Whom the decision took for the dialler, once it has passed.
        epoch: The epoch that was checked, where epochs are.
        recheck: Decides it again on the newest record: why it doesn't pass any more, or None.
        spare: Whether the shadow mode doesn't make a cut, which is counted then.
    """

    id: int
    listener: str
    peer: InetAddress | None
    local: InetAddress | None
    accepted_at: float
    step: Step = Step.PREFACE
    claim: ReceivedClaim | None = None
    claimed_source: Address | None = None
    traffic: Traffic = field(default_factory=Traffic)
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    budget: trio.CancelScope = field(default_factory=trio.CancelScope)
    ended_by: Reason | End | None = None
    controller: ControllerName | None = None
    epoch: Epoch | None = None
    recheck: Callable[[], End | None] | None = None
    spare: Callable[[End], bool] | None = None

    @property
    def source(self) -> IPv4Address | IPv6Address | None:
        """Whose pending places it counts against."""
        return self.peer.host if self.peer is not None else None

    @property
    def admitted(self) -> bool:
        """Whether it was let through, and hasn't ended."""
        return self.step is Step.ADMITTED

    def cut(self, end: End) -> bool:
        """Cut it, now that it is admitted and right no more. False: the shadow mode spares it."""
        if self.spare is not None and self.spare(end):
            return False
        self.end(end)
        return True

    def end(self, why: Reason | End) -> None:
        """End it from outside: a reason while it has no verdict, an end once admitted. The first word counts."""
        if self.ended_by is None and self.step is not Step.LEAVING:
            self.ended_by = why
            self.scope.cancel()


class Roster:
    """All connections of the process, by how far they have come."""

    def __init__(self, *, connections: int, pending: int, lingering: int = 1024) -> None:
        self._connections_limit = connections
        self._pending_limit = pending
        self._lingering_limit = lingering
        self._ids = itertools.count(1)
        self._all: dict[int, Connection] = {}
        self._undecided: dict[IPv4Address | IPv6Address | None, dict[int, Connection]] = {}  # by source; oldest first
        self._undecided_count = 0
        self._passed: dict[int, Connection] = {}
        self._lingering: dict[int, trio.CancelScope] = {}
        self._left = trio.lowlevel.ParkingLot()

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Connection]:
        return iter(tuple(self._all.values()))

    @property
    def full(self) -> bool:
        """Whether ``limits.connections`` are admitted, or about to be."""
        return len(self._passed) >= self._connections_limit

    def enter(
        self,
        listener: str,
        *,
        peer: InetAddress | None,
        local: InetAddress | None,
        now: float,
        refused: bool = False,
    ) -> Connection:
        """Give an accepted connection a pending place, by taking one from the source that holds most if need be.

        One that was refused at accept needs none, and mustn't take anybody's.
        """
        connection = Connection(next(self._ids), listener, peer, local, now)
        self._all[connection.id] = connection
        if refused:
            return connection
        if self._undecided_count >= self._pending_limit:
            most = max(self._undecided.values(), key=len)
            oldest = next(iter(most.values()))
            self._leave_undecided(oldest)
            oldest.end(Reason.OVER_CAPACITY)
        self._undecided.setdefault(connection.source, {})[connection.id] = connection
        self._undecided_count += 1
        return connection

    def take_place(self, connection: Connection) -> bool:
        """Exchange the pending place for one of ``limits.connections``. False: there is none, or it gave way."""
        if self.full or connection.ended_by is not None:
            return False
        self._leave_undecided(connection)
        self._passed[connection.id] = connection
        connection.step = Step.DIAL
        return True

    def linger(self, connection: Connection) -> trio.CancelScope:
        """Its fate is settled and its place free; only its last words are still to reach the peer, in this scope."""
        self._leave_undecided(connection)
        self._passed.pop(connection.id, None)
        connection.step = Step.LEAVING
        if len(self._lingering) >= self._lingering_limit:
            longest = next(iter(self._lingering))
            self._lingering.pop(longest).cancel()
        self._left.unpark_all()
        scope = self._lingering[connection.id] = trio.CancelScope()
        return scope

    def leave(self, connection: Connection) -> None:
        """The connection is gone."""
        self._leave_undecided(connection)
        self._passed.pop(connection.id, None)
        self._lingering.pop(connection.id, None)
        del self._all[connection.id]
        self._left.unpark_all()

    def hurry(self, now: float) -> None:
        """The sidecar drains: prefaces that aren't complete get a moment, and no longer the whole budget."""
        for connections in self._undecided.values():
            for connection in connections.values():
                if connection.step is Step.PREFACE:
                    connection.budget.deadline = min(connection.budget.deadline, now + DRAINING_PREFACE_SECONDS)

    def end_passed(self, end: End) -> None:
        """A cut for the admitted, a refusal for those about to be. Nobody else is touched."""
        for connection in tuple(self._passed.values()):
            connection.end(end if connection.admitted else Reason.DRAINING)

    async def decide_again(self) -> None:
        """Cut those who don't pass any more, and wait until they are gone."""
        for connection in self.cut_wrong():
            await self.wait_ended(connection)

    def cut_wrong(self) -> list[Connection]:
        """Cut those who don't pass any more: these."""
        cut = []
        for connection in self._admitted():
            end = connection.recheck() if connection.recheck is not None else None
            if end is not None and connection.cut(end):
                cut.append(connection)
        return cut

    def cut_all(self, end: End) -> None:
        """Cut all who are admitted."""
        for connection in self._admitted():
            connection.cut(end)

    async def wait_ended(self, connection: Connection) -> None:
        """Wait until a connection that was admitted is so no more: both of its sockets are closed."""
        while connection.id in self._passed:
            await self._left.park()

    def resize(self, *, connections: int, pending: int) -> None:
        """New limits, for those who come from now on."""
        self._connections_limit = connections
        self._pending_limit = pending

    async def wait_none_passed(self) -> None:
        """Wait until none is admitted, or about to be."""
        while self._passed:
            await self._left.park()

    async def wait_empty(self) -> None:
        """Wait until nobody is here."""
        while self._all:
            await self._left.park()

    def _admitted(self) -> list[Connection]:
        return [connection for connection in self._passed.values() if connection.admitted]

    def _leave_undecided(self, connection: Connection) -> None:
        same_source = self._undecided.get(connection.source)
        if same_source is None or connection.id not in same_source:
            return
        del same_source[connection.id]
        self._undecided_count -= 1
        if not same_source:
            del self._undecided[connection.source]
