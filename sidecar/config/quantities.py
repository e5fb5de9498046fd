"""Durations and sizes as text.

Owns the two notations, nothing of what they are for. Numbers are whole and carry a unit, since a bare 5 has been read
as seconds by one program and as milliseconds by the next.
"""

from __future__ import annotations

import re
from typing import Final

NEVER: Final = "never"
MAX_DURATION: Final = 8760 * 3600.0  # seconds in a year: beyond it a slip is likelier than a wish

_MILLISECONDS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_BYTES: Final = {"KiB": 1024, "MiB": 1024**2}
MAX_SIZE: Final = 1024**3

DURATION_PATTERN: Final = r"(0|[1-9][0-9]{0,11})(ms|s|m|h)"
SIZE_PATTERN: Final = r"(0|[1-9][0-9]{0,11})(KiB|MiB)"
_DURATION = re.compile(DURATION_PATTERN)
_SIZE = re.compile(SIZE_PATTERN)


def parse_duration(text: str) -> float:
    """Seconds. Raises ValueError."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError("must be a whole number with a unit, ms, s, m or h: for example 5s")
    seconds = int(match[1]) * _MILLISECONDS[match[2]] / 1000
    if seconds > MAX_DURATION:
        raise ValueError("must be at most a year")
    return seconds


def spell_duration(seconds: float | None) -> str:
    """The shortest text that `parse_duration` reads as *seconds*; ``never`` for None."""
    if seconds is None:
        return NEVER
    milliseconds = round(seconds * 1000)
    for unit in ("h", "m", "s"):
        if milliseconds and milliseconds % _MILLISECONDS[unit] == 0:
            return f"{milliseconds // _MILLISECONDS[unit]}{unit}"
    return f"{milliseconds}ms" if milliseconds else "0s"


def parse_size(text: str) -> int:
    """Bytes. Raises ValueError."""
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError("must be a whole number with a unit, KiB or MiB: for example 64KiB")
    size = int(match[1]) * _BYTES[match[2]]
    if not 0 < size <= MAX_SIZE:
        raise ValueError("must be more than zero and at most 1024MiB")
    return size
