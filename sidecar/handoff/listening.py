"""Where a receiver waits for its sidecar, and whom it takes for that.

Owns the socket's file: what is left over at its path from a life before, its mode, and that it goes with the receiver.
The rule is that of the sidecar's own Unix sockets. Owns the check of who connects, too. Called by both forms.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import stat
import struct
from collections.abc import Collection
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from sidecar.errors import SidecarError, StartError

RETRY_SECONDS: Final = 1.0  # until the next try, where a lifeline can't be accepted for want of descriptors or memory

_BACKLOG: Final = 16
_CREDENTIALS: Final = struct.Struct("3i")  # struct ucred: pid, uid, gid


class WrongUserError(SidecarError):
    """Somebody connected who may not hand connections over."""


class NoLifelineError(SidecarError):
    """A sidecar's lifeline can't be accepted, for want of descriptors or memory."""


class _Peer(Protocol):
    def getsockopt(self, level: int, optname: int, buflen: int, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Listening:
    """A socket that listens for lifelines, and the file that is its own. Closing it removes the file."""

    socket: socket.socket
    _path: Path
    _inode: tuple[int, int]

    def close(self) -> None:
        """Stop listening."""
        with suppress(OSError):  # gone, or its directory is: then there is nothing to leave tidy
            if _inode(self._path) == self._inode:  # while the socket is open, nobody else's has this one
                self._path.unlink()
        self.socket.close()


def listen(path: str | os.PathLike[str], mode: int) -> Listening:
    """Listen at *path*; *mode* is the file's.

    A socket that a dead process left there makes room.

    Raises:
        StartError: something else is there, or the path can't be used.
    """
    path = Path(path)
    with ExitStack() as unless_listening:
        try:
            _clear_left_over(path)
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
            unless_listening.callback(sock.close)
            sock.bind(str(path))
            path.chmod(mode)  # before listen(), so that nobody gets in while the file's mode is the umask's
            inode = _inode(path)
            sock.listen(_BACKLOG)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise _in_use(path) from error
            raise StartError(f"can't listen at {path}: {error.strerror or error}: choose another path") from error
        unless_listening.pop_all()
    return Listening(sock, path, inode)


def check_user(lifeline: _Peer, users: Collection[int] | None) -> None:
    """Let only *users* hand connections over; None stands for root and this process's own.

    Raises:
        WrongUserError: another one has connected.
    """
    credentials = lifeline.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, user, _ = _CREDENTIALS.unpack(credentials)
    allowed = {0, os.geteuid()} if users is None else users
    if user not in allowed:
        names = ", ".join(map(str, sorted(allowed)))
        raise WrongUserError(f"process {pid} of user {user} may not hand connections over: only {names} may")


def log_fault(fault: SidecarError) -> None:
    """Write *fault* to the log of the process, as a warning: what is done where a caller doesn't say otherwise."""
    logging.getLogger("sidecar.handoff").warning("%s", fault)


def _inode(path: Path) -> tuple[int, int]:
    status = path.lstat()
    return status.st_dev, status.st_ino


def _clear_left_over(path: Path) -> None:
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise StartError(f"{path} exists and is no socket: remove it or choose another path")
    except OSError:
        return  # nothing there, or bind() will say what is wrong
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK) as probe:
        verdict = probe.connect_ex(str(path))
    if verdict == errno.ECONNREFUSED:
        path.unlink(missing_ok=True)
    elif verdict != errno.ENOENT:  # it answers, its queue is full, or we may not ask: not ours to remove
        raise _in_use(path)


def _in_use(path: Path) -> StartError:
    return StartError(f"{path} is already in use: stop what listens there or choose another path")
