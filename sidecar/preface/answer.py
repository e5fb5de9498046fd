"""The answer: a verdict as bytes, and what a dialler reads from them.

Owns the layout of format 1 (docs/wire.md, "The answer"), which is frozen. Doesn't decide what a peer may be told: the
caller leaves out what it mustn't say. Written by the connection, read by the dialler.

Between two changes of the assignment every admission is the same answer, on connections with different addresses. So
an answer makes its TLVs once, and whoever keeps the answer keeps them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final, TypeVar

from sidecar.errors import MalformedValue, SidecarError
from sidecar.identity import Epoch, Generation, Identity, Instance
from sidecar.preface.proxy_v2 import Command, Header, InetAddress, frame
from sidecar.preface.tlv import Tlv, write_tlv
from sidecar.reasons import Advice

ADMITTED: Final = "admitted"
MAX_ANSWER_LENGTH: Final = 1024
MAX_DETAIL_LENGTH: Final = 256

TYPE_IDENTITY: Final = 0xE5
TYPE_GENERATION: Final = 0xE6
TYPE_INSTANCE: Final = 0xE7
TYPE_EPOCH: Final = 0xE8
TYPE_VERDICT: Final = 0xEB
TYPE_DETAIL: Final = 0xEC
TYPE_ADVICE: Final = 0xED

_VERDICT = re.compile(r"[a-z][a-z0-9_]{0,63}")
_UNPRINTABLE = re.compile(r"[^ -~]")

_Value = TypeVar("_Value")


class AnswerError(SidecarError):
    """The header is no answer of format 1, or contradicts itself: its sender's fault."""


@dataclass(frozen=True)  # without slots, for the block that is made once
class Answer:
    """What a sidecar answers.

    Attributes:
        verdict: ``admitted``, or the reason of the refusal: a plain word, since a later sidecar may know more reasons.
        advice: What the dialler does next; there with every refusal and no admission.
        detail: For people.
        identity: The sidecar's own, like generation and instance: for comparison and for people, never to be adopted.
        generation: See identity.
        instance: See identity.
        epoch: The epoch floor, where the controller's epoch was the reason.
    """

    verdict: str
    advice: Advice | None = None
    detail: str = ""
    identity: Identity | None = None
    generation: Generation | None = None
    instance: Instance | None = None
    epoch: Epoch | None = None

    def __post_init__(self) -> None:
        if not _VERDICT.fullmatch(self.verdict):
            raise MalformedValue("a verdict is 1 to 64 of a-z 0-9 _ and begins with a letter")
        if self.admitted == (self.advice is not None):
            raise MalformedValue("a refusal carries an advice, an admission none")

    @property
    def admitted(self) -> bool:
        """Whether the verdict is yes."""
        return self.verdict == ADMITTED

    @cached_property
    def block(self) -> bytes:
        """Its TLVs. Detail is cut to 256 characters, and what isn't printable ASCII in it is escaped.

        Raises:
            ValueError: An admission doesn't name the sidecar's identity.
        """
        if self.admitted and self.identity is None:
            raise ValueError("an admission names the sidecar's own identity: the dialler compares it")
        parts = (
            (TYPE_VERDICT, self.verdict),
            (TYPE_ADVICE, self.advice),
            (TYPE_DETAIL, _printable_detail(self.detail) or None),
            (TYPE_IDENTITY, self.identity),
            (TYPE_GENERATION, self.generation),
            (TYPE_INSTANCE, self.instance),
            (TYPE_EPOCH, self.epoch),
        )
        return b"".join([write_tlv(kind, str(part).encode("ascii")) for kind, part in parts if part is not None])


def write_answer(answer: Answer, *, dialler: InetAddress | None, sidecar: InetAddress | None) -> bytes:
    """*answer* as bytes, at most 1,024; addresses are the connection's two ends, None on a Unix socket.

    Raises:
        ValueError: An admission doesn't name the sidecar's identity, or the addresses are of different families.
    """
    return frame(answer.block, source=dialler, destination=sidecar)


def read_answer(header: Header) -> Answer:
    """The answer that *header* is. An unknown or absent advice of a refusal counts as re-resolve.

    Raises:
        AnswerError: It is none: a LOCAL header, too long, no verdict, a part given twice or unusable, an admission
            with an advice.
    """
    if header.command is Command.LOCAL:
        raise AnswerError("a LOCAL header is no answer")
    if header.length > MAX_ANSWER_LENGTH:
        raise AnswerError(f"an answer is at most {MAX_ANSWER_LENGTH} bytes")
    values = _single_values(header.tlvs)
    verdict = _part(values, TYPE_VERDICT, "verdict", lambda raw: raw.decode("ascii", "replace"))
    if verdict is None:
        raise AnswerError("the header carries no verdict")
    advice = _part(values, TYPE_ADVICE, "advice", _read_advice)
    if advice is None and verdict != ADMITTED:
        advice = Advice.RE_RESOLVE
    try:
        return Answer(
            verdict=verdict,
            advice=advice,
            detail=_printable_detail(values.get(TYPE_DETAIL, b"").decode("ascii", "backslashreplace")),
            identity=_part(values, TYPE_IDENTITY, "identity", Identity.from_wire),
            generation=_part(values, TYPE_GENERATION, "generation", Generation.from_wire),
            instance=_part(values, TYPE_INSTANCE, "instance", Instance.from_wire),
            epoch=_part(values, TYPE_EPOCH, "epoch", Epoch.from_wire),
        )
    except MalformedValue as error:
        raise AnswerError(f"the answer is unusable: {error}") from error


def _printable_detail(detail: str) -> str:
    # Unlike printable(), this leaves backslashes alone: a detail may quote a value that is escaped already.
    escaped = _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), detail)
    return escaped[:MAX_DETAIL_LENGTH]


def _single_values(tlvs: tuple[Tlv, ...]) -> dict[int, bytes]:
    ours = (TYPE_VERDICT, TYPE_ADVICE, TYPE_DETAIL, TYPE_IDENTITY, TYPE_GENERATION, TYPE_INSTANCE, TYPE_EPOCH)
    values: dict[int, bytes] = {}
    for tlv in tlvs:
        if tlv.type in values and tlv.type in ours:
            raise AnswerError(f"the answer carries TLV 0x{tlv.type:02X} twice")
        values[tlv.type] = tlv.value
    return values


def _part(values: dict[int, bytes], kind: int, name: str, parse: Callable[[bytes], _Value]) -> _Value | None:
    if kind not in values:
        return None
    try:
        return parse(values[kind])
    except MalformedValue as error:
        raise AnswerError(f"the answer's {name} is unusable: {error}") from error


def _read_advice(raw: bytes) -> Advice:
    try:
        return Advice(raw.decode("ascii", "replace"))
    except ValueError:  # of a later format's words this is the one that is always safe
        return Advice.RE_RESOLVE
