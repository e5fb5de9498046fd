"""The blocks of a PEM file, all of them or none.

Theory of operation. Libraries load "the certificates" of a file and step over what they don't recognise, so a bundle
with a damaged block loads without it, and half of the clients are refused. Here whatever looks like a block must be
one: a line that begins with a hyphen and is no marker, an end without its beginning, and content that isn't base64 are
faults of the file. Other text between blocks is allowed, as in bundles that name each root, and so are CRLF line ends.
RFC 7468 is the format, read strictly inside of a block (section 3, "stricttextualmsg", but for the length of lines).

Owns the format alone: what a block's content means is ``material``'s business. Pure.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sidecar.errors import SidecarError

_MARKER: Final = re.compile(rb"-----(BEGIN|END) ([A-Z0-9][A-Z0-9 ]*)-----")
_LIKE_A_MARKER: Final = re.compile(rb"-|.*-(BEGIN|END) ")
_HEADER: Final = re.compile(rb"[A-Za-z][A-Za-z0-9-]*:")


class MalformedPem(SidecarError):
    """A file that is no sequence of whole PEM blocks. The message names the block by its number, counted from 1."""


@dataclass(frozen=True, slots=True)
class Block:
    """One block.

    Attributes:
        number: its place in the file, counted from 1.
        label: what it says it is: ``CERTIFICATE``, ...
        der: its content, decoded.
    """

    number: int
    label: str
    der: bytes

    def __str__(self) -> str:
        return f"block {self.number} ({self.label})"


def read_blocks(text: bytes) -> tuple[Block, ...]:
    """Every block of *text*, in order; none where there is only other text. Raises MalformedPem."""
    return tuple(_blocks(text))


def _blocks(text: bytes) -> Iterator[Block]:
    number = 0
    label: bytes | None = None
    content: list[bytes] = []
    for line_number, line in enumerate(text.split(b"\n"), start=1):
        stripped = line.strip(b" \t\r\x0b\x0c")
        marker = _MARKER.fullmatch(stripped)
        if marker is None:
            if _LIKE_A_MARKER.match(stripped):
                raise MalformedPem(f"line {line_number} is a damaged PEM marker, near block {number or 1}")
            content += [stripped] if label is not None else []
        elif marker[1] == b"BEGIN":
            if label is not None:
                raise MalformedPem(f"block {number} has no end: another one begins on line {line_number}")
            number, label, content = number + 1, marker[2], []
        elif label is None:
            raise MalformedPem(f"line {line_number} ends a block that never began, after block {number}")
        elif marker[2] != label:
            raise MalformedPem(f"block {number} begins as {label.decode()} and ends as {marker[2].decode()}")
        else:
            yield Block(number, label.decode(), _decoded(number, content))
            label = None
    if label is not None:
        raise MalformedPem(f"block {number} has no end: the file is cut off")


def _decoded(number: int, lines: list[bytes]) -> bytes:
    if any(map(_HEADER.match, lines)):  # RFC 1421's, as in keys that are encrypted the old way
        raise MalformedPem(f"block {number} has headers: it is encrypted, or not for TLS")
    try:
        der = binascii.a2b_base64(b"".join(lines), strict_mode=True)
    except binascii.Error as error:
        raise MalformedPem(f"block {number} is damaged: its content is no base64") from error
    if not der:
        raise MalformedPem(f"block {number} is empty")
    return der
