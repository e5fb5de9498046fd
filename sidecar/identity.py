"""The names of things: identity, generation, instance, epoch, controller name.

Owns their syntax (docs/wire.md, "Values") and nothing else. Each type is frozen and valid once constructed; text and
bytes from outside become values through ``parse`` and ``from_wire``, which reject what isn't exactly in canonical form.
Nothing is folded, trimmed, decoded or normalised: two values are the same when their bytes are. Python's ``int()`` is
never let near outside text, since it takes signs, blanks, underscores and other scripts' digits.

Called by every layer; knows none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

from sidecar.errors import MalformedValue

MAX_COUNTER: Final = 2**64 - 1  # generations and epochs are unsigned 64-bit
MAX_ORDINAL: Final = 2**31 - 1  # what Kubernetes can count replicas to
MAX_TOKEN_LENGTH: Final = 128

_SEGMENT = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_DECIMAL = re.compile(r"0|[1-9][0-9]{0,19}")  # 20 digits are enough for 2^64-1
_TOKEN = re.compile(r"[!-~]{1,128}")


def _ascii(raw: bytes) -> str:
    try:
        return raw.decode("ascii")
    except UnicodeDecodeError:
        raise MalformedValue("has bytes outside ASCII") from None


def _decimal(text: str, smallest: int, largest: int) -> int:
    if not _DECIMAL.fullmatch(text):
        raise MalformedValue("must be a decimal number without sign, blanks or leading zeros")
    number = int(text)
    if not smallest <= number <= largest:
        raise MalformedValue(f"must be between {smallest} and {largest}")
    return number


@dataclass(frozen=True, slots=True)
class Identity:
    """A slot's name, ``<cluster>/<replica>/<ordinal>``."""

    cluster: str
    replica: str
    ordinal: int

    def __post_init__(self) -> None:
        for name, segment in (("cluster", self.cluster), ("replica", self.replica)):
            if not _SEGMENT.fullmatch(segment):
                raise MalformedValue(f"{name} must be 1 to 63 of A-Z a-z 0-9 . _ - with a letter or digit at both ends")
        if not 0 <= self.ordinal <= MAX_ORDINAL:
            raise MalformedValue(f"ordinal must be between 0 and {MAX_ORDINAL}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """The identity that *text* spells. Raises MalformedValue."""
        segments = text.split("/")
        if len(segments) != 3:
            raise MalformedValue("must be <cluster>/<replica>/<ordinal>: exactly three segments")
        try:
            ordinal = _decimal(segments[2], 0, MAX_ORDINAL)
        except MalformedValue as error:
            raise MalformedValue(f"ordinal {error}") from None
        return cls(segments[0], segments[1], ordinal)

    @classmethod
    def from_wire(cls, raw: bytes) -> Self:
        """The identity that *raw* spells. Raises MalformedValue."""
        return cls.parse(_ascii(raw))

    def __str__(self) -> str:
        return f"{self.cluster}/{self.replica}/{self.ordinal}"


@dataclass(frozen=True, slots=True, order=True)
class _Counter:
    """An unsigned 64-bit number that starts at 1 and is written in decimal."""

    value: int

    def __post_init__(self) -> None:
        if not 1 <= self.value <= MAX_COUNTER:
            raise MalformedValue(f"must be between 1 and {MAX_COUNTER}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """The number that *text* spells. Raises MalformedValue."""
        return cls(_decimal(text, 1, MAX_COUNTER))

    @classmethod
    def from_wire(cls, raw: bytes) -> Self:
        """The number that *raw* spells in decimal. Raises MalformedValue."""
        return cls.parse(_ascii(raw))

    def __str__(self) -> str:
        return str(self.value)


class Generation(_Counter):
    """Which launch of a slot: grows at each one."""

    __slots__ = ()


class Epoch(_Counter):
    """A controller's fencing token: a later leader has a larger one."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class _Token:
    """1 to 128 printable ASCII bytes without blanks, compared byte for byte."""

    value: str

    def __post_init__(self) -> None:
        if not _TOKEN.fullmatch(self.value):
            raise MalformedValue(f"must be 1 to {MAX_TOKEN_LENGTH} printable ASCII characters without blanks")

    @classmethod
    def parse(cls, text: str) -> Self:
        """The token that *text* spells: itself. Raises MalformedValue."""
        return cls(text)

    @classmethod
    def from_wire(cls, raw: bytes) -> Self:
        """The token that *raw* spells. Raises MalformedValue."""
        return cls.parse(_ascii(raw))

    def __str__(self) -> str:
        return self.value


class Instance(_Token):
    """The opaque id of the pod that runs a slot: in Kubernetes its UID."""

    __slots__ = ()


class ControllerName(_Token):
    """Who dials."""

    __slots__ = ()
