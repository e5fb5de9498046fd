"""Who listens in this network namespace, as the kernel tells it in /proc/net.

Owns these files' format (proc(5)): hexadecimal addresses in the host's byte order, states, inodes. The containers of a
pod share one network namespace, so its files show the local process's sockets too. Connects to nobody: a look leaves
no trace at the one who listens. Blocks, for longer where there are many Unix sockets: call it in a thread. Called by
``exposure``.
"""

from __future__ import annotations

import os
import re
import socket
import stat
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from ipaddress import IPv4Address, IPv6Address, ip_address
from itertools import chain
from pathlib import Path
from typing import Final

from sidecar.config import HostPort, UnixPath

PROC: Final = Path("/proc/self")

IpAddress = IPv4Address | IPv6Address

_LOOPBACK: Final[tuple[IpAddress, ...]] = (IPv4Address("127.0.0.1"), IPv6Address("::1"))
# Row number, local address and port, peer, the state LISTEN, queues, timer, retransmits, uid, timeout, inode.
_TCP: Final = re.compile(
    r"\s*\d+: (?P<host>[0-9A-F]{8}|[0-9A-F]{32}):(?P<port>[0-9A-F]{4}) [0-9A-F]+:[0-9A-F]{4} 0A"
    r" \S+ \S+ \S+\s+\d+\s+\d+ (?P<inode>\d+)(?: .*)?"
)
_NO_LISTENER: Final = re.compile(r"\s*\d+: [0-9A-F]+:[0-9A-F]{4} [0-9A-F]+:[0-9A-F]{4} (?!0A)[0-9A-F]{2} ")
# Address, references, protocol, flags with SO_ACCEPTCON, the type SOCK_STREAM, state, inode, path.
_UNIX: Final = re.compile(
    r"[0-9a-fA-F]+: [0-9A-F]+ [0-9A-F]+ [0-9A-F]{3}1[0-9A-F]{4} 0001 [0-9A-F]{2} +(?P<inode>\d+) (?P<path>.+)"
)


@dataclass(frozen=True, slots=True)
class ListeningTcp:
    """A TCP socket that listens. An IPv4-mapped address is given as the IPv4 address that it means."""

    address: IpAddress
    port: int
    inode: int

    def takes(self, address: IpAddress) -> bool:
        """Whether it gets what is dialled at *address*.

        One at ``::`` may be for IPv6 alone, which the kernel doesn't show here: it counts for IPv4 too.
        """
        if self.address.is_unspecified:
            return self.address.version >= address.version
        return self.address == address

    def __str__(self) -> str:
        return str(HostPort(str(self.address), self.port))


@dataclass(frozen=True, slots=True)
class ListeningUnix:
    """A Unix stream socket that listens, at the path that its owner gave when it was bound.

    The owner may see that folder elsewhere than this process does, or have named it relative to its own.
    """

    path: str
    inode: int


def parse_tcp(rows: Iterable[str]) -> Iterator[ListeningTcp]:
    """The sockets that listen, from the rows of /proc/net/tcp or tcp6.

    The kernel shows these before all others, so nothing is read beyond them: a host may have tens of thousands of
    connections. What is no row is left out.
    """
    for row in rows:
        if match := _TCP.fullmatch(row.rstrip("\n")):
            yield ListeningTcp(_address(match["host"]), int(match["port"], 16), int(match["inode"]))
        elif _NO_LISTENER.match(row):
            return


def parse_unix(rows: Iterable[str]) -> Iterator[ListeningUnix]:
    """The stream sockets that listen at a path, from the rows of /proc/net/unix. Abstract names are left out."""
    for row in rows:
        if (match := _UNIX.fullmatch(row.rstrip("\n"))) and not match["path"].startswith("@"):
            yield ListeningUnix(match["path"], int(match["inode"]))


def _address(digits: str) -> IpAddress:
    """Each 32 bits are printed as one number of the host's byte order, though they are stored in the network's."""
    words = (int(digits[start : start + 8], 16) for start in range(0, len(digits), 8))
    packed = b"".join(word.to_bytes(4, sys.byteorder) for word in words)
    return _unmapped(ip_address(packed))


