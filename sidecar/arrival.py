"""From accept to the first verdict: read the preface, decide, ask the authority, decide.

Owns the order of these steps and the one budget over them; what each step makes of bytes and readings is
``handshake``'s to say. What is there already is taken at once; only what isn't is waited for. Called by ``connection``.
"""

from __future__ import annotations

from typing import Final

import trio

from sidecar.admission import Admitted, State
from sidecar.assignment import Reading, Unavailable
from sidecar.gate import Visit
from sidecar.handshake import DRAINING_PREFACE_SECONDS, Wait
from sidecar.metrics import Basis, Stage
from sidecar.outer import introduced
from sidecar.reasons import Probe, Reason, Refused, TlsFailure
from sidecar.roster import Step
from sidecar.sockets import receive_now
from sidecar.tls.session import NothingSaid, Session, ShakeFailed, ShakeWait

_AHEAD_LOOK_SECONDS: Final = 0.1  # between two reads for a claim that is ahead of the authority
_PREFACE_CHUNK: Final = 4096  # a preface is at most this long; more would only wait in memory

# In Python 3.11 taking a member from its enum is a call, and every connection meets these.
_OUTER: Final = Wait.OUTER
_TLS: Final = Wait.TLS
_BYTES: Final = Wait.BYTES
_FROM_AUTHORITY: Final = Wait.AUTHORITY
_PREFACE: Final = Stage.PREFACE
_ASKING: Final = Step.AUTHORITY
_AHEAD: Final = Reason.GENERATION_AHEAD


Outcome = Wait | Refused | Probe | None  # None: it passed, and has a place


def at_once(visit: Visit) -> Outcome:
    """As far as it comes with what is there already."""
    gate, connection = visit.gate, visit.connection
    state = gate.state()
    if state.draining:  # for those who are here when a drain begins, the roster does it
        connection.hurry(connection.accepted_at + DRAINING_PREFACE_SECONDS)
    if gate.outer_sources is not None:
        return _OUTER
    if gate.prover is not None:
        return _TLS
    outcome = _first_look(visit, state)
    return outcome if isinstance(outcome, Wait) else _settled(visit, outcome)


def _first_look(visit: Visit, state: State) -> Outcome:
    gate = visit.gate
    outcome: Outcome = _look(visit, state)
    if outcome is _FROM_AUTHORITY:
        reading = gate.authority.read_now()
        if reading is not None:
            verdict = visit.handshake.decide(reading, state)
            if isinstance(verdict, Admitted):
                outcome = None
            elif verdict.reason is not _AHEAD or not gate.times.ahead:
                outcome = verdict
    return outcome


async def first_verdict(visit: Visit, outcome: Wait) -> Refused | Probe | None:
    """The first verdict, once what *outcome* names has been waited for. Raises Interrupted."""
    gate, connection = visit.gate, visit.connection
    verdict: Outcome = outcome
    try:
        if verdict is _OUTER:
            verdict = await introduced(visit, gate.outer_sources or ())
            verdict = verdict or (_TLS if gate.prover is not None else _first_look(visit, gate.state()))
        if verdict is _TLS:
            verdict = await _shake(visit) or _first_look(visit, gate.state())
        if verdict is _BYTES:
            verdict = await _wait_for_preface(visit)
        if verdict is _FROM_AUTHORITY:
            verdict = await _ask_authority(visit)
    except trio.TooSlowError:
        verdict = visit.meanwhile or visit.handshake.out_of_time(draining=connection.deadline < visit.ends_at)
    assert not isinstance(verdict, Wait), "each has been waited for"  # noqa: S101
    return _settled(visit, verdict)


async def _shake(visit: Visit) -> Refused | Probe | None:
    """Go through the TLS handshake. None: it is done, and what it proves is known. Raises Interrupted."""
    gate, connection, prover = visit.gate, visit.connection, visit.gate.prover
    assert prover is not None, "the listener has TLS"  # noqa: S101
    served, began_at = prover.served, visit.began_at
    if served is None:
        return visit.tls_failed(TlsFailure.CERT_NOT_YET_VALID, "this side's own certificate isn't valid yet")
    try:
        session = Session(served.context, visit.client)
        while (wait := session.shake(prover.wall_clock)) is not None:
            ready = trio.lowlevel.wait_readable if wait is ShakeWait.READABLE else trio.lowlevel.wait_writable
            await visit.wait(ready, visit.client, until=connection.deadline)
        visit.prove(session, *prover.proved(session, served))
    except NothingSaid:
        visit.peer_ended = True
        return Probe.CLOSED_BEFORE_PREFACE
    except trio.TooSlowError:
        if connection.deadline < visit.ends_at:
            return Refused(Reason.DRAINING)
        return visit.tls_failed(TlsFailure.TIMEOUT, "no handshake in time")
    except ShakeFailed as failure:
        return visit.tls_failed(failure.cause, str(failure))
    gate.metrics.handshake_took(Stage.TLS, visit.began_at - began_at)
    return None


