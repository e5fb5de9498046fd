"""One connection's way from its first byte to its first verdict, without any I/O.

A :class:`Handshake` is fed what arrives and says what it waits for: more bytes, or a reading of the authority. Whoever
drives it (``connection``, from a task) holds the socket, the clock and the awaits, and could as well be a plain
callback. It takes no byte that isn't there, decides nothing twice, and keeps what came after the preface for the local
process.

Owns the order of the steps; what a header, a claim and a verdict are belongs to ``preface`` and ``admission``.

The same verdict on the same assignment is told in the same words, so the last few answers are kept, and their bytes
with them: 64 of at most 1 KiB. Which verdict it is that they tell is decided anew for every connection.
"""

from __future__ import annotations

from enum import Enum, auto
from functools import lru_cache
from typing import Final

from sidecar.admission import (
    AUTHORITY_NEEDED,
    SHADOWED,
    Admitted,
    Floor,
    Peer,
    Rules,
    State,
    decide_examined,
    examine,
)
from sidecar.assignment import Assignment, Reading
from sidecar.preface.answer import ADMITTED, Answer
from sidecar.preface.claim import ReceivedClaim, TlvTypes, claim_of
from sidecar.preface.proxy_v2 import Address, Command, Fault, PrefaceError, check_end, read_header
from sidecar.reasons import End, Probe, Reason, Refused

_ENDS: Final = frozenset(map(str, End))
_ANSWERS: Final = 64  # more than there are reasons
_MOST_SEEN: Final = 128  # claims that a desk remembers
_LONGEST_SEEN: Final = 600  # bytes: longer than any sound claim

UNPROVEN: Final = Peer()  # what a plain connection proves

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

    OUTER = auto()
    TLS = auto()
    BYTES = auto()
    AUTHORITY = auto()


# Every connection meets these, and in Python 3.11 taking a member from its class is a function call.
_BYTES: Final = Wait.BYTES
_AUTHORITY: Final = Wait.AUTHORITY
_LOCAL: Final = Command.LOCAL


_answer = lru_cache(_ANSWERS)(Answer)


class Desk:
    """What is known of a listener's claims before one comes: its rules, and what they say of the claims seen lately.

    A controller comes again and again with one claim, and neither what it says nor what is wrong with it changes.
    """

    __slots__ = ("_seen", "rules", "tlvs")

    def __init__(self, rules: Rules, tlvs: TlvTypes) -> None:
        self.rules = rules
        self.tlvs = tlvs
        self._seen: dict[bytes | tuple[bytes, Peer], tuple[ReceivedClaim, Refused | None]] = {}

    def examine(self, block: bytes, peer: Peer) -> tuple[ReceivedClaim, Refused | None]:
        """The claim in a header's *block* of TLVs, and what is wrong with it whatever the moment."""
        key = block if peer is UNPROVEN else (block, peer)
        seen = self._seen.get(key)
        if seen is None:
            claim = claim_of(block, self.tlvs)
            seen = claim, examine(self.rules, claim, peer)
            if len(block) <= _LONGEST_SEEN:
                if len(self._seen) >= _MOST_SEEN:
                    self._seen.clear()
                self._seen[key] = seen
        return seen


class Handshake:
    """The steps of one connection up to the verdict.

    Attributes:
        claim: what the preface carried; None until it is complete.
        claimed_source: the address that the preface gives for the dialler: its word, for the log alone.
        waits_for: what the handshake waits for; of no meaning once a verdict was given.
    """

    __slots__ = (
        *("_buffer", "_desk", "_examined", "_header_length", "_peer", "_reading", "_rules", "_state", "_verdict"),
        *("claim", "claimed_source", "waits_for"),
    )

    def __init__(self, desk: Desk, peer: Peer) -> None:
        self._desk = desk
        self._rules = desk.rules
        self._peer = peer
        self._buffer = b""
        self._header_length = 0
        self._examined: Refused | None = None
        self._reading: Reading | None = None  # and with the next two: the last decision
        self._state: State | None = None
        self._verdict: Admitted | Refused | None = None
        self.claim: ReceivedClaim | None = None
        self.claimed_source: Address | None = None
        self.waits_for: Wait = _BYTES

    @property
    def peer(self) -> Peer:
        """What the connection itself proves of who dials."""
        return self._peer

    @property
    def payload(self) -> bytes:
        """What came after the preface; everything, where there was none."""
        return self._buffer[self._header_length :]

    @property
    def length(self) -> int:
        """How many bytes the preface had; none, where there was none."""
        return self._header_length

    def take_payload(self) -> bytes:
        """The same, once: it is the local process's now, and nothing of what came is kept for the connection's life."""
        payload, self._buffer = self.payload, b""
        return payload

    def receive(self, data: bytes | bytearray, state: State) -> Wait | Probe | Refused:
        """Take what arrived. Empty *data*: the peer's stream has ended, or broke."""
        try:
            if not data:
                check_end(self._buffer)
                return Probe.CLOSED_BEFORE_PREFACE
            # Nearly always all of it comes at once. Pieces are joined by copying: there are at most 8 KiB of them.
            self._buffer = self._buffer + data if self._buffer else bytes(data)
            header = read_header(self._buffer)
        except PrefaceError as error:
            return error.refused
        if header is None:
            return _BYTES
        if header.command is _LOCAL:
            return Probe.LOCAL
        self._header_length = header.length
        self.claimed_source = header.source
        self.claim, self._examined = self._desk.examine(header.block, self._peer)
        verdict = decide_examined(self._rules, self.claim, self._peer, state, None, self._examined)
        if verdict is not AUTHORITY_NEEDED:
            assert isinstance(verdict, Refused), "nothing is admitted without a reading"  # noqa: S101
            return verdict
        self.waits_for = _AUTHORITY
        return _AUTHORITY

    def decide(self, reading: Reading, state: State) -> Admitted | Refused:
        """The verdict on *reading*; asked again after the dial, on what is newest then."""
        assert self.claim is not None, "a claim is decided once it has been read"  # noqa: S101
        if reading is self._reading and state is self._state and self._verdict is not None:
            return self._verdict  # neither has changed, and the decision looks at nothing else
        verdict = decide_examined(self._rules, self.claim, self._peer, state, reading, self._examined)
        assert verdict is not AUTHORITY_NEEDED, "there is a reading"  # noqa: S101
        self._reading, self._state, self._verdict = reading, state, verdict
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
        if self.waits_for is _AUTHORITY:
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
            return _answer(ADMITTED, None, "", self._rules.identity, own.generation, own.instance)
        if not (full or self._peer.proven):
            return _answer(verdict.reason, verdict.advice)
        epochs = [each.epoch for each in (floor, own) if each is not None and each.epoch is not None]
        about_epoch = verdict.reason in {Reason.CONTROLLER_STALE, Reason.CONTROLLER_AHEAD}
        return _answer(
            verdict.reason,
            verdict.advice,
            verdict.detail,
            self._rules.identity,
            own.generation,
            own.instance,
            max(epochs, default=None) if about_epoch else None,
        )
