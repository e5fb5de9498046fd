"""From a configured address to sockets that listen.

Owns what listening takes on this host: two families behind one port, what is left over on a Unix path from a life
before, and the kernel's errors, which become a :class:`~sidecar.errors.StartError` that names the configuration's key.
Accepts nothing; called by ``app`` for the listeners and for both HTTP servers.
"""

from __future__ import annotations

import errno
import os
import socket
import stat
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import trio

from sidecar.config import HostPort, UnixPath
from sidecar.errors import StartError

BACKLOG: Final = 4096  # the kernel lowers it to net.core.somaxconn
PORT_ATTEMPTS: Final = 16  # for a port of the kernel's choice that is free in both families

_IPV6_ADDRESSES: Final = Path("/proc/net/if_inet6")
_NO_FAMILY: Final = {errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL}
_FAMILY_NAMES: Final = {socket.AF_INET: "IPv4", socket.AF_INET6: "IPv6"}

_Candidate = tuple[socket.AddressFamily, str, tuple[object, ...]]  # host, and after the port flow and scope (IPv6)


@dataclass(frozen=True, slots=True)
class _SocketFile:
    """The file of a Unix socket that is ours: told from another one's under the same name by its inode."""

    path: Path
    device: int
    inode: int

    @classmethod
    def at(cls, path: Path) -> _SocketFile:
        status = path.lstat()
        return cls(path, status.st_dev, status.st_ino)

    def is_there(self) -> bool:
        """Whether it still is what stands at its path. To be asked while the socket is open: that keeps its inode."""
        try:
            return _SocketFile.at(self.path) == self
        except OSError:  # gone, or its directory is
            return False

    def remove(self) -> None:
        if self.is_there():
            with suppress(OSError):  # then there is nothing to leave tidy
                self.path.unlink()


@dataclass(frozen=True, slots=True)
class Bound(trio.abc.AsyncResource):
    """Sockets that listen, for one configured address. Closing it closes them and removes a Unix socket's file.

    ``missing`` names the address families that this host doesn't have and that were left out: worth a line in the log.
    """

    listeners: tuple[trio.SocketListener, ...]
    missing: tuple[str, ...] = ()
    _file: _SocketFile | None = field(default=None, repr=False)

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where it listens, spelt as in the configuration, with the port that the kernel chose."""
        return tuple(_spell(listener.socket.getsockname()) for listener in self.listeners)

    def is_there(self) -> bool:
        """Whether diallers find it: a Unix socket's file stands where it was made, and no other. TCP is always found.

        A file that can't be looked at counts as gone.
        """
        return self._file is None or self._file.is_there()

    async def aclose(self) -> None:
        """Stop listening. Connections that were accepted live on; those still in the backlog are reset."""
        if self._file is not None:
            self._file.remove()
        for listener in self.listeners:
            listener.socket.close()
        await trio.lowlevel.checkpoint()


async def bind(address: HostPort | UnixPath, *, what: str, mode: int = 0o600, clear_left_over: bool = True) -> Bound:
    """Listen on *address*.

    A host of None means every address, IPv4 and IPv6: one socket for each family, on one port, whatever
    ``net.ipv6.bindv6only`` says. A family that the host doesn't have is left out there (see ``Bound.missing``); where
    the address itself names it, it is an error.

    Args:
        address: where.
        what: the configuration's key, for messages, such as ``admin.listen``.
        mode: permission bits of a Unix socket's file.
        clear_left_over: whether a socket that a dead process left on a Unix path makes room.

    Raises:
        StartError: the address is taken, isn't this host's, or may not be bound.
    """
    if isinstance(address, UnixPath):
        return await _bind_unix(address, what, mode, clear_left_over=clear_left_over)
    candidates = await _candidates(address, what)
    for attempts_left in reversed(range(PORT_ATTEMPTS)):
        try:
            return await _bind_all(candidates, address.port)
        except OSError as error:
            if error.errno == errno.EADDRINUSE and address.port == 0 and attempts_left:
                continue  # the port that the kernel chose for one family is taken in the other
            raise _start_error(error, address, what) from error
    raise AssertionError("the last attempt returns or raises")


async def _candidates(address: HostPort, what: str) -> list[_Candidate]:
    if address.host is None:
        return [(socket.AF_INET, "0.0.0.0", ()), (socket.AF_INET6, "::", ())]  # noqa: S104  that is what it means
    try:
        found = await trio.socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
    except socket.gaierror as error:
        raise StartError(f"{what}: {address.host} can't be resolved ({error.strerror}): write an address") from error
    return list(dict.fromkeys((family, str(name[0]), name[2:]) for family, _, _, _, name in found))


async def _bind_all(candidates: Sequence[_Candidate], port: int) -> Bound:
    """Listen on all of *candidates* with one port, leaving out families that this host doesn't have if any is left."""
    listeners: list[trio.SocketListener] = []
    missing: dict[str, OSError] = {}
    with ExitStack() as unless_all:
        for family, host, rest in candidates:
            try:
                listener = await _listen(family, (host, port, *rest))
            except OSError as error:
                if error.errno not in _NO_FAMILY:
                    raise
                missing[_FAMILY_NAMES[family]] = error
            else:
                unless_all.callback(listener.socket.close)
                listeners.append(listener)
                port = listener.socket.getsockname()[1]
        if not listeners:
            raise next(iter(missing.values()))
        unless_all.pop_all()
    return Bound(tuple(listeners), tuple(missing))


