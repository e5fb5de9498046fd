"""Who is here: every connection from accept to its end.

Owns the places. A connection without a verdict holds a *pending* place; when those are full, the oldest of the source
that holds most gives way, so that a flood from one address can't keep a good controller out. One that passed the first
decision holds one of ``limits.connections``, taken before the local process is dialled. One that was refused *lingers*
for a moment while its reason reaches the peer, and the longest-lingering gives way too.

Knows nothing of bytes, sockets or decisions: it ends a connection by saying so to its :class:`Connection`, and whoever
waits on that connection's behalf (``gate``, ``connection``) does the rest. Called by ``listener``, ``connection`` and,
to drain, ``app``. Everything here is synchronous, so that between two looks nothing changes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address, IPv6Address
from typing import Final, Protocol

import trio

from sidecar.handshake import DRAINING_PREFACE_SECONDS
from sidecar.identity import ControllerName, Epoch
from sidecar.preface.claim import ReceivedClaim
from sidecar.preface.proxy_v2 import Address, InetAddress
from sidecar.reasons import End, Reason
from sidecar.relay import Traffic

_NOTHING: Final = Traffic()  # stands for what hasn't begun, and is never counted in


class Step(StrEnum):
    """How far a connection has come."""

    PREFACE = "preface"  # reading the claim
    AUTHORITY = "authority"  # waiting for the authority
    DIAL = "dial"  # passed the first decision; the local process is being dialled
    ADMITTED = "admitted"
    LEAVING = "leaving"  # refused, or a probe: the last words are on their way to the peer


class Admission(Protocol):
    """What a connection was admitted on."""

    def recheck(self) -> End | None:
        """Decide it again on the newest record: why it doesn't pass any more, or None."""

    def outdated(self) -> End | None:
        """Why the certificate that it rests on doesn't count any more, or None."""

    def spares(self, end: End) -> bool:
        """Whether the shadow mode doesn't make this cut, which is counted then."""


# In Python 3.11 taking a member from its enum is a call, and every connection meets these.
_DIAL: Final = Step.DIAL
_LEAVING: Final = Step.LEAVING
_UNDECIDED: Final = (Step.PREFACE, Step.AUTHORITY)


