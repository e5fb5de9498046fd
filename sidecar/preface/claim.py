"""The claim: which slot and which life of it a connection means, and who dials.

Owns which TLV carries what, and that a value given twice is no value. Doesn't know which parts are required, nor
whether any of them is right: that is admission's. Called by the connection's steps with a header's block of TLVs
(``claim_of``) and by diallers (``write_claim``).

Two types, because the two sides know different things. A dialler's ``Claim`` is valid. A ``ReceivedClaim`` keeps what
is unusable as ``Malformed``, since reading it must never fail: which part is looked at first is admission's to say.

The last few claims are remembered under the block of TLVs that they were read from, like that block (``tlv``): a
controller that reconnects claims the same again. So are well-formed values one by one, since all controllers name the
same slot. What a claim means, and whether it is right, is decided each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from enum import Enum, unique
from functools import cached_property, lru_cache
from typing import Final, TypeVar

from sidecar.errors import MalformedValue
from sidecar.identity import ControllerName, Epoch, Generation, Identity, Instance
from sidecar.preface.printable import printable
from sidecar.preface.tlv import REMEMBERED, REMEMBERED_LENGTH, TYPE_CRC32C, TYPE_NOOP, Tlv, read_block

ANSWER_FORMAT: Final = b"1"

_SHOWN_LENGTH: Final = 160  # characters of a value in a log: any well-formed one is shorter

_Value = TypeVar("_Value", Identity, Generation, Instance, Epoch, ControllerName)


@dataclass(frozen=True, slots=True)
class TlvTypes:
    """Which TLV type carries which part of a request. The defaults are format 1's; a listener may remap them.

    Raises MalformedValue where two parts would share a type, or one would take a type that a header itself uses.
    """

    identity: int = 0xE5
    generation: int = 0xE6
    instance: int = 0xE7
    epoch: int = 0xE8
    controller: int = 0xE9
    answer: int = 0xEB

    def __post_init__(self) -> None:
        seen: dict[int, str] = {}
        for field in fields(self):
            number: int = getattr(self, field.name)
            if not 1 <= number <= 0xFF:
                raise MalformedValue(f"the TLV type of {field.name} must be between 0x01 and 0xFF")
            if number in (TYPE_CRC32C, TYPE_NOOP):
                raise MalformedValue(f"the TLV type of {field.name} is 0x{number:02X}, which the header itself uses")
            if number in seen:
                raise MalformedValue(f"{seen[number]} and {field.name} have the same TLV type, 0x{number:02X}")
            seen[number] = field.name


FORMAT_1: Final = TlvTypes()


@unique
class AnswerRequest(Enum):
    """Whether a header asked for an answer, and whether in a way that can be met.

    Attributes:
        wanted: Whether an answer is sent: also to who asked for it in a wrong way, so that they learn it.
        fault: The detail of ``preface_malformed``, where the request is unusable.
    """

    NONE = (False, None)
    FORMAT_1 = (True, None)
    UNKNOWN_VERSION = (True, "answer_version")
    DUPLICATE = (True, "answer_duplicate")

    def __init__(self, wanted: bool, fault: str | None) -> None:  # noqa: FBT001  the tuples above
        self.wanted = wanted
        self.fault = fault


@dataclass(frozen=True, slots=True)
class Malformed:
    """A part that was given and can't be used.

    Attributes:
        raw: The bytes as they came; of a part given twice all of them, joined by ``", "``.
        why: What is wrong with them, without the value.
    """

    raw: bytes
    why: str


@dataclass(frozen=True)  # without slots, so that a claim that is remembered remembers its hash and its text
class ReceivedClaim:
    """What a connection claims, as it came. None is a part that wasn't given."""

    identity: Identity | Malformed | None = None
    generation: Generation | Malformed | None = None
    instance: Instance | Malformed | None = None
    epoch: Epoch | Malformed | None = None
    controller: ControllerName | Malformed | None = None
    answer: AnswerRequest = AnswerRequest.NONE

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.identity, self.generation, self.instance, self.epoch, self.controller, self.answer))

    def as_text(self) -> dict[str, str]:
        """The parts that were given, for logs: printable ASCII of at most 160 characters each."""
        return dict(self._text)

    @cached_property
    def _text(self) -> dict[str, str]:
        parts = {
            "identity": self.identity,
            "generation": self.generation,
            "instance": self.instance,
            "epoch": self.epoch,
            "controller": self.controller,
        }
        return {name: _shown(part) for name, part in parts.items() if part is not None}