async def _listen(family: socket.AddressFamily, address: tuple[object, ...]) -> trio.SocketListener:
    if family == socket.AF_INET6 and _lacks_ipv6():
        raise OSError(errno.EAFNOSUPPORT, "no interface has an IPv6 address")
    with ExitStack() as unless_bound:
        sock = trio.socket.socket(family, socket.SOCK_STREAM)
        unless_bound.callback(sock.close)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a restart finds the last life in TIME_WAIT
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        await sock.bind(address)
        sock.listen(BACKLOG)
        unless_bound.pop_all()
    return trio.SocketListener(sock)


def _lacks_ipv6() -> bool:
    """Whether IPv6 is switched off by net.ipv6.conf.all.disable_ipv6.

    The kernel lets "::" be bound then, where nobody can arrive. Not even loopback has an address: the list is empty.
    """
    try:
        return not _IPV6_ADDRESSES.read_bytes()
    except OSError:  # no such list: then the kernel says it when a socket is made
        return False


async def _bind_unix(address: UnixPath, what: str, mode: int, *, clear_left_over: bool) -> Bound:
    path = Path(address.path)
    with ExitStack() as unless_bound:
        try:
            if clear_left_over:
                _clear_left_over(path, what)
            sock = trio.socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            unless_bound.callback(sock.close)
            await sock.bind(address.path)
            file = _own(path, mode)  # before listen(), so that nobody gets in while the file's mode is the umask's
            sock.listen(BACKLOG)
        except OSError as error:
            raise _start_error(error, address, what) from error
        unless_bound.pop_all()
    return Bound((trio.SocketListener(sock),), _file=file)


def _own(path: Path, mode: int) -> _SocketFile:
    path.chmod(mode)
    return _SocketFile.at(path)


def _clear_left_over(path: Path, what: str) -> None:
    """Remove the socket that a dead process left at *path*; anything else there stays and is an error."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise StartError(f"{what}: {path} exists and is no socket: remove it or change {what}")
    except OSError:
        return  # nothing there, or bind() will say what is wrong
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(0)
        verdict = probe.connect_ex(str(path))
    if verdict == errno.ECONNREFUSED:
        path.unlink(missing_ok=True)
    elif verdict != errno.ENOENT:  # it answers, its queue is full, or we may not ask: not ours to remove
        raise _in_use(f"unix:{path}", what)


def _in_use(address: object, what: str) -> StartError:
    return StartError(f"{what}: address {address} is already in use: stop what listens there or change {what}")


def _start_error(error: OSError, address: HostPort | UnixPath, what: str) -> StartError:
    match error.errno:
        case errno.EADDRINUSE:
            return _in_use(address, what)
        case errno.EAFNOSUPPORT:
            family = "IPv6" if ":" in str(getattr(address, "host", "")) else "its address family"
            return StartError(f"{what}: this host has no {family}, which {address} needs: change {what}")
        case errno.EADDRNOTAVAIL:
            return StartError(f"{what}: {address} is no address of this host: change {what}")
        case errno.EACCES if isinstance(address, HostPort):
            return StartError(f"{what}: {address} may not be bound by this user: choose a port of 1024 or above")
        case number:
            reason = os.strerror(number) if number else str(error)
            return StartError(f"{what}: can't listen on {address}: {reason}: change {what}")


def _spell(name: object) -> str:
    """A socket's own name in the configuration's spelling."""
    if isinstance(name, tuple):
        host, port = name[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return f"unix:{name}"
