"""From accept to the first verdict: read the preface, decide, ask the authority, decide.

Owns the awaits of these steps and the one budget over them; what each step makes of bytes and readings is
``handshake``'s to say. Called by ``connection``.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import trio

from sidecar.admission import Admitted
from sidecar.assignment import Reading, Unavailable
from sidecar.gate import Visit
from sidecar.handshake import DRAINING_PREFACE_SECONDS, Wait
from sidecar.metrics import Basis, Stage
from sidecar.reasons import Probe, Reason, Refused
from sidecar.roster import Step

_AHEAD_LOOK_SECONDS: Final = 0.1  # between two reads for a claim that is ahead of the authority
_PREFACE_CHUNK: Final = 4096  # a preface is at most this long; more would only wait in memory


async def first_verdict(visit: Visit) -> Refused | Probe | None:
    """None: it passed, and has a place."""
    outcome = await _Arrival(visit).run()
    if isinstance(outcome, Refused) and visit.shadow_passes(outcome):
        outcome = None
    if outcome is None and not visit.gate.roster.take_place(visit.connection):
        return Refused(Reason.OVER_CAPACITY)
    return outcome


class _Arrival:
    """The steps, and the verdict that stands while a claim waits for the authority to catch up with it."""

    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self._meanwhile: Refused | None = None

    async def run(self) -> Refused | Probe | None:
        """The steps in their order, within the budget."""
        visit, connection = self._visit, self._visit.connection
        outcome: Refused | Probe | None = None
        with trio.CancelScope(deadline=visit.ends_at) as budget:
            connection.budget = budget
            if visit.gate.state().draining:
                budget.deadline = min(visit.ends_at, connection.accepted_at + DRAINING_PREFACE_SECONDS)
            outcome = await self._read_preface() or await self._ask_authority()
        if budget.cancelled_caught:
            draining = budget.deadline < visit.ends_at
            return self._meanwhile or visit.handshake.out_of_time(draining=draining)
        return outcome

    async def _read_preface(self) -> Refused | Probe | None:
        """None: there is a claim, and nothing wrong with it that shows without the authority."""
        visit, gate, handshake = self._visit, self._visit.gate, self._visit.handshake
        patience = gate.times.shadow if gate.shadow else float("inf")  # for the first byte
        outcome: Wait | Refused | Probe = Wait.BYTES
        while outcome is Wait.BYTES:
            data: bytes | bytearray = b""
            with trio.move_on_after(patience) as silence, suppress(trio.BrokenResourceError):
                data = await visit.client.receive_some(_PREFACE_CHUNK)
            if silence.cancelled_caught:
                return Refused(Reason.PREFACE_MISSING, "silence")
            patience = float("inf")
            outcome = handshake.receive(data, gate.state())
        if handshake.claim is not None:
            visit.connection.claim, visit.connection.claimed_source = handshake.claim, handshake.claimed_source
            visit.claimed_at = trio.current_time()
            gate.metrics.handshake_took(Stage.PREFACE, visit.claimed_at - visit.connection.accepted_at)
        return None if isinstance(outcome, Wait) else outcome

    async def _ask_authority(self) -> Refused | None:
        """None: the claim is right."""
        visit, gate = self._visit, self._visit.gate
        visit.connection.step = Step.AUTHORITY
        waits_until = trio.current_time() + gate.times.ahead
        while True:
            reading: Reading = Unavailable("no answer in time")
            with trio.move_on_after(gate.times.authority):
                reading = await gate.authority.read()
            verdict = visit.handshake.decide(reading, gate.state())
            if isinstance(verdict, Admitted) or (isinstance(reading, Unavailable) and self._last_known_admits()):
                return None
            if verdict.reason is not Reason.GENERATION_AHEAD or trio.current_time() >= waits_until:
                return verdict
            self._meanwhile = verdict
            await trio.sleep(min(_AHEAD_LOOK_SECONDS, waits_until - trio.current_time()))

    def _last_known_admits(self) -> bool:
        """Whether the remembered assignment, where there may be one, admits. It never refuses."""
        visit, gate = self._visit, self._visit.gate
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