@dataclass(frozen=True, slots=True)
class Claim:
    """What a dialler believes about the process that it dials, and says of itself."""

    identity: Identity
    generation: Generation | None = None
    instance: Instance | None = None
    epoch: Epoch | None = None
    controller: ControllerName | None = None


def claim_of(block: bytes, types: TlvTypes = FORMAT_1) -> ReceivedClaim:
    """What the TLVs of *block* claim, which a header was read from: it has no fault."""
    return _remembered(block, types) if len(block) <= REMEMBERED_LENGTH else _read_block(block, types)


def read_claim(tlvs: Iterable[Tlv], types: TlvTypes = FORMAT_1) -> ReceivedClaim:
    """What *tlvs* claim. Never raises; TLVs of other types are skipped."""
    values: dict[int, list[bytes]] = {}
    for tlv in tlvs:
        values.setdefault(tlv.type, []).append(tlv.value)
    return ReceivedClaim(
        identity=_read(values.get(types.identity), _identity),
        generation=_read(values.get(types.generation), _generation),
        instance=_read(values.get(types.instance), _instance),
        epoch=_read(values.get(types.epoch), _epoch),
        controller=_read(values.get(types.controller), _controller),
        answer=_read_answer_request(values.get(types.answer)),
    )


def write_claim(claim: Claim, types: TlvTypes = FORMAT_1, *, answer: bool) -> tuple[Tlv, ...]:
    """The TLVs that state *claim*, and ask for an answer if *answer*."""
    parts = (
        (types.identity, claim.identity),
        (types.generation, claim.generation),
        (types.instance, claim.instance),
        (types.epoch, claim.epoch),
        (types.controller, claim.controller),
    )
    stated = tuple(Tlv(kind, str(part).encode("ascii")) for kind, part in parts if part is not None)
    return (*stated, Tlv(types.answer, ANSWER_FORMAT)) if answer else stated


def _read_block(block: bytes, types: TlvTypes) -> ReceivedClaim:
    return read_claim(read_block(block).tlvs, types)


_remembered = lru_cache(REMEMBERED)(_read_block)
_identity = lru_cache(REMEMBERED)(Identity.from_wire)
_generation = lru_cache(REMEMBERED)(Generation.from_wire)
_instance = lru_cache(REMEMBERED)(Instance.from_wire)
_epoch = lru_cache(REMEMBERED)(Epoch.from_wire)
_controller = lru_cache(REMEMBERED)(ControllerName.from_wire)


def _read(values: list[bytes] | None, parse: Callable[[bytes], _Value]) -> _Value | Malformed | None:
    if values is None:
        return None
    if len(values) > 1:
        return Malformed(b", ".join(values), "given twice")
    (raw,) = values
    if not raw:
        return Malformed(raw, "is empty")
    try:
        return parse(raw)
    except MalformedValue as error:
        return Malformed(raw, str(error))


def _read_answer_request(values: list[bytes] | None) -> AnswerRequest:
    if values is None:
        return AnswerRequest.NONE
    if len(values) > 1:
        return AnswerRequest.DUPLICATE
    return AnswerRequest.FORMAT_1 if values[0] == ANSWER_FORMAT else AnswerRequest.UNKNOWN_VERSION


def _shown(part: object) -> str:
    raw = part.raw if isinstance(part, Malformed) else str(part).encode("ascii")
    return printable(raw, _SHOWN_LENGTH)
