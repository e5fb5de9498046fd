"""From the first verdict to the local process: takeover, floor, dial, and the last decision.

A takeover is one turn: decided, the old connection cut and gone, the local process dialled, decided once more; nobody
else takes over meanwhile. A connection that is refused on the way has disturbed nobody, but for the one case that can't
be helped: the dial fails after the cut. That is counted apart.

Owns the order of these steps. Called by ``connection``.
"""

from __future__ import annotations

import trio

from sidecar.assignment import Unavailable
from sidecar.config import Handoff
from sidecar.exclusive import Exclusive
from sidecar.gate import Visit
from sidecar.hand_over import HandedOver, offer
from sidecar.metrics import Basis, Outcome
from sidecar.reasons import End, Reason, Refused, TlsFailure
from sidecar.roster import Step
from sidecar.sockets import Socket, abort, give_up_after, keep_alive
from sidecar.upstream import UpstreamUnavailable, connect, connect_now

Entry = Socket | HandedOver  # the local process's connection, or its word that it has this one


async def enter(visit: Visit) -> Refused | Entry:
    """The way in to the local process, once the connection is admitted to it. Raises Interrupted."""
    exclusive = visit.gate.exclusive
    if exclusive is None or visit.basis is Basis.SHADOW:
        return await _raise_epoch(visit) or await _dial(visit)
    try:
        exclusive.turn.acquire_nowait()
    except trio.WouldBlock:
        try:
            await visit.wait(exclusive.turn.acquire, until=visit.ends_at)
        except trio.TooSlowError:
            return Refused(Reason.EXCLUSIVE_CONFLICT, "others are taking over")
    try:
        return await _take_over(visit, exclusive)
    finally:
        exclusive.turn.release()


async def _take_over(visit: Visit, exclusive: Exclusive) -> Refused | Entry:
    gate = visit.gate
    # While it waited for its turn, the place may have changed hands. And whatever can refuse it comes before the cut.
    holder = exclusive.holder
    refused = _refused_now(visit) or await _raise_epoch(visit)
    if refused is not None:
        return refused
    if holder is not None and holder.ended_by is None and exclusive.holder is not holder:
        holder = None  # it has left by itself while the floor was raised
    if holder is None or visit.basis is Basis.SHADOW:
        return await _dial(visit)
    epoch = visit.checked_epoch
    by_epoch = epoch is not None and holder.epoch is not None and epoch > holder.epoch
    if holder.id > visit.connection.id and not by_epoch:  # it took long, and its dialler has come again meanwhile
        return Refused(Reason.EXCLUSIVE_CONFLICT, "a newer connection holds the place")
    if not holder.cut(End.SUPERSEDED):
        return await _dial(visit)
    exclusive.taken_over(by_epoch=by_epoch)
    await visit.wait(gate.roster.wait_ended, holder, until=float("inf"))
    upstream = await _dial(visit)
    if isinstance(upstream, Refused):
        gate.metrics.takeover_failed()
    return upstream


async def _raise_epoch(visit: Visit) -> Refused | None:
    """Have a higher epoch kept, and whoever is below it cut, within the budget."""
    epoch, floor = visit.checked_epoch, visit.gate.epoch_floor
    if epoch is None or floor is None or visit.basis is Basis.SHADOW or floor.holds(epoch):
        return None
    try:
        kept = await visit.wait(floor.raise_to, epoch, until=visit.ends_at)
    except trio.TooSlowError:
        kept = False
    return None if kept else Refused(Reason.FLOOR_UNAVAILABLE)


async def _dial(visit: Visit) -> Refused | Entry:
    gate, address = visit.gate, visit.gate.upstream
    if gate.lifeline is not None:
        return await offer(visit, gate.lifeline, refused_now=lambda: _refused_now(visit), admit=lambda: _admit(visit))
    assert not isinstance(address, Handoff), "it has a lifeline"  # noqa: S101
    try:
        upstream = connect_now(address)
        if upstream is None:
            upstream = await visit.wait(connect, address, until=trio.current_time() + gate.times.connect)
            give_up_after(upstream, gate.times.user_timeout)
        keep_alive(upstream, gate.times.keepalive)
    except UpstreamUnavailable as error:
        return Refused(Reason.UPSTREAM_UNAVAILABLE, str(error))
    except trio.TooSlowError:
        return Refused(Reason.UPSTREAM_UNAVAILABLE, f"{address}: no connection in time")
    refused = _refused_now(visit)
    if refused is not None:
        abort(upstream)
        return refused
    _admit(visit)
    return upstream


def _refused_now(visit: Visit) -> Refused | None:
    """Decide on what is newest now, without another read."""
    gate = visit.gate
    outdated = visit.outdated()
    if outdated is not None:  # since the handshake: a cut of those who are here doesn't reach who comes in after it
        cause = TlsFailure.CERT_REVOKED if outdated is End.CERTIFICATE_REVOKED else TlsFailure.CERT_EXPIRED
        return visit.tls_failed(cause, "the certificate has ceased to count since the handshake")
    if visit.basis is Basis.SHADOW and gate.exclusive is not None and not gate.shadow_now():
        return Refused(Reason.EXCLUSIVE_CONFLICT, "the shadow mode, which passed it by the one place, has ended")
    if visit.handshake.claim is not None:
        reading = Unavailable("no good read is young enough") if gate.authority.stale else gate.authority.newest
        verdict = visit.handshake.decide(reading, gate.state())
        if isinstance(verdict, Refused) and not visit.shadow_passes(verdict):
            return verdict
    elif gate.state().draining:
        return Refused(Reason.DRAINING)
    elif not gate.shadow_now():  # without a claim only that mode had let it come this far
        return Refused(Reason.PREFACE_MISSING)
    ended_by = visit.connection.ended_by  # perhaps said while this task was on its way already
    return Refused(ended_by) if isinstance(ended_by, Reason) else None


def _admit(visit: Visit) -> None:
    gate, connection = visit.gate, visit.connection
    connection.step = Step.ADMITTED
    connection.epoch, connection.controller = visit.believed_epoch, visit.believed_controller
    connection.admission = visit
    if gate.exclusive is not None and visit.basis is not Basis.SHADOW:
        gate.exclusive.give(connection)
    gate.metrics.admitted(visit.basis)
    visit.measure(Outcome.ADMITTED)
    gate.journal.admitted(connection)
