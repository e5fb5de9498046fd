"""One connection's way from its first byte to its first verdict, without any I/O.

A :class:`Handshake` is fed what arrives and says what it waits for: more bytes, or a reading of the authority. Whoever
drives it (``connection``, from a task) holds the socket, the clock and the awaits, and could as well be a plain
callback. It takes no byte that isn't there, decides nothing twice, and keeps what came after the preface for the local
process.

Owns the order of the steps; what a header, a claim and a verdict are belongs to ``preface`` and ``admission``.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final

from sidecar.admission import (
    AUTHORITY_NEEDED,
    SHADOWED,
    Admitted,
    Floor,
    Peer,
    Rules,
    State,
    decide,
)
from sidecar.assignment import Assignment, Reading
from sidecar.preface.answer import ADMITTED, Answer
from sidecar.preface.claim import ReceivedClaim, TlvTypes, read_claim
from sidecar.preface.proxy_v2 import Address, Command, Fault, PrefaceError, check_end, read_header
from sidecar.reasons import End, Probe, Reason, Refused

_ENDS: Final = frozenset(map(str, End))

DRAINING_PREFACE_SECONDS: Final = 1.0  # how long a preface may take once the sidecar drains


def shadow_lets_through(refused: Refused) -> bool:
    """Whether the shadow mode counts this and lets the connection through: a wrong claim, or a client without one.

    A preface that was begun and is faulty is refused in any mode: what follows it can't be known.
    """
    if refused.reason is Reason.PREFACE_MALFORMED:
        return refused.detail in {Fault.BAD_SIGNATURE, Fault.VERSION_NOT_ALLOWED}
    return refused.reason is Reason.PREFACE_MISSING or refused.reason in SHADOWED


class Wait(Enum):
    """What a handshake needs to go on."""

    BYTES = auto()
    AUTHORITY = auto()


class Handshake:
    """The steps of one connection up to the verdict.

    Attributes:
        claim: what the preface carried; None until it is complete.
        claimed_source: the address that the preface gives for the dialler: its word, for the log alone.
        waits_for: what the handshake waits for; of no meaning once a verdict was given.
    """

    __slots__ = ("_buffer", "_header_length", "_peer", "_rules", "_tlvs", "claim", "claimed_source", "waits_for")

    def __init__(self, rules: Rules, tlvs: TlvTypes, peer: Peer) -> None:
        self._rules = rules
        self._tlvs = tlvs
        self._peer = peer
        self._buffer = bytearray()
        self._header_length = 0
        self.claim: ReceivedClaim | None = None
        self.claimed_source: Address | None = None
        self.waits_for = Wait.BYTES

    @property
    def payload(self) -> bytes:
        """What came after the preface; everything, where there was none."""
        return bytes(self._buffer[self._header_length :])

    def receive(self, data: bytes | bytearray, state: State) -> Wait | Probe | Refused:
        """Take what arrived. Empty *data*: the peer's stream has ended, or broke."""
        try:
            if not data:
                check_end(self._buffer)
                return Probe.CLOSED_BEFORE_PREFACE
            self._buffer += data
            header = read_header(self._buffer)
        except PrefaceError as error:
            return error.refused
        if header is None:
            return Wait.BYTES
        if header.command is Command.LOCAL:
            return Probe.LOCAL
        self._header_length = header.length
        self.claimed_source = header.source
        self.claim = read_claim(header.tlvs, self._tlvs)
        verdict = decide(self._rules, self.claim, self._peer, state, None)
        if verdict is not AUTHORITY_NEEDED:
            assert isinstance(verdict, Refused), "nothing is admitted without a reading"  # noqa: S101
            return verdict
        self.waits_for = Wait.AUTHORITY
        return Wait.AUTHORITY

    def decide(self, reading: Reading, state: State) -> Admitted | Refused:
        """The verdict on *reading*; asked again after the dial, on what is newest then."""
        assert self.claim is not None, "a claim is decided once it has been read"  # noqa: S101
        verdict = decide(self._rules, self.claim, self._peer, state, reading)
        assert verdict is not AUTHORITY_NEEDED, "there is a reading"  # noqa: S101
        return verdict

    def decide_established(self, reading: Reading, state: State) -> End | None:
        """Why a connection that was admitted doesn't pass any more on *reading*; None: it does."""
        if self.claim is None:
            return None
        verdict = self.decide(reading, state.of_established())
        if isinstance(verdict, Admitted) or verdict.reason not in _ENDS:
            return None  # what keeps a new connection out for a while (no answer, no floor) ends no old one
        return End(verdict.reason)

    def out_of_time(self, *, draining: bool) -> Refused:
        """The verdict when the budget has run out: the step that it ran out in names the reason."""
        if self.waits_for is Wait.AUTHORITY:
            return Refused(Reason.AUTHORITY_UNAVAILABLE, "no answer in time")
        return Refused(Reason.DRAINING if draining else Reason.PREFACE_TIMEOUT)

    def answer(self, verdict: Admitted | Refused, newest: Reading, floor: Floor | None, *, full: bool) -> Answer | None:
        """What the dialler is told; None where it asked for no answer, or none is owed before a complete preface.

        Args:
            verdict: the one to tell.
            newest: what is known of the assignment; a refusal names it to peers who may know.
            floor: the epoch's is named where the controller's epoch was the reason.
            full: tell also peers that haven't proven who they are.
        """
        if self.claim is None or not self.claim.answer.wanted:
            return None
        own = verdict.assignment if isinstance(verdict, Admitted) else newest
        if not isinstance(own, Assignment):
            own = Assignment()
        if isinstance(verdict, Admitted):
            return Answer(ADMITTED, None, "", self._rules.identity, own.generation, own.instance)
        if not (full or self._peer.proven):
            return Answer(verdict.reason, verdict.advice)
        epochs = [each.epoch for each in (floor, own) if each is not None and each.epoch is not None]
        about_epoch = verdict.reason in {Reason.CONTROLLER_STALE, Reason.CONTROLLER_AHEAD}
        return Answer(
            verdict.reason,
            verdict.advice,
            verdict.detail,
            self._rules.identity,
            own.generation,
            own.instance,
            max(epochs, default=None) if about_epoch else None,
        )
