"""One PROXY protocol v2 header, as HAProxy's proxy-protocol.txt defines it (section 2.2): bytes to values and back.

Owns framing, the checksum, and the order in which faults are looked for (docs/wire.md, "Faults"). Doesn't know what any
TLV means: repeated and unknown ones are kept for the claim to judge. Called by the connection's steps with everything
that has arrived so far, and by both sides of the answer.

Reading is stateless. A header may come in pieces cut anywhere, so ``read_header`` is simply asked again with more
bytes; until the last one is there it looks at no more than the 16 fixed bytes, which makes asking again cheap, and
leaves the caller's buffer the only state there is. A parser that keeps a position as well has one more thing to get
wrong.

A controller that reconnects sends the same header again, if it states no addresses. So the last few of these are
remembered as they were read, under all of their bytes. With addresses, of which the ports vary, what is remembered is
what the fixed bytes say and the block of TLVs (``tlv``); addresses and the checksum are read, and verified, each time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum, unique
from functools import lru_cache
from typing import Final

from sidecar.preface.address import (
    ADDRESS_LENGTH,
    Address,
    Family,
    InetAddress,
    UnixAddress,
    pack_addresses,
    unpack_addresses,
)
from sidecar.preface.crc32c import crc32c
from sidecar.preface.fault import Fault, PrefaceError
from sidecar.preface.tlv import (
    REMEMBERED,
    REMEMBERED_LENGTH,
    TYPE_CRC32C,
    TYPE_NOOP,
    Tlv,
    read_block,
    write_block,
)

__all__ = [
    "FIXED_LENGTH",
    "MAX_HEADER_LENGTH",
    "TYPE_CRC32C",
    "TYPE_NOOP",
    "Address",
    "Command",
    "Fault",
    "Header",
    "InetAddress",
    "PrefaceError",
    "Tlv",
    "UnixAddress",
    "bytes_wanted",
    "check_end",
    "frame",
    "read_header",
    "write_header",
]

MAX_HEADER_LENGTH: Final = 4096  # a claim needs under 600 bytes; the rest is room for a proxy's own TLVs
FIXED_LENGTH: Final = 16

_REMEMBERED: Final = 64  # beginnings: those of one length and family are the same

_SIGNATURE: Final = b"\r\n\r\n\x00\r\nQUIT\n"
_SIGNATURE_V1: Final = b"PROXY "
_AFTER_SIGNATURE: Final = struct.Struct("!BBH")
_STREAM: Final = 1
_DATAGRAM: Final = 2


@unique
class Command(IntEnum):
    """What a header is for."""

    LOCAL = 0  # the sender speaks for itself: a health check
    PROXY = 1


_LOCAL: Final = Command.LOCAL  # in Python 3.11 taking a member from its class is a function call


@dataclass(frozen=True, slots=True)
class Header:
    """A complete, well-formed header.

    Attributes:
        command: PROXY, or LOCAL: then the block was skipped unread and addresses and TLVs are absent whatever it held.
        source: Where the connection comes from, on the sender's word alone; None where it doesn't say.
        destination: Where it went to, likewise.
        tlvs: The top-level TLVs in their order, repeated ones too, without padding (NOOP).
        length: How many bytes the header took; what stands behind them in the buffer isn't ours.
        block: The TLVs as they came.
    """

    command: Command
    source: Address | None
    destination: Address | None
    tlvs: tuple[Tlv, ...]
    length: int
    block: bytes = b""


def read_header(buffer: bytes | bytearray) -> Header | None:
    """The header at the start of *buffer*, or None while bytes are missing. Never looks past the header's end.

    Raises:
        PrefaceError: As soon as the byte that decides is there, the first fault in the order of docs/wire.md.
    """
    if len(buffer) < FIXED_LENGTH:
        _check_fixed(buffer)
        return None
    _, _, start, length = _read_fixed(bytes(buffer[:FIXED_LENGTH]))
    if len(buffer) < length:
        return None
    read = _remembered if start == FIXED_LENGTH and length <= REMEMBERED_LENGTH else _read_complete
    return read(bytes(buffer[:length]))


def check_end(buffer: bytes | bytearray) -> None:
    """What an end of stream, or a reset, after *buffer* means. Nothing sent at all is a probe, and no fault.

    Raises:
        PrefaceError: The bytes are faulty, or a header began and isn't complete (``truncated``).
    """
    if buffer and read_header(buffer) is None:
        raise PrefaceError(Fault.TRUNCATED)


def bytes_wanted(buffer: bytes | bytearray) -> int:
    """How many bytes more can be read without reading past the header; 0 when it is complete.

    For a reader that must leave what follows in the socket. *buffer* is one that ``read_header`` finds no fault in.
    """
    if len(buffer) < FIXED_LENGTH:
        return FIXED_LENGTH - len(buffer)
    return max(0, _declared_length(buffer) - len(buffer))


def write_header(
    *,
    source: Address | None,
    destination: Address | None,
    tlvs: Iterable[Tlv] = (),
    command: Command = Command.PROXY,
    crc: bool = False,
) -> bytes:
    """The bytes of a header for a stream connection.

    Args:
        source: Where the connection comes from; None, with *destination*, for family UNSPEC.
        destination: Where it went to. IPv4-mapped IPv6 addresses are written as IPv4.
        tlvs: Written in their order. The checksum isn't one of them: ask for it by *crc*.
        command: LOCAL carries neither addresses nor TLVs.
        crc: Whether to end with a CRC32C TLV.

    Raises:
        ValueError: The addresses are of different families, a LOCAL header was to carry something, or the whole would
            be longer than a receiver takes.
    """
    tlvs = tuple(tlvs)
    if command is Command.LOCAL and (source or destination or tlvs or crc):
        raise ValueError("a LOCAL header carries nothing")
    if any(tlv.type == TYPE_CRC32C for tlv in tlvs):
        raise ValueError("the checksum is computed here: pass crc=True instead of a TLV")
    block = write_block((*tlvs, Tlv(TYPE_CRC32C, bytes(4))) if crc else tlvs)
    header = frame(block, source=source, destination=destination, command=command)
    return header[:-4] + crc32c(header).to_bytes(4, "big") if crc else header


def frame(
    block: bytes, *, source: Address | None, destination: Address | None, command: Command = Command.PROXY
) -> bytes:
    """The bytes of a header with the TLVs of *block*, which holds no checksum. For the rest see ``write_header``.

    Raises:
        ValueError: The addresses are of different families, or the whole would be longer than a receiver takes.
    """
    family, addresses = pack_addresses(source, destination)
    transport = _STREAM if addresses else 0
    length = len(addresses) + len(block)
    if FIXED_LENGTH + length > MAX_HEADER_LENGTH:
        raise ValueError(f"a header is at most {MAX_HEADER_LENGTH} bytes")
    return _SIGNATURE + _AFTER_SIGNATURE.pack(0x20 | command, family << 4 | transport, length) + addresses + block


def _read_complete(header: bytes) -> Header:
    command, family, start, _ = _read_fixed(header[:FIXED_LENGTH])
    if command is _LOCAL:
        return Header(command, None, None, (), len(header))
    source, destination = unpack_addresses(family, header[FIXED_LENGTH:start])
    block = header[start:]
    read = read_block(block)
    if read.checksums:
        _verify_checksum(header, [(start + position, value) for position, value in read.checksums])
    return Header(command, source, destination, read.tlvs, len(header), block)


_remembered = lru_cache(REMEMBERED)(_read_complete)


@lru_cache(_REMEMBERED)
def _read_fixed(fixed: bytes) -> tuple[Command, Family, int, int]:
    """What the 16 bytes state: command, family, where the TLVs begin, length of the whole header."""
    command, family, length = _check_fixed(fixed)
    return command, family, FIXED_LENGTH + ADDRESS_LENGTH[family], length


def _expect_signature(buffer: bytes | bytearray) -> None:
    """Raise unless *buffer* can still become a signature. Who begins like neither version speaks something else."""
    if _SIGNATURE.startswith(buffer):
        return
    if buffer[0] == _SIGNATURE[0]:
        raise PrefaceError(Fault.BAD_SIGNATURE)
    if buffer.startswith(_SIGNATURE_V1):
        raise PrefaceError(Fault.VERSION_NOT_ALLOWED)
    if not _SIGNATURE_V1.startswith(buffer):
        raise PrefaceError(Fault.MISSING)


def _declared_length(buffer: bytes | bytearray) -> int:
    return FIXED_LENGTH + (buffer[14] << 8 | buffer[15])


def _check_fixed(buffer: bytes | bytearray) -> tuple[Command, Family, int]:
    """The fixed bytes, as far as they are there: command, family, length of the whole header.

    The values mean something only when all 16 bytes are there.
    """
    if not buffer.startswith(_SIGNATURE):
        _expect_signature(buffer)
    command, family, length = Command.PROXY, Family.UNSPEC, FIXED_LENGTH
    if len(buffer) > 12:
        if buffer[12] >> 4 != 2:
            raise PrefaceError(Fault.BAD_VERSION)
        if buffer[12] & 0x0F > Command.PROXY:
            raise PrefaceError(Fault.BAD_COMMAND)
        command = Command(buffer[12] & 0x0F)
    if len(buffer) > 13 and command is Command.PROXY:  # LOCAL: "the protocol block including the family ... is ignored"
        family = _read_family(buffer[13])
    if len(buffer) >= FIXED_LENGTH:
        length = _declared_length(buffer)
        if length > MAX_HEADER_LENGTH:
            raise PrefaceError(Fault.HEADER_TOO_LONG)
        if command is Command.PROXY and length - FIXED_LENGTH < ADDRESS_LENGTH[family]:
            raise PrefaceError(Fault.ADDRESS_BLOCK_SHORT)
    return command, family, length


def _read_family(byte: int) -> Family:
    if byte >> 4 > Family.UNIX:
        raise PrefaceError(Fault.BAD_FAMILY)
    family = Family(byte >> 4)
    # Datagram is read like stream. UNSPEC goes with no transport, the others with one: nothing else has a meaning.
    if byte & 0x0F not in ((0,) if family is Family.UNSPEC else (_STREAM, _DATAGRAM)):
        raise PrefaceError(Fault.BAD_TRANSPORT)
    return family


def _verify_checksum(header: bytes, checksums: list[tuple[int, bytes]]) -> None:
    if any(len(value) != 4 for _, value in checksums):
        raise PrefaceError(Fault.CRC_BAD_LENGTH)
    if len(checksums) > 1:  # each is summed with itself zeroed: no reading makes both right
        raise PrefaceError(Fault.CRC_DUPLICATE)
    ((position, value),) = checksums
    if crc32c(header[:position] + bytes(4) + header[position + 4 :]) != int.from_bytes(value, "big"):
        raise PrefaceError(Fault.CRC_MISMATCH)
