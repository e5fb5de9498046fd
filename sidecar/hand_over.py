"""Letting the local process take a connection over.

What is dialled elsewhere is offered here. From the moment it is offered it counts as revocable: the receiver may have
taken it, and told the dialler so, before this side hears of it. So whatever a change revokes meanwhile is cut as if it
were admitted, and is counted so; and where the receiver says nothing, the connection is cut without a word, since a
reason sent by us could follow an ``admitted`` sent by the receiver. Only where the receiver says that it hasn't taken
it, the dialler is told why.

Owns the order of these steps, and what each outcome amounts to. Called by ``passage``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import trio

from sidecar.admission import Admitted
from sidecar.eager import Resume, parked
from sidecar.gate import Interrupted, Visit
from sidecar.handoff_format import Introduction, Reply, write_packet
from sidecar.lifeline import Fate, Lifeline, NotHandedOver
from sidecar.reasons import End, Reason, Refused
from sidecar.sockets import disconnect


@dataclass(frozen=True, slots=True)
class HandedOver:
    """The local process has the connection, until it ends or the lifeline does."""

    lifeline: Lifeline
    number: int
    owed: int  # bytes of the answer, which the local process sends for us


class _Answer:
    """What the receiver says, which may be before somebody waits for it."""

    __slots__ = ("_resume", "value")

    def __init__(self) -> None:
        self._resume: Resume[None] | None = None
        self.value: Reply | Fate | None = None  # None: the connection was ended from outside

    def give(self, value: Reply | Fate | None) -> None:
        self.value = value
        resume, self._resume = self._resume, None
        if resume is not None:
            resume(None)

    def wait(self, resume: Resume[None]) -> None:
        self._resume = resume


async def offer(
    visit: Visit, lifeline: Lifeline, *, refused_now: Callable[[], Refused | None], admit: Callable[[], None]
) -> Refused | HandedOver:
    """Offer it to the receiver, and wait for its answer. Raises Interrupted.

    Args:
        visit: the connection's.
        lifeline: the way to the receiver.
        refused_now: decides on what is newest.
        admit: called once the local process has it.
    """
    connection, answer = visit.connection, _Answer()
    until = trio.current_time() + visit.gate.times.connect
    number: int | None = None
    owed = b""
    while number is None:
        refused = refused_now()
        if refused is not None:
            return refused
        try:
            owed = visit.answer(Admitted(visit.assignment))
            packet = _packet(visit, lifeline, owed)
            number = lifeline.offer(visit.client, packet, expires_at=until, answered=answer.give)
            if number is None:
                await visit.wait(lifeline.wait_room, until=until)
        except NotHandedOver as error:
            return Refused(Reason.UPSTREAM_UNAVAILABLE, str(error))
        except trio.TooSlowError:
            return Refused(Reason.UPSTREAM_UNAVAILABLE, f"{visit.gate.upstream}: the receiver takes nothing")
    connection.admission = visit  # revocable from now on
    visit.handshake.take_payload()
    connection.interrupt = lambda: answer.give(None)
    await parked(answer.wait)
    connection.interrupt = None
    if isinstance(answer.value, Reply):
        if answer.value.refusal is None:
            lifeline.follow(number, lambda: connection.end(End.UPSTREAM_RESET))
            admit()
            return HandedOver(lifeline, number, len(owed))
        connection.admission = None
        return Refused(Reason.UPSTREAM_UNAVAILABLE, f"{visit.gate.upstream}: {answer.value.refusal.words}")
    disconnect(visit.client)
    if answer.value is not None:
        connection.admission = None
        return Refused(Reason.UPSTREAM_UNAVAILABLE, f"{visit.gate.upstream}: {answer.value.value}")
    lifeline.withdraw(number)
    if isinstance(connection.ended_by, End):
        admit()
    raise Interrupted


def _packet(visit: Visit, lifeline: Lifeline, owed: bytes) -> bytes:
    connection, own, handshake = visit.connection, visit.assignment, visit.handshake
    return write_packet(
        Introduction(
            number=lifeline.next_number,
            identity=visit.gate.rules.identity,
            generation=own.generation,
            instance=own.instance,
            epoch=visit.believed_epoch,
            controller=visit.believed_controller,
            peer=connection.peer,
            local=connection.local,
            answer=owed,
            first=handshake.payload,
        )
    )
