"""The hand-over's messages, as docs/handoff.md states them: bytes to values and back, and what to reply.

Owns the format of both sides, and the rules that a receiver judges a packet by. Pure: it is told how many descriptors
came with a packet, and neither sees nor closes one. Called by ``lifeline`` and ``hand_over`` on the sidecar's side, and
by ``handoff`` on the local process's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Final, TypeVar

from sidecar.errors import SidecarError
from sidecar.identity import ControllerName, Epoch, Generation, Identity, Instance
from sidecar.preface.claim import Claim, Malformed, read_claim, write_claim
from sidecar.preface.proxy_v2 import Address, Command, Header, PrefaceError, Tlv, read_header, write_header

FORMAT: Final = 1
MAX_PACKET: Final = 16 * 1024

TYPE_NUMBER: Final = 0xF0
TYPE_ANSWER: Final = 0xF1

READY: Final = f"ready {FORMAT}".encode()  # what a receiver says first: nothing of an earlier lifeline is left

_DECIMAL = re.compile(rb"[1-9][0-9]{0,19}")

_Value = TypeVar("_Value")


@unique
class Refusal(StrEnum):
    """Why a receiver doesn't take a connection."""

    DESCRIPTORS = "descriptors"  # it has none left
    FULL = "full"  # it takes no more connections now

    @property
    def words(self) -> str:
        """What that means, for people."""
        return "the receiver is out of descriptors" if self is Refusal.DESCRIPTORS else "the receiver is full"


_REFUSALS: Final = frozenset(map(str, Refusal))


class LifelineError(SidecarError):
    """What came through a lifeline is no hand-over. Its sender is at fault, and the lifeline ends."""


@dataclass(frozen=True, slots=True)
class Introduction:
    """What the sidecar says of a connection that it hands over.

    Attributes:
        number: which hand-over of its lifeline this is.
        identity: the slot that the sidecar guards.
        generation: which launch of it; None where the assignment has none.
        instance: which pod runs it; None where the assignment has none.
        epoch: the controller's, if it stated one and the sidecar has checked it.
        controller: who dials, likewise.
        peer: the client's end as the sidecar's kernel names it; None on a Unix socket.
        local: the sidecar's end of it.
        answer: bytes that the sidecar owes the client, which go before any other.
        first: the first bytes that the client sent to the application: the sidecar has read them already.
    """

    number: int
    identity: Identity
    generation: Generation | None
    instance: Instance | None
    epoch: Epoch | None
    controller: ControllerName | None
    peer: Address | None
    local: Address | None
    answer: bytes
    first: bytes


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a connection that was offered: it is taken, or refused where ``refusal`` says why."""

    introduction: Introduction
    refusal: Refusal | None = None

    @property
    def reply(self) -> bytes:
        """What the sidecar is told."""
        number = self.introduction.number
        return f"taken {number}".encode() if self.refusal is None else f"refused {number} {self.refusal}".encode()


def check_ready(message: bytes) -> None:
    """What a receiver says first must be that it is ready. Raises LifelineError."""
    if message != READY:
        raise LifelineError(f"the receiver begins with {message!r} instead of {READY!r}")


@dataclass(frozen=True, slots=True)
class Reply:
    """What a receiver says of a hand-over: that it was taken, or why not."""

    number: int
    refusal: Refusal | None = None


def read_reply(message: bytes) -> Reply:
    """What *message* says.

    Raises:
        LifelineError: it is none of a receiver's replies.
    """
    match message.split(b" "):
        case [b"taken", number] if _DECIMAL.fullmatch(number):
            return Reply(int(number))
        case [b"refused", number, word] if _DECIMAL.fullmatch(number) and word.decode("ascii", "replace") in _REFUSALS:
            return Reply(int(number), Refusal(word.decode()))
    raise LifelineError(f"the receiver says {message!r}, which is no reply")


def write_packet(introduction: Introduction) -> bytes:
    """The packet that goes with the descriptor."""
    said = introduction
    claim = Claim(said.identity, said.generation, said.instance, said.epoch, said.controller)
    tlvs = [*write_claim(claim, answer=False), Tlv(TYPE_NUMBER, str(said.number).encode())]
    if said.answer:
        tlvs.append(Tlv(TYPE_ANSWER, said.answer))
    return write_header(source=said.peer, destination=said.local, tlvs=tlvs) + said.first


def decide(packet: bytes, *, descriptors: int, lost: bool, full: bool) -> Decision:
    """Whether to take what *packet* hands over.

    Args:
        packet: its bytes, whole.
        descriptors: how many came with it.
        lost: whether the kernel had more and couldn't give them (``MSG_CTRUNC``).
        full: whether the receiver takes no more now.

    Raises:
        LifelineError: it isn't exactly one connection with a sound header.
    """
    introduction = read_packet(packet)
    if descriptors == 0 and lost:
        return Decision(introduction, Refusal.DESCRIPTORS)
    if descriptors != 1 or lost:
        count = "more" if lost else str(descriptors)
        raise LifelineError(f"hand-over {introduction.number} came with {count} descriptors instead of one")
    return Decision(introduction, Refusal.FULL if full else None)


def read_packet(packet: bytes) -> Introduction:
    """What *packet* says of its connection.

    Raises:
        LifelineError: it is longer than a packet may be, or has no sound header with all that a hand-over needs.
    """
    if len(packet) > MAX_PACKET:
        raise LifelineError(f"a packet of more than {MAX_PACKET} bytes came through the lifeline")
    header = _read_header(packet)
    claim = read_claim(header.tlvs)
    identity = _sound("identity", claim.identity)
    if identity is None:
        raise LifelineError("a hand-over has no identity")
    return Introduction(
        number=_number(header),
        identity=identity,
        generation=_sound("generation", claim.generation),
        instance=_sound("instance", claim.instance),
        epoch=_sound("epoch", claim.epoch),
        controller=_sound("controller", claim.controller),
        peer=header.source,
        local=header.destination,
        answer=_at_most_one(header, TYPE_ANSWER, "answers") or b"",
        first=packet[header.length :],
    )


def _read_header(packet: bytes) -> Header:
    try:
        header = read_header(packet)
    except PrefaceError as error:
        raise LifelineError(f"a packet that is no hand-over came through the lifeline: {error}") from error
    if header is None:
        raise LifelineError("a packet ends within its header")
    if header.command is not Command.PROXY:
        raise LifelineError("a hand-over's header has the command LOCAL")
    return header


def _number(header: Header) -> int:
    raw = _at_most_one(header, TYPE_NUMBER, "numbers")
    if raw is None:
        raise LifelineError("a hand-over has no number")
    if not _DECIMAL.fullmatch(raw):
        raise LifelineError("a hand-over's number isn't a decimal number of 1 or above without leading zeros")
    return int(raw)


def _at_most_one(header: Header, kind: int, what: str) -> bytes | None:
    values = [tlv.value for tlv in header.tlvs if tlv.type == kind]
    if len(values) > 1:
        raise LifelineError(f"a hand-over has {len(values)} {what}")
    return values[0] if values else None


def _sound(what: str, part: _Value | Malformed | None) -> _Value | None:
    if isinstance(part, Malformed):
        raise LifelineError(f"a hand-over's {what} {part.why}")
    return part
