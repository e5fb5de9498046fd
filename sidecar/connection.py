"""The whole life of one connection, from top to bottom: the spine.

:func:`serve` tells it: the first verdict (``arrival``: read the preface, decide, ask the authority, decide), the way to
the local process (``passage``: dial, decide again), the answer and the relay; or a refusal with a reason. The
connection stands in the roster before it is first decided, and is decided on the newest reading after the dial, so that
no change of the assignment can slip between a decision and the moment from which changes reach the connection.

Time. One budget runs from accept to the verdict (``timeouts.preface``), whatever the peer does with it; the dial has
its own. After the verdict nothing of either is left. A connection can be ended from outside at any moment through its
entry in the roster: before the verdict that is a refusal, after it a cut.

A refusal is orderly: the answer, the end of our sending, then what the peer still sends is taken and thrown away for a
moment, since closing a socket with unread input makes the kernel send an RST, which would eat the reason.

The boundary is here too: a fault in one connection is counted and logged with its traceback, and touches no other.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import trio

from sidecar.admission import Admitted
from sidecar.arrival import first_verdict
from sidecar.gate import Gate, Visit
from sidecar.metrics import Outcome
from sidecar.passage import enter
from sidecar.preface.claim import Claim, write_claim
from sidecar.preface.proxy_v2 import write_header
from sidecar.reasons import End, Probe, Reason, Refused
from sidecar.relay import CHUNK, Direction, relay
from sidecar.roster import Connection, Step
from sidecar.sockets import abort, tune

REFUSAL_SECONDS: Final = 1.0  # for the reason to reach the peer and its unread input to be taken


async def serve(gate: Gate, client: trio.SocketStream, connection: Connection, verdict: Refused | None = None) -> None:
    """One connection's life. Returns when it is over and its sockets are closed; raises nothing but Cancelled.

    Args:
        gate: its listener's.
        client: its socket.
        connection: its entry in the roster.
        verdict: given where accept has decided already, before the connection could say anything.
    """
    visit = Visit(gate, client, connection)
    outcome: Refused | Probe | End = verdict or Refused(Reason.INTERNAL_ERROR)
    try:
        if verdict is None:
            try:
                outcome = await _live(visit)
            except* Exception as faults:  # noqa: BLE001  the boundary: a fault is this connection's alone
                gate.journal.fault(connection, faults)
                outcome = End.INTERNAL_ERROR if connection.step is Step.ADMITTED else outcome
        await _settle(visit, outcome)
    except* Exception as faults:  # noqa: BLE001  what was wrong may be wrong again; it is counted already
        gate.journal.fault(connection, faults)
    finally:
        abort(client)  # does nothing where it was closed in order
        if gate.exclusive is not None:
            gate.exclusive.leave(connection)
        gate.roster.leave(connection)


async def _live(visit: Visit) -> Refused | Probe | End:
    """From the first byte to the last: how it came out. A refusal is still to be told to the peer."""
    connection = visit.connection
    outcome: Refused | Probe | End | None = None
    with connection.scope:
        outcome = await first_verdict(visit) or await _pass_on(visit)
    if outcome is not None:
        return outcome
    why = connection.ended_by
    assert why is not None, "only end() cancels this scope"  # noqa: S101
    return why if isinstance(why, End) else Refused(why)


async def _pass_on(visit: Visit) -> Refused | End:
    gate, client = visit.gate, visit.client
    upstream = await enter(visit)
    if isinstance(upstream, Refused):
        return upstream
    try:
        for stream in (client, upstream):
            tune(stream, keepalive=gate.times.keepalive, user_timeout=gate.times.user_timeout)
        return await relay(
            client,
            upstream,
            header=_proxy_header(visit) if gate.send_proxy else b"",
            to_upstream=visit.handshake.payload,
            answer=visit.answer(Admitted(visit.assignment)),
            times=gate.relay_times,
            traffic=visit.connection.traffic,
            count=lambda direction, size: _count(gate, direction, size),
        )
    finally:
        abort(upstream)  # does nothing where the relay has closed it


async def _settle(visit: Visit, outcome: Refused | Probe | End) -> None:
    """Count it, log it, and take leave of the peer."""
    gate, connection = visit.gate, visit.connection
    last_words, delay = b"", 0.0
    if isinstance(outcome, Refused):
        gate.metrics.rejected(outcome.reason)
        visit.measure(Outcome.REFUSED)
        gate.journal.refused(connection, outcome)
        last_words, delay = visit.answer(outcome), gate.times.reject_delay
    elif isinstance(outcome, Probe):
        gate.metrics.probe(outcome)
        gate.journal.probe(connection, outcome)
    else:
        gate.metrics.ended(outcome)
        gate.journal.ended(connection, outcome)
        return
    await _take_leave(visit, last_words, delay)


async def _take_leave(visit: Visit, last_words: bytes, delay: float) -> None:
    """Let the peer read what we have to say before the socket goes."""
    client = visit.client
    scope = visit.gate.roster.linger(visit.connection)
    scope.deadline = trio.current_time() + delay + REFUSAL_SECONDS
    with scope, suppress(trio.BrokenResourceError):
        await trio.sleep(delay)
        if last_words:
            await client.send_all(last_words)
        await client.send_eof()
        left = visit.gate.refusal_drain
        while left > 0 and (data := await client.receive_some(min(CHUNK, left))):
            left -= len(data)
    client.socket.close()


def _proxy_header(visit: Visit) -> bytes:
    """What the local process is told: who dials, and which life of which slot this is. No TLV is copied."""
    own, connection = visit.assignment, visit.connection
    told = Claim(visit.gate.rules.identity, own.generation, own.instance, connection.epoch, connection.controller)
    return write_header(source=connection.peer, destination=connection.local, tlvs=write_claim(told, answer=False))


def _count(gate: Gate, direction: Direction, size: int) -> None:
    (gate.metrics.forwarded_up if direction is Direction.UP else gate.metrics.forwarded_down).inc(size)