def _unmapped(address: IpAddress) -> IpAddress:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


class Look:
    """One look at the namespace. Each file is read when it is needed first, and once.

    Args:
        proc: the folder of this process's state.

    Its methods raise OSError where /proc can't be read.
    """

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc

    def beyond_loopback(self, upstream: HostPort | UnixPath) -> list[str]:
        """The ways round: where else than on loopback others' sockets listen on the upstream's port.

        An upstream that can't be seen from here (see :func:`can_be_seen`), and a path, has none.
        """
        if isinstance(upstream, UnixPath) or not can_be_seen(upstream):
            return []
        found = [
            each
            for each in chain(self._tcp, self._tcp6)
            if each.port == upstream.port and not each.address.is_loopback and each.inode not in self._own
        ]
        return sorted({str(each) for each in found})

    def listens(self, upstream: HostPort | UnixPath) -> bool:
        """Whether somebody listens where *upstream* is dialled.

        True as well where that can't be seen from here (see :func:`can_be_seen`): nothing was found missing.
        """
        if isinstance(upstream, UnixPath):
            return self._listens_at(upstream.path)
        if not can_be_seen(upstream):
            return True
        dialled = _dialled(upstream)
        return any(
            each.port == upstream.port and any(each.takes(address) for address in dialled)
            for each in chain(self._tcp, self._tcp6)
        )

    def _listens_at(self, path: str) -> bool:
        """By the file's own name: the local process's container may have the folder mounted elsewhere."""
        if not _is_socket(path):
            return False
        names = {os.path.basename(path), os.path.basename(os.path.realpath(path))}  # noqa: PTH119  no Path is at hand
        return any(os.path.basename(each.path) in names and each.inode not in self._own for each in self._unix)  # noqa: PTH119

    @cached_property
    def _tcp(self) -> list[ListeningTcp]:
        return list(parse_tcp(self._rows("net/tcp")))

    @cached_property
    def _tcp6(self) -> list[ListeningTcp]:
        try:
            return list(parse_tcp(self._rows("net/tcp6")))
        except FileNotFoundError:  # a kernel without IPv6
            return []

    @cached_property
    def _unix(self) -> list[ListeningUnix]:
        return list(parse_unix(self._rows("net/unix")))

    @cached_property
    def _own(self) -> frozenset[int]:
        """The inodes of this process's own sockets."""
        return frozenset(_own_sockets(self._proc / "fd"))

    def _rows(self, name: str) -> Iterator[str]:
        # A path may hold any bytes; only \n ends a row.
        with (self._proc / name).open(encoding="utf-8", errors="surrogateescape", newline="\n") as rows:
            yield from rows


def can_be_seen(upstream: HostPort | UnixPath) -> bool:
    """Whether a look here tells anything of *upstream*: it is a path, localhost, or an address of this host.

    Names other than localhost aren't resolved: the answer could change between two looks, and wait for a server.
    """
    return isinstance(upstream, UnixPath) or any(
        address.is_loopback or _is_own(address) for address in _dialled(upstream)
    )


def _dialled(upstream: HostPort) -> tuple[IpAddress, ...]:
    """The addresses that stand for its host; none for a name."""
    if upstream.host is not None and upstream.host.lower() == "localhost":
        return _LOOPBACK
    address = upstream.address
    if address is None:
        return ()
    address = _unmapped(ip_address(address.packed))  # without a scope, which the kernel's rows don't have either
    if address.is_unspecified:  # the kernel takes a dial there to loopback
        return tuple(loopback for loopback in _LOOPBACK if loopback.version == address.version)
    return (address,)


def _is_own(address: IpAddress) -> bool:
    """Whether it is this host's: others can't be bound. A datagram socket, since that takes no port from anybody."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((str(address), 0))
    except OSError:
        return False
    return True


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)  # noqa: PTH116  as above
    except OSError:
        return False


def _own_sockets(descriptors: Path) -> Iterator[int]:
    for entry in os.scandir(descriptors):
        try:
            target = os.readlink(entry.path)  # noqa: PTH115  thousands of them
        except FileNotFoundError:  # closed in the meantime
            continue
        if target.startswith("socket:["):
            yield int(target[len("socket:[") : -1])
