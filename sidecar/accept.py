"""Taking a connection from the kernel.

Owns the accept call and what its errors mean. Called by ``listener``.
"""

from __future__ import annotations

import errno
import ipaddress
import select
from dataclasses import dataclass
from typing import Any, Final

import trio

from sidecar.errors import SidecarError
from sidecar.preface.proxy_v2 import InetAddress

_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})


@dataclass(frozen=True, slots=True)
class Accepted:
    """A connection, and its two ends as the kernel names them: None on a Unix socket."""

    stream: trio.SocketStream
    peer: InetAddress | None
    local: InetAddress | None


class AcceptFailed(SidecarError):
    """The kernel gave no connection. The cause is its OSError."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error.strerror or str(error))
        self.error = error

    @property
    def exhausted(self) -> bool:
        """Whether the process or the host is out of something, so that trying again at once is of no use."""
        return self.error.errno in _EXHAUSTED


async def accept(listening: trio.SocketListener) -> Accepted:
    """The next connection.

    Raises:
        AcceptFailed: there was one, and it can't be had.
    """
    try:
        sock, address = await listening.socket.accept()
    except OSError as error:
        raise AcceptFailed(error) from error
    # Not getpeername(), which fails where the peer is gone already.
    return Accepted(trio.SocketStream(sock), _inet(sock, address), _inet(sock, sock.getsockname()))


def has_waiting(listening: trio.SocketListener) -> bool:
    """Whether somebody waits in the kernel's queue, so that ``accept`` won't wait."""
    poll = select.poll()
    poll.register(listening.socket.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _inet(sock: trio.socket.SocketType, name: Any) -> InetAddress | None:
    if sock.family == trio.socket.AF_UNIX:
        return None
    return InetAddress(ipaddress.ip_address(name[0]), name[1])