@dataclass(eq=False)
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
        deadline: When its time up to the verdict is over, on trio's clock.
        traffic: What was relayed so far, once something may be.
        ended_by: Why somebody ended it from outside.
        interrupt: Ends what it waits for now; None: it doesn't wait.
        waits_in: The scope in which its task waits, where it has one.
        controller: Whom the decision took for the dialler, once it has passed.
        epoch: The epoch that was checked, where epochs are.
        admission: What it was admitted on, once it may have reached the local process.
        tls_fault: What was wrong where its TLS handshake failed, for people.
        among: The roster's: those without a verdict that came from the same source, while it is one of them.
    """

    id: int
    listener: str
    peer: InetAddress | None
    local: InetAddress | None
    accepted_at: float
    # What isn't known at accept stands in the class until it is: most of it never is, and setting it costs time.
    step: Step = field(default=Step.PREFACE, init=False)
    claim: ReceivedClaim | None = field(default=None, init=False)
    claimed_source: Address | None = field(default=None, init=False)
    deadline: float = field(default=float("inf"), init=False)
    traffic: Traffic = field(default=_NOTHING, init=False)
    ended_by: Reason | End | None = field(default=None, init=False)
    interrupt: Callable[[], None] | None = field(default=None, init=False)
    waits_in: trio.CancelScope | None = field(default=None, init=False)
    controller: ControllerName | None = field(default=None, init=False)
    epoch: Epoch | None = field(default=None, init=False)
    admission: Admission | None = field(default=None, init=False)
    tls_fault: str = field(default="", init=False)
    among: dict[int, Connection] | None = field(default=None, init=False)

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
        if self.admission is not None and self.admission.spares(end):
            return False
        self.end(end)
        return True

    def end(self, why: Reason | End) -> None:
        """End it from outside: a reason while it has no verdict, an end once admitted. The first word counts."""
        if self.ended_by is None and self.step is not _LEAVING:
            self.ended_by = why
            if self.interrupt is not None:
                self.interrupt()

    def hurry(self, deadline: float) -> None:
        """Give it no longer than that for its verdict."""
        self.deadline = min(self.deadline, deadline)
        if self.waits_in is not None:
            self.waits_in.deadline = min(self.waits_in.deadline, deadline)


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
        self._lingering: dict[int, Connection] = {}
        self._left = trio.lowlevel.ParkingLot()

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Connection]:
        return iter(tuple(self._all.values()))

    @property
    def full(self) -> bool:
        """Whether ``limits.connections`` are admitted, or about to be."""
        return len(self._passed) >= self._connections_limit

    def enter(self, listener: str, peer: InetAddress | None, local: InetAddress | None, now: float) -> Connection:
        """A connection was accepted."""
        connection = Connection(next(self._ids), listener, peer, local, now)
        self._all[connection.id] = connection
        return connection

    def wait(self, connection: Connection) -> None:
        """It has to wait for its verdict: give it a pending place, if need be one of the source that holds most.

        Who is decided at once needs none, and so takes nobody's. Again, or once it was decided: no change.
        """
        if connection.among is not None or connection.step not in _UNDECIDED:
            return
        if self._undecided_count >= self._pending_limit:
            most = max(self._undecided.values(), key=len)
            oldest = next(iter(most.values()))
            self._leave_undecided(oldest)
            oldest.end(Reason.OVER_CAPACITY)
        among = connection.among = self._undecided.setdefault(connection.source, {})
        among[connection.id] = connection
        self._undecided_count += 1

    def comes_from(self, connection: Connection, peer: InetAddress) -> None:
        """It counts against *peer* from now on, for whom somebody who may has dialled."""
        if connection.among is None:
            connection.peer = peer
        else:
            self._leave_undecided(connection)
            connection.peer = peer
            self.wait(connection)

    def take_place(self, connection: Connection) -> bool:
        """Exchange the pending place for one of ``limits.connections``. False: there is none, or it gave way."""
        if len(self._passed) >= self._connections_limit or connection.ended_by is not None:
            return False
        if connection.among is not None:
            self._leave_undecided(connection)
        self._passed[connection.id] = connection
        connection.step = _DIAL
        return True

    def linger(self, connection: Connection) -> None:
        """Its fate is settled and its place free; only its last words are still to reach the peer."""
        if connection.among is not None:
            self._leave_undecided(connection)
        if connection.step is _DIAL:
            del self._passed[connection.id]
            self._left.unpark_all()
        connection.step = _LEAVING
        if len(self._lingering) >= self._lingering_limit:
            longest = self._lingering.pop(next(iter(self._lingering)))
            if longest.interrupt is not None:
                longest.interrupt()
        self._lingering[connection.id] = connection

    def leave(self, connection: Connection) -> None:
        """The connection is gone."""
        number = connection.id
        if connection.among is not None:
            self._leave_undecided(connection)
        self._passed.pop(number, None)
        self._lingering.pop(number, None)
        del self._all[number]
        if self._left:
            self._left.unpark_all()

    def hurry(self, now: float) -> None:
        """The sidecar drains: prefaces that aren't complete get a moment, and no longer the whole budget."""
        for connections in self._undecided.values():
            for connection in connections.values():
                if connection.step is Step.PREFACE:
                    connection.hurry(now + DRAINING_PREFACE_SECONDS)

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
        return self._cut(lambda admission: admission.recheck())

    def cut_outdated(self) -> None:
        """Cut those whose certificate doesn't count any more."""
        self._cut(lambda admission: admission.outdated())

    def cut_all(self, end: End) -> None:
        """Cut all who are admitted."""
        for connection in self._revocable():
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

    def _cut(self, why: Callable[[Admission], End | None]) -> list[Connection]:
        cut = []
        for connection in self._revocable():
            end = why(connection.admission) if connection.admission is not None else None
            if end is not None and connection.cut(end):
                cut.append(connection)
        return cut

    def _revocable(self) -> list[Connection]:
        return [each for each in self._passed.values() if each.admitted or each.admission is not None]

    def _leave_undecided(self, connection: Connection) -> None:
        among, connection.among = connection.among, None
        assert among is not None, "it holds one"  # noqa: S101
        del among[connection.id]
        self._undecided_count -= 1
        if not among:
            del self._undecided[connection.source]