def _settled(visit: Visit, verdict: Refused | Probe | None) -> Refused | Probe | None:
    """The verdict, when the shadow mode and the number of places have had their say."""
    if isinstance(verdict, Refused) and visit.handshake.claim is None and visit.handshake.peer.fault:
        # The rows of the shadow mode stand above that of the certificate, which it doesn't let through.
        return Refused(Reason.PEER_NOT_ALLOWED, visit.handshake.peer.fault) if visit.lets_through(verdict) else verdict
    if isinstance(verdict, Refused) and visit.shadow_passes(verdict):
        verdict = None
    if verdict is None and not visit.gate.roster.take_place(visit.connection):
        return Refused(Reason.OVER_CAPACITY)
    return verdict


def _look(visit: Visit, state: State, *, waited: bool = False) -> Wait | Refused | Probe:
    """Take what has come, and say what that amounts to."""
    gate, handshake = visit.gate, visit.handshake
    data = receive_now(visit.stream, _PREFACE_CHUNK)
    if data is None:
        return _BYTES
    outcome = handshake.receive(data, state)
    if handshake.claim is not None:
        connection = visit.connection
        connection.claim, connection.claimed_source = handshake.claim, handshake.claimed_source
        visit.claimed_at = gate.clock() if waited else visit.began_at
        gate.metrics.handshake_took(_PREFACE, visit.claimed_at - visit.began_at)
    elif not data:
        visit.peer_ended = True
    return outcome


async def _wait_for_preface(visit: Visit) -> Wait | Refused | Probe:
    """Wait until a look has come to something. Raises TooSlowError when the budget is over."""
    connection, gate = visit.connection, visit.gate
    patience = gate.clock() + gate.times.shadow if gate.shadow else float("inf")  # for the first byte
    outcome: Wait | Refused | Probe = _BYTES
    while outcome is _BYTES:
        try:
            until = min(patience, connection.deadline)
            await visit.wait(trio.lowlevel.wait_readable, visit.client, until=until)
        except trio.TooSlowError:
            if patience < connection.deadline:  # the shadow mode takes it for a client without preface
                return Refused(Reason.PREFACE_MISSING, "silence")
            raise
        patience = float("inf")
        outcome = _look(visit, gate.state(), waited=True)
    return outcome


async def _ask_authority(visit: Visit) -> Refused | None:
    """None: the claim is right."""
    gate, connection = visit.gate, visit.connection
    connection.step = _ASKING
    waits_until: float | None = None
    while True:
        reading = gate.authority.read_now() or await _read(visit)
        verdict = visit.handshake.decide(reading, gate.state())
        if isinstance(verdict, Admitted) or (isinstance(reading, Unavailable) and _last_known_admits(visit)):
            return None
        if verdict.reason is not _AHEAD:
            return verdict
        now = gate.clock()
        waits_until = waits_until or now + gate.times.ahead
        if now >= waits_until:
            return verdict
        visit.meanwhile = verdict
        await visit.wait(trio.sleep, min(_AHEAD_LOOK_SECONDS, waits_until - now), until=connection.deadline)


async def _read(visit: Visit) -> Reading:
    gate, connection = visit.gate, visit.connection
    until = gate.clock() + gate.times.authority
    try:
        return await visit.wait(gate.authority.read, until=min(until, connection.deadline))
    except trio.TooSlowError:
        if until < connection.deadline:
            return Unavailable("no answer in time")
        raise


def _last_known_admits(visit: Visit) -> bool:
    """Whether the remembered assignment, where there may be one, admits. It never refuses."""
    gate = visit.gate
    known = gate.authority.last_known()
    if known is None:
        return False
    verdict = visit.handshake.decide(known, gate.state())
    if isinstance(verdict, Admitted):
        visit.basis = Basis.LAST_KNOWN
        return True
    if verdict.reason is Reason.GENERATION_AHEAD:
        gate.authority.forget()  # there may be a newer life, and what is remembered is of an older one
    return False
