"""The whole life of one connection, from top to bottom: the spine.

:func:`begin` and :func:`serve` tell it: the first verdict (``arrival``: read the preface, decide, ask the authority,
decide), the way to the local process (``passage``: dial, decide again), the answer and the relay; or a refusal with a
reason. The
connection stands in the roster before it is first decided, and is decided on the newest reading after the dial, so that
no change of the assignment can slip between a decision and the moment from which changes reach the connection.

What is refused at once never becomes more than a few calls. The rest is a coroutine that ``eager`` drives: it has a
task only while it must wait for trio, so that a connection that finds everything there costs none, and an admitted one
keeps none.

Time. One budget runs from accept to the verdict (``timeouts.preface``), whatever the peer does with it; the dial has
its own. After the verdict nothing of either is left. A connection can be ended from outside at any moment through its
entry in the roster: before the verdict that is a refusal, after it a cut.

The boundary is here too: a fault in one connection is counted and logged with its traceback, and touches no other.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Final

import trio

from sidecar.admission import Admitted
from sidecar.arrival import at_once, first_verdict
from sidecar.eager import start
from sidecar.gate import Gate, Interrupted, Visit
from sidecar.hand_over import HandedOver
from sidecar.handshake import Wait
from sidecar.metrics import Outcome
from sidecar.passage import Entry, enter
from sidecar.preface.claim import Claim, write_claim
from sidecar.preface.proxy_v2 import write_header
from sidecar.reasons import End, Probe, Reason, Refused
from sidecar.relay import Outcome as RelayOutcome
from sidecar.relay import Pumped
from sidecar.roster import Connection, Step
from sidecar.sockets import Socket, abort, disconnect, give_up_after

_OUR_FAULT: Final = Refused(Reason.INTERNAL_ERROR)
_REFUSED: Final = Outcome.REFUSED


def begin(
    nursery: trio.Nursery, gate: Gate, client: Socket, connection: Connection, verdict: Refused | None = None
) -> None:
    """Take a connection in. What must be waited for, a task of *nursery* waits for.

    Args:
        nursery: where that task lives.
        gate: its listener's.
        client: its socket, which doesn't block.
        connection: its entry in the roster.
        verdict: given where accept has decided already, before the connection could say anything.
    """
    visit = Visit(gate, client, connection)
    try:
        outcome = verdict or at_once(visit)
    except Exception as fault:  # noqa: BLE001  the boundary: a fault is this connection's alone
        gate.journal.fault(connection, fault)
        outcome = _OUR_FAULT
    if outcome is None or isinstance(outcome, Wait):
        start(nursery, serve(visit, outcome))
    elif gate.times.reject_delay and isinstance(outcome, Refused):
        start(nursery, _refuse_slowly(visit, outcome))
    else:
        _refuse(visit, outcome)


async def serve(visit: Visit, outcome: Wait | None) -> None:
    """The way of a connection that has to wait for its verdict, or has passed the first one (None), to the relay.

    Returns when it is there, over, or on its way out; raises nothing but Cancelled.
    """
    gate, connection = visit.gate, visit.connection
    came_to: Refused | Probe | End | None = _OUR_FAULT
    cancelled = True
    try:
        try:
            came_to = await _let_in(visit, outcome)
        except* Exception as faults:  # noqa: BLE001  the boundary, as above
            gate.journal.fault(connection, faults)
            if connection.step is Step.ADMITTED:
                came_to = End.INTERNAL_ERROR
        cancelled = False
    finally:
        if cancelled:
            _leave(visit)
    if isinstance(came_to, End):
        _over(visit, came_to)
    elif came_to is not None:
        await _refuse_slowly(visit, came_to)


async def _let_in(visit: Visit, outcome: Wait | None) -> Refused | Probe | End | None:
    """From the first wait to the relay. None: it is there; a refusal is still to be told to the peer."""
    try:
        verdict = None if outcome is None else await first_verdict(visit, outcome)
        if verdict is not None:
            return verdict
        entry = await enter(visit)
        if isinstance(entry, Refused):
            return entry
    except Interrupted:
        why = visit.connection.ended_by
        assert why is not None, "only end() interrupts"  # noqa: S101
        return why if isinstance(why, End) else Refused(why)
    try:
        _let_go(visit, entry)
    except BaseException:
        _abandon(visit, entry)
        raise
    return None


def _let_go(visit: Visit, entry: Entry) -> None:
    """Give it to the relay, and have it cut there when it is ended from outside."""
    gate, connection = visit.gate, visit.connection
    give_up_after(visit.client, gate.times.user_timeout)
    ended = partial(_relayed, visit, entry)
    if isinstance(entry, HandedOver):
        pumped = gate.relay.watch(
            visit.client,
            before=visit.outer_length + visit.handshake.length,
            owed=entry.owed,
            terms=visit.terms(),
            ended=ended,
        )
    else:
        pumped = gate.relay.pump(
            visit.client,
            entry,
            answer=visit.answer(Admitted(visit.assignment)),
            header=_proxy_header(visit) if gate.send_proxy else b"",
            to_upstream=visit.handshake.take_payload(),
            terms=visit.terms(),
            ended=ended,
            session=visit.session,
        )
    connection.interrupt = partial(_cut, visit, pumped)
    if connection.ended_by is not None:  # said between the last decision and now
        connection.interrupt()


def _cut(visit: Visit, pumped: Pumped) -> None:
    why = visit.connection.ended_by
    visit.gate.relay.cut(pumped, why if isinstance(why, End) else End.INTERNAL_ERROR)


def _relayed(visit: Visit, entry: Entry, outcome: RelayOutcome) -> None:
    """The relay says how it ended. Raises nothing."""
    why = visit.connection.ended_by
    _abandon(visit, entry)
    if outcome.fault is not None:
        visit.gate.journal.fault(visit.connection, outcome.fault)
    # The first word counts, though the pair may have ended by itself before the relay heard of it.
    _over(visit, why if isinstance(why, End) else outcome.end)


def _abandon(visit: Visit, entry: Entry) -> None:
    """Nothing of it is the local process's any more. Does nothing that the relay has done already."""
    if isinstance(entry, HandedOver):
        entry.lifeline.forget(entry.number)
        disconnect(visit.client)
    else:
        abort(entry)


