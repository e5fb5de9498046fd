r"""Bytes from the wire as text that is safe to show.

Owns the one escaping that logs, answers and error messages share: printable ASCII stays as it is, everything else
becomes ``\xhh``, so that a value can neither break a line nor move a terminal's cursor. Called by whoever shows what a
stranger sent; knows nothing of what the bytes mean.
"""

from __future__ import annotations

from typing import Final

_CUT: Final = "..."


def printable(raw: bytes, limit: int) -> str:
    """*raw* in at most *limit* characters of printable ASCII; what is left out shows as three dots.

    The backslash is escaped as well: different bytes never look the same, unless they were cut.
    """
    if len(raw) <= limit and raw.isascii() and b"\\" not in raw and (plain := raw.decode("ascii")).isprintable():
        return plain  # nearly always, and a loop over the bytes would be the dearest part of a log line
    # Every byte is at least one character: bytes past the limit are never escaped only to be cut.
    text = "".join(
        chr(byte) if 0x20 <= byte <= 0x7E and byte != 0x5C else f"\\x{byte:02x}" for byte in raw[: limit + 1]
    )
    return text if len(text) <= limit else text[: limit - len(_CUT)] + _CUT
