"""The two ends of a connection as a header states them.

Owns addresses as values and as the block of bytes that follows a header's 16 fixed ones (HAProxy's proxy-protocol.txt,
section 2.2). Doesn't know the rest of a header. Called by proxy_v2, which checks a block's length first; the values are
used by everybody who names a peer.

Hosts come again and again, ports don't: reading a host and showing one are remembered for a while, since the standard
library takes microseconds for either. What was forgotten is read again; all that is remembered fits into 200 KiB.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum, unique
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final, Self

from sidecar.preface.printable import printable

_UNIX_PATH_LENGTH: Final = 108
_REMEMBERED: Final = 256  # hosts

Host = IPv4Address | IPv6Address


@unique
class Family(IntEnum):
    """What kind of addresses a header carries."""

    UNSPEC = 0
    INET = 1
    INET6 = 2
    UNIX = 3


_INET: Final = Family.INET  # in Python 3.11 taking a member from its class is a function call
_INET6: Final = Family.INET6
_INET_BLOCK: Final = struct.Struct("!4s4sHH")
_INET6_BLOCK: Final = struct.Struct("!16s16sHH")
_PORTS: Final = struct.Struct("!HH")

ADDRESS_LENGTH: Final = {
    Family.UNSPEC: 0,
    Family.INET: 2 * (4 + 2),
    Family.INET6: 2 * (16 + 2),
    Family.UNIX: 2 * _UNIX_PATH_LENGTH,
}


@dataclass(frozen=True, slots=True)
class InetAddress:
    """An IPv4 or IPv6 endpoint."""

    host: Host
    port: int

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 0xFFFF:
            raise ValueError("a port is between 0 and 65535")

    @classmethod
    def parse(cls, host: str, port: int) -> Self:
        """The end that the kernel names so. Raises ValueError."""
        return cls(_parsed(host), port)

    def __str__(self) -> str:
        return f"{_shown(self.host)}:{self.port}"


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
    if family is _INET:
        source, destination, source_port, destination_port = _INET_BLOCK.unpack(block)
    elif family is _INET6:
        source, destination, source_port, destination_port = _INET6_BLOCK.unpack(block)
    elif family is Family.UNIX:
        paths = block[:_UNIX_PATH_LENGTH], block[_UNIX_PATH_LENGTH:]
        return UnixAddress(paths[0].rstrip(b"\0")), UnixAddress(paths[1].rstrip(b"\0"))
    else:
        return None, None
    return InetAddress(_host(source), source_port), InetAddress(_host(destination), destination_port)


def pack_addresses(source: Address | None, destination: Address | None) -> tuple[Family, bytes]:
    """The family and the block that state these ends; IPv4-mapped IPv6 addresses go as IPv4.

    Raises:
        ValueError: They are of different families.
    """
    if isinstance(source, InetAddress) and isinstance(destination, InetAddress):
        hosts: tuple[Host, Host] = _unmapped(source.host), _unmapped(destination.host)
        if type(hosts[0]) is not type(hosts[1]):  # if only one of two IPv6 addresses is mapped, it stays so
            hosts = source.host, destination.host
        if type(hosts[0]) is type(hosts[1]):
            family = _INET if isinstance(hosts[0], IPv4Address) else _INET6
            return family, hosts[0].packed + hosts[1].packed + _PORTS.pack(source.port, destination.port)
    elif isinstance(source, UnixAddress) and isinstance(destination, UnixAddress):
        return Family.UNIX, b"".join(end.path.ljust(_UNIX_PATH_LENGTH, b"\0") for end in (source, destination))
    elif source is None and destination is None:
        return Family.UNSPEC, b""
    raise ValueError(f"source and destination are of different families: {source}, {destination}")


@lru_cache(_REMEMBERED)
def _host(packed: bytes) -> Host:
    return IPv4Address(packed) if len(packed) == 4 else IPv6Address(packed)


@lru_cache(_REMEMBERED)
def _parsed(host: str) -> Host:
    return ip_address(host)


@lru_cache(_REMEMBERED)
def _shown(host: Host) -> str:
    return f"[{host}]" if host.version == 6 else str(host)


def _unmapped(host: Host) -> Host:
    if isinstance(host, IPv4Address):
        return host
    return host.ipv4_mapped or host