def _over(visit: Visit, end: End) -> None:
    """An admitted connection is over: count it and log it. Raises nothing."""
    gate, connection = visit.gate, visit.connection
    try:
        gate.metrics.ended(end)
        gate.journal.ended(connection, end)
    except Exception as fault:  # noqa: BLE001  it is over all the same
        gate.journal.fault(connection, fault)
    finally:
        _leave(visit)


async def _refuse_slowly(visit: Visit, outcome: Refused | Probe) -> None:
    """Refuse it, after the delay that there may be."""
    delay = visit.gate.times.reject_delay if isinstance(outcome, Refused) else 0.0
    if not delay:
        _refuse(visit, outcome)
        return
    visit.gate.roster.linger(visit.connection)
    _count(visit, outcome)
    try:
        with suppress(trio.TooSlowError):
            await visit.wait(trio.sleep_forever, until=trio.current_time() + delay)
        _take_leave(visit, outcome)
    except Interrupted:
        _leave(visit)
    except BaseException:
        _leave(visit)
        raise


def _refuse(visit: Visit, outcome: Refused | Probe) -> None:
    """Count it, log it, and take leave of the peer. Raises nothing."""
    try:
        visit.gate.roster.linger(visit.connection)
        _count(visit, outcome)
        _take_leave(visit, outcome)
    except Exception as fault:  # noqa: BLE001  what was wrong may be wrong again; it is counted already
        visit.gate.journal.fault(visit.connection, fault)
        _leave(visit)


def _count(visit: Visit, outcome: Refused | Probe) -> None:
    gate, connection = visit.gate, visit.connection
    if isinstance(outcome, Refused):
        gate.metrics.rejected(outcome.reason)
        visit.measure(_REFUSED)
        gate.journal.refused(connection, outcome)
    else:
        gate.metrics.probe(outcome)
        gate.journal.probe(connection, outcome)


def _take_leave(visit: Visit, outcome: Refused | Probe) -> None:
    """Say the last words; the peer's are taken elsewhere."""
    gate, client = visit.gate, visit.client
    last_words = visit.answer(outcome) if isinstance(outcome, Refused) else b""
    try:
        if last_words:
            visit.stream.send(last_words)  # at most 1 KiB, and nothing was sent before: it goes whole
        if visit.session is not None:
            with suppress(OSError):
                visit.session.shutdown()
        if not visit.peer_ended:
            gone = partial(_leave, visit)
            visit.connection.interrupt = gate.parting.leave(client, drain=gate.refusal_drain, gone=gone)
            return
        client.close()
    except OSError:  # who has gone hears nothing
        pass
    _leave(visit)


def _leave(visit: Visit) -> None:
    gate, connection = visit.gate, visit.connection
    abort(visit.client)  # does nothing where it was closed in order
    if gate.exclusive is not None:
        gate.exclusive.leave(connection)
    gate.roster.leave(connection)
    connection.interrupt = connection.admission = None  # else the two keep each other until the collector comes


def _proxy_header(visit: Visit) -> bytes:
    """What the local process is told: who dials, and which life of which slot this is. No TLV is copied."""
    own, connection = visit.assignment, visit.connection
    told = Claim(visit.gate.rules.identity, own.generation, own.instance, connection.epoch, connection.controller)
    return write_header(source=connection.peer, destination=connection.local, tlvs=write_claim(told, answer=False))
