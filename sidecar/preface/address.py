"""The two ends of a connection as a header states them.

Owns addresses as values and as the block of bytes that follows a header's 16 fixed ones (HAProxy's proxy-protocol.txt,
section 2.2). Doesn't know the rest of a header. Called by proxy_v2, which checks a block's length first; the values are
used by everybody who names a peer.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum, unique
from ipaddress import IPv4Address, IPv6Address
from typing import Final

from sidecar.preface.printable import printable

_UNIX_PATH_LENGTH: Final = 108


@unique
class Family(IntEnum):
    """What kind of addresses a header carries."""

    UNSPEC = 0
    INET = 1
    INET6 = 2
    UNIX = 3


ADDRESS_LENGTH: Final = {
    Family.UNSPEC: 0,
    Family.INET: 2 * (4 + 2),
    Family.INET6: 2 * (16 + 2),
    Family.UNIX: 2 * _UNIX_PATH_LENGTH,
}


@dataclass(frozen=True, slots=True)
class InetAddress:
    """An IPv4 or IPv6 endpoint."""

    host: IPv4Address | IPv6Address
    port: int

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 0xFFFF:
            raise ValueError("a port is between 0 and 65535")

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if self.host.version == 6 else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """A Unix socket's path; an abstract one begins with NUL, an unnamed one is empty."""

    path: bytes

    def __post_init__(self) -> None:
        # The field is padded with NUL bytes: one at the path's end would not come back.
        if len(self.path) > _UNIX_PATH_LENGTH or self.path.endswith(b"\0"):
            raise ValueError(f"a Unix address is at most {_UNIX_PATH_LENGTH} bytes and doesn't end in NUL")

    def __str__(self) -> str:
        return f"unix:{printable(self.path, 4 * _UNIX_PATH_LENGTH)}"


Address = InetAddress | UnixAddress


def unpack_addresses(family: Family, block: bytes) -> tuple[Address, Address] | tuple[None, None]:
    """Source and destination from *block*, which is as long as *family* takes."""
    match family:
        case Family.UNSPEC:
            return None, None
        case Family.INET:
            source, destination, source_port, destination_port = struct.unpack("!4s4sHH", block)
            return (
                InetAddress(IPv4Address(source), source_port),
                InetAddress(IPv4Address(destination), destination_port),
            )
        case Family.INET6:
            source, destination, source_port, destination_port = struct.unpack("!16s16sHH", block)
            return (
                InetAddress(IPv6Address(source), source_port),
                InetAddress(IPv6Address(destination), destination_port),
            )
        case Family.UNIX:
            return (
                UnixAddress(block[:_UNIX_PATH_LENGTH].rstrip(b"\0")),
                UnixAddress(block[_UNIX_PATH_LENGTH:].rstrip(b"\0")),
            )


def pack_addresses(source: Address | None, destination: Address | None) -> tuple[Family, bytes]:
    """The family and the block that state these ends; IPv4-mapped IPv6 addresses go as IPv4.

    Raises:
        ValueError: They are of different families.
    """
    match source, destination:
        case None, None:
            return Family.UNSPEC, b""
        case UnixAddress(), UnixAddress():
            return Family.UNIX, b"".join(end.path.ljust(_UNIX_PATH_LENGTH, b"\0") for end in (source, destination))
        case InetAddress(), InetAddress():
            hosts = (_unmapped(source.host), _unmapped(destination.host))
            ports = struct.pack("!HH", source.port, destination.port)
            if hosts[0].version == hosts[1].version:
                family = Family.INET if hosts[0].version == 4 else Family.INET6
                return family, hosts[0].packed + hosts[1].packed + ports
            if source.host.version == destination.host.version:  # one of two IPv6 addresses is mapped: it stays so
                return Family.INET6, source.host.packed + destination.host.packed + ports
    raise ValueError(f"source and destination are of different families: {source}, {destination}")


def _unmapped(host: IPv4Address | IPv6Address) -> IPv4Address | IPv6Address:
    mapped = host.ipv4_mapped if isinstance(host, IPv6Address) else None
    return mapped or host
