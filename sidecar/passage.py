"""From the first verdict to the local process: takeover, floor, dial, and the last decision.

A takeover is one turn: decided, the old connection cut and gone, the local process dialled, decided once more; nobody
else takes over meanwhile. A connection that is refused on the way has disturbed nobody, but for the one case that can't
be helped: the dial fails after the cut. That is counted apart.

Owns the order of these steps. Called by ``connection``.
"""

from __future__ import annotations

import trio

from sidecar.assignment import Unavailable
from sidecar.exclusive import Exclusive
from sidecar.gate import Visit
from sidecar.identity import ControllerName
from sidecar.metrics import Basis, Outcome
from sidecar.reasons import End, Reason, Refused
from sidecar.roster import Step
from sidecar.sockets import abort
from sidecar.upstream import UpstreamUnavailable, connect


async def enter(visit: Visit) -> Refused | trio.SocketStream:
    """The local process's connection, once this one is admitted to it."""
    exclusive = visit.gate.exclusive
    if exclusive is None or visit.basis is Basis.SHADOW:
        return await _raise_epoch(visit) or await _dial(visit)
    with trio.move_on_at(visit.ends_at) as budget:
        await exclusive.turn.acquire()
    if budget.cancelled_caught:
        return Refused(Reason.EXCLUSIVE_CONFLICT, "others are taking over")
    try:
        return await _take_over(visit, exclusive)
    finally:
        exclusive.turn.release()


async def _take_over(visit: Visit, exclusive: Exclusive) -> Refused | trio.SocketStream:
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
    await gate.roster.wait_ended(holder)
    upstream = await _dial(visit)
    if isinstance(upstream, Refused):
        gate.metrics.takeover_failed()
    return upstream


async def _raise_epoch(visit: Visit) -> Refused | None:
    """Have a higher epoch kept, and whoever is below it cut, within the budget."""
    epoch, raise_epoch = visit.checked_epoch, visit.gate.raise_epoch
    if epoch is None or raise_epoch is None or visit.basis is Basis.SHADOW:
        return None
    kept = False
    with trio.move_on_at(visit.ends_at):
        kept = await raise_epoch(epoch)
    return None if kept else Refused(Reason.FLOOR_UNAVAILABLE)


async def _dial(visit: Visit) -> Refused | trio.SocketStream:
    gate = visit.gate
    upstream: trio.SocketStream | None = None
    try:
        with trio.move_on_after(gate.times.connect):
            upstream = await connect(gate.upstream)
    except UpstreamUnavailable as error:
        return Refused(Reason.UPSTREAM_UNAVAILABLE, str(error))
    if upstream is None:
        return Refused(Reason.UPSTREAM_UNAVAILABLE, f"{gate.upstream}: no connection in time")
    refused = _refused_now(visit)
    if refused is not None:
        abort(upstream)
        return refused
    _admit(visit)
    return upstream


def _refused_now(visit: Visit) -> Refused | None:
    """Decide on what is newest now, without another read."""
    gate = visit.gate
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
    gate, connection, claim = visit.gate, visit.connection, visit.handshake.claim
    connection.step = Step.ADMITTED
    if visit.basis is not Basis.SHADOW:  # of one that passed in spite of what it says, nothing is believed
        connection.epoch = visit.checked_epoch
        if claim is not None and isinstance(claim.controller, ControllerName):
            connection.controller = claim.controller
    connection.recheck = lambda: _recheck(visit)
    connection.spare = lambda end: _spare(visit, end)
    if gate.exclusive is not None and visit.basis is not Basis.SHADOW:
        gate.exclusive.give(connection)
    gate.metrics.admitted(visit.basis)
    visit.measure(Outcome.ADMITTED)
    gate.journal.admitted(connection)


def _recheck(visit: Visit) -> End | None:
    """Why the connection doesn't pass on the newest record; one that never did isn't asked as long as that is so."""
    if visit.basis is Basis.SHADOW and visit.gate.shadow_now():
        return None
    return visit.handshake.decide_established(visit.gate.authority.newest, visit.gate.state())


def _spare(visit: Visit, end: End) -> bool:
    """Whether the shadow mode, as it is now, doesn't make this cut. Counts it, once for each connection."""
    spared = visit.gate.shadow_now()
    if spared and not visit.shadow_cut:
        visit.shadow_cut = True
        visit.gate.metrics.shadow_cut(end)
    return spared
