"""Addresses as the configuration writes them.

Owns their syntax: ``:port``, ``host:port``, ``[::1]:port``, ``unix:/path`` and ``handoff:/path``. Resolves nothing and
opens nothing. Each type is valid once constructed and spells itself the way it was written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, Self

Network = IPv4Network | IPv6Network

MAX_PORT: Final = 65535
MAX_SOCKET_PATH: Final = 107  # bytes: sun_path has 108, the last is NUL (unix(7))
MAX_HOST_LENGTH: Final = 253  # RFC 1035, section 2.3.4

_PORT = re.compile(r"0|[1-9][0-9]{0,4}")
_LABEL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_PREFIX_LENGTH = re.compile(r"0|[1-9][0-9]{0,2}")
_NO_NETWORK: Final = "must be a network such as 10.0.0.0/8 or fd00::/8, or one address"
_NO_PLACE: Final = 'must say where to: a host and a port other than 0, such as "127.0.0.1:2101"'
_NUMERIC = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")


def _check_host(host: str) -> None:
    if ":" in host:
        try:
            IPv6Address(host)
        except ValueError:
            raise ValueError("has an unusable IPv6 address between [ and ]") from None
        return
    labels = host.split(".")
    if len(host) > MAX_HOST_LENGTH or not all(_LABEL.fullmatch(label) for label in labels):
        raise ValueError("must have a host name or an address before the port; :port alone means all addresses")
    if _NUMERIC.fullmatch(labels[-1]):  # else the resolver would read 127.1 and 0177.0.0.1 in its own way
        try:
            IPv4Address(host)
        except ValueError:
            raise ValueError("has an unusable IPv4 address: write four decimal numbers without leading zeros") from None


def _parse_port(text: str) -> int:
    if not _PORT.fullmatch(text) or int(text) > MAX_PORT:
        raise ValueError(f"must end in a port, a decimal number of at most {MAX_PORT}")
    return int(text)


def _check_path(path: str) -> None:
    if not path.startswith("/") or path.startswith("//"):
        raise ValueError("must have an absolute path after the colon, such as unix:/run/sidecar.sock")
    if "\0" in path or len(path.encode("utf-8", "surrogatepass")) > MAX_SOCKET_PATH:
        raise ValueError(f"must have a socket path of at most {MAX_SOCKET_PATH} bytes without NUL")


@dataclass(frozen=True, slots=True)
class HostPort:
    """A TCP address.

    ``host`` None means all addresses, IPv4 and IPv6. Port 0 leaves the choice to the kernel; the log says which it is.
    """

    host: str | None
    port: int

    def __post_init__(self) -> None:
        if self.host is not None:
            _check_host(self.host)
        if not 0 <= self.port <= MAX_PORT:
            raise ValueError(f"must have a port of at most {MAX_PORT}")

    @classmethod
    def parse(cls, text: str) -> Self:
        """The address that *text* spells. Raises ValueError."""
        if "://" in text:
            raise ValueError("must be host:port, without http:// or another scheme")
        host, colon, port = text.rpartition(":")
        if not colon:
            raise ValueError('must be an address such as "127.0.0.1:7101", "[::1]:7101" or ":7101"')
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
            if ":" not in host:
                raise ValueError("must have an IPv6 address between [ and ]")
        elif ":" in host:
            raise ValueError('must have its IPv6 address in brackets, such as "[::1]:7101"')
        return cls(host or None, _parse_port(port))

    @property
    def address(self) -> IPv4Address | IPv6Address | None:
        """The host where it is an address; None for a name and for all addresses."""
        try:
            return ip_address(self.host or "")
        except ValueError:
            return None

    def __str__(self) -> str:
        host = self.host or ""
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class UnixPath:
    """A Unix stream socket in the file system."""

    path: str

    def __post_init__(self) -> None:
        _check_path(self.path)

    def __str__(self) -> str:
        return f"unix:{self.path}"


@dataclass(frozen=True, slots=True)
class Handoff:
    """A Unix socket of packets whose owner takes connections over as descriptors."""

    path: str

    def __post_init__(self) -> None:
        _check_path(self.path)

    def __str__(self) -> str:
        return f"handoff:{self.path}"


def parse_listen(text: str) -> HostPort | UnixPath:
    """Where to listen. Raises ValueError."""
    if text.startswith("unix:"):
        return UnixPath(text.removeprefix("unix:"))
    return HostPort.parse(text)


def parse_upstream(text: str) -> HostPort | UnixPath | Handoff:
    """Where to go on to: one place, so host and port must both be there. Raises ValueError."""
    if text.startswith("handoff:"):
        return Handoff(text.removeprefix("handoff:"))
    if ":" not in text:  # else its message would show ":port" among the ways to write it
        raise ValueError(_NO_PLACE)
    address = parse_listen(text)
    if isinstance(address, HostPort) and (address.host is None or address.port == 0):
        raise ValueError(_NO_PLACE)
    return address


def overlap(one: HostPort | UnixPath, other: HostPort | UnixPath) -> bool:
    """Whether two sockets can't both listen on these: one place, or one of them takes all addresses of the port."""
    if isinstance(one, UnixPath) or isinstance(other, UnixPath):
        return one == other
    if one.port != other.port or one.port == 0:
        return False
    if one.host is None or other.host is None:
        return True
    first, second = one.address, other.address
    if first is None or second is None:
        return one.host.lower() == other.host.lower()
    return first.version == second.version and (first == second or first.is_unspecified or second.is_unspecified)


def is_local(address: HostPort | UnixPath | Handoff) -> bool:
    """Whether only this machine can be meant: a path, a loopback address, or localhost."""
    if not isinstance(address, HostPort):
        return True
    return address.host == "localhost" or (address.address is not None and address.address.is_loopback)


def parse_network(text: str) -> Network:
    """A network, or a single address as one. Raises ValueError."""
    address, slash, length = text.partition("/")
    if "%" in address or (slash and not _PREFIX_LENGTH.fullmatch(length)):  # ip_network takes masks, some inverted
        raise ValueError(_NO_NETWORK)
    try:
        network = ip_network(text, strict=False)
    except ValueError:
        raise ValueError(_NO_NETWORK) from None
    if network.network_address != ip_address(address):
        raise ValueError("has bits set beyond its prefix length: write the network's first address")
    if isinstance(network, IPv6Network) and network.network_address.ipv4_mapped is not None:
        raise ValueError("is an IPv4-mapped network: write it as an IPv4 network")
    return network
