"""CRC32C (Castagnoli), the checksum of PROXY protocol v2 headers.

Owns the polynomial; doesn't know what it sums. Called by proxy_v2 for the few headers that carry the TLV, at most
4,096 bytes each, so a table a byte wide is fast enough and a compiled dependency isn't worth having.
"""

from __future__ import annotations

from typing import Final

_POLYNOMIAL: Final = 0x82F63B78  # 0x1EDC6F41 reflected: RFC 3720, appendix B.4


def _table_entry(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE: Final = tuple(_table_entry(byte) for byte in range(256))


def crc32c(data: bytes) -> int:
    """The CRC32C of *data*."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = (crc >> 8) ^ _TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF
