"""What the log says of a connection: one line when its fate is settled.

Owns the fields of that line and which level each event has. Knows nothing of how it came to that; called by
``connection``. Refusals go through the rate limit of :class:`~sidecar.log.RefusalLog`, which counts what it leaves out;
counters are elsewhere and exact.

A line costs more than the decision that it tells of. So the fields are written as JSON directly, by one function for
all events, and only when a line is written or a page asks for them; until then there is a record of what they were.
The words for the last few claims are kept, and those for this side: controllers come again, and the assignment stays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Final

import trio

from sidecar.assignment import Assignment, Reading
from sidecar.authority.source import Authority
from sidecar.identity import Identity
from sidecar.log import Logger, RefusalLog, decoded, quoted, to_json
from sidecar.preface.address import Address, InetAddress
from sidecar.preface.claim import ReceivedClaim
from sidecar.reasons import End, Probe, Refused
from sidecar.roster import Connection

_REMEMBERED: Final = 128  # claims whose words are kept, for controllers that come again


class _Side:
    """What the log says of this side, kept for as long as the same reading is the newest."""

    __slots__ = ("_reading", "_words")

    def __init__(self) -> None:
        self._reading: Reading | None = None
        self._words = ""

    def in_words(self, own: Identity, newest: Reading) -> str:
        """The fields, as JSON."""
        if newest is not self._reading:
            self._reading, self._words = newest, f'"own": "{own}"'
            if isinstance(newest, Assignment) and newest.generation is not None:
                self._words += f', "generation": "{newest.generation}"'
            if isinstance(newest, Assignment) and newest.instance is not None:
                self._words += f', "instance": {quoted(newest.instance.value)}'
        return self._words


@dataclass(frozen=True, slots=True)
class Journal:
    """Writes a connection's line."""

    logger: Logger
    refusals: RefusalLog
    own: Identity
    authority: Authority
    clock: Callable[[], float] = trio.current_time
    _side: _Side = field(default_factory=_Side, init=False, repr=False)

    def probe(self, connection: Connection, kind: Probe) -> None:
        """It asked for nothing."""
        self.logger.encoded("debug", "probe", lambda: f'"kind": "{kind}", {self._seen(connection)()}')

    def refused(self, connection: Connection, refused: Refused) -> None:
        """It was refused."""
        seen, tls_fault = self._seen(connection), connection.tls_fault or None
        self.refusals.refused(
            "connection_refused",
            refused.reason,
            lambda: {
                "detail": refused.detail or None,
                "advice": refused.advice,
                "tls": tls_fault,
                **decoded(seen()),
            },
        )

    def shadowed(self, connection: Connection, refused: Refused) -> None:
        """It would have been refused, and the shadow mode lets it through."""
        seen = self._seen(connection)
        self.refusals.refused(
            "connection_would_be_refused",
            refused.reason,
            lambda: {"detail": refused.detail or None, **decoded(seen())},
        )

    def admitted(self, connection: Connection) -> None:
        """It was let through. Its line comes at its end; this one is for those who watch."""
        self.logger.encoded("debug", "connection_admitted", self._seen(connection))

    def ended(self, connection: Connection, end: End) -> None:
        """It was admitted once and has ended."""
        moved = f'"bytes_up": {connection.traffic.up}, "bytes_down": {connection.traffic.down}'
        self.logger.encoded("info", "connection_ended", lambda: f'"end": "{end}", {self._seen(connection)()}, {moved}')

    def fault(self, connection: Connection, fault: BaseException) -> None:
        """A fault of ours has ended it."""
        self.logger.error("internal_error", step=connection.step, exc_info=fault, **decoded(self._seen(connection)()))

    def _seen(self, connection: Connection) -> Callable[[], str]:
        """What is known of it at this moment, to be put into words later; the connection itself isn't kept."""
        return partial(
            _in_words,
            connection.listener,
            connection.id,
            connection.peer,
            connection.local,
            connection.claimed_source,
            connection.claim,
            self._side.in_words(self.own, self.authority.newest),
            self.clock() - connection.accepted_at,
        )


def _in_words(
    listener: str,
    number: int,
    peer: InetAddress | None,
    local: InetAddress | None,
    claimed_source: Address | None,
    claim: ReceivedClaim | None,
    side: str,
    seconds: float,
) -> str:
    """The fields that every line of a connection has, as JSON; what isn't known is left out."""
    fields = f'"listener": {quoted(listener)}, "connection": {number}'
    if peer is not None:
        fields += f', "peer": {quoted(str(peer))}'
    if local is not None:
        fields += f', "local": {quoted(str(local))}'
    if claimed_source is not None:
        fields += f', "claimed_source": {quoted(str(claimed_source))}'
    claimed, controller = _claim_in_words(claim) if claim is not None else ("", "")
    return f'{fields}{claimed}, {side}{controller}, "seconds": {round(seconds, 6)}'


@lru_cache(_REMEMBERED)
def _claim_in_words(claim: ReceivedClaim) -> tuple[str, str]:
    """The fields of the slot and of the controller, as JSON, each with a comma in front."""
    slot = claim.as_text()
    controller = {part: slot.pop(part) for part in ("controller", "epoch") if part in slot}
    return f', "claim": {to_json(slot)}' if slot else "", f", {to_json(controller)[1:-1]}" if controller else ""
