"""The TLVs of a header: the block of bytes that follows its addresses, and the values in it.

Owns their boundaries; knows no type but the two that a header itself uses. Called by ``proxy_v2``, which verifies the
checksum, since that is over the whole header.

A controller that reconnects sends the same block again, so the last few blocks are remembered as they were read. That
is a pure function's result under the whole of its argument: nothing goes unchecked. A block with a fault is never
kept, nor is one longer than any claim: the most that strangers can make it hold is 2 MiB.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from sidecar.preface.fault import Fault, PrefaceError

TYPE_CRC32C: Final = 0x03
TYPE_NOOP: Final = 0x04

REMEMBERED: Final = 128  # blocks: more controllers than dial one slot
REMEMBERED_LENGTH: Final = 600  # bytes of a block: the longest claim takes fewer

_HEAD: Final = struct.Struct("!BH")


@dataclass(frozen=True, slots=True)
class Tlv:
    """One type-length-value triple."""

    type: int
    value: bytes

    def __post_init__(self) -> None:
        if not (0 <= self.type <= 0xFF and len(self.value) <= 0xFFFF):
            raise ValueError("a TLV's type is one byte and its value at most 65535 bytes")


@dataclass(frozen=True, slots=True)
class Block:
    """The TLVs of one header.

    Attributes:
        tlvs: In their order, repeated ones too, without padding (NOOP).
        checksums: Where in the block the value of each checksum stands, and the value.
    """

    tlvs: tuple[Tlv, ...]
    checksums: tuple[tuple[int, bytes], ...]


def read_block(raw: bytes) -> Block:
    """The TLVs that fill *raw*. Raises PrefaceError."""
    return _remembered(raw) if len(raw) <= REMEMBERED_LENGTH else _read(raw)


def write_block(tlvs: Iterable[Tlv]) -> bytes:
    """The bytes of *tlvs*, in their order."""
    return b"".join([write_tlv(tlv.type, tlv.value) for tlv in tlvs])


def write_tlv(kind: int, value: bytes) -> bytes:
    """The bytes of one TLV; *kind* and *value* are in range, as those of a :class:`Tlv` are."""
    return _HEAD.pack(kind, len(value)) + value


def _read(raw: bytes) -> Block:
    tlvs: list[Tlv] = []
    checksums: list[tuple[int, bytes]] = []
    end, position = len(raw), 0
    while position < end:
        start = position + _HEAD.size
        if start > end:
            raise PrefaceError(Fault.TLV_HEADER_TRUNCATED)
        kind, length = _HEAD.unpack_from(raw, position)
        position = start + length
        if position > end:
            raise PrefaceError(Fault.TLV_VALUE_TRUNCATED)
        if kind == TYPE_CRC32C:
            checksums.append((start, raw[start:position]))
        if kind != TYPE_NOOP:
            tlvs.append(Tlv(kind, raw[start:position]))
    return Block(tuple(tlvs), tuple(checksums))


_remembered = lru_cache(REMEMBERED)(_read)
