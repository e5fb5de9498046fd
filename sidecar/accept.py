"""Taking a connection from the kernel.

Owns the accept call and what its errors mean. Called by ``listener``.
"""

from __future__ import annotations

import errno
import socket
from dataclasses import dataclass
from typing import Any, Final, Self

import trio

from sidecar.errors import SidecarError
from sidecar.preface.proxy_v2 import InetAddress
from sidecar.sockets import keep_alive

_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})


@dataclass(frozen=True, slots=True)
class Accepted:
    """A connection, and its two ends as the kernel names them: None on a Unix socket."""

    sock: socket.socket
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


class Acceptor:
    """Takes what waits in one listening socket's queue, past trio, which would wait for each connection.

    It uses that socket's descriptor, which it neither owns nor closes.
    """

    def __init__(self, listening: trio.SocketListener) -> None:
        self._listening = sock = socket.socket(fileno=listening.socket.fileno())
        sock.setblocking(False)  # noqa: FBT003  the call has no such keyword
        self._family = sock.family
        self._unix = self._family == socket.AF_UNIX
        self._protocol = 0 if self._unix else socket.IPPROTO_TCP
        self._local: InetAddress | None = None
        if not self._unix and not (local := _inet(sock.getsockname())).host.is_unspecified:
            self._local = local  # else each connection has an address of its own

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listening.detach()

    def keep_alive(self, seconds: float | None) -> None:
        """Have the kernel ask silent peers of those accepted from now on whether they are still there; None: never."""
        keep_alive(self._listening, seconds)

    async def wait(self) -> None:
        """Wait until somebody waits."""
        await trio.lowlevel.wait_readable(self._listening)

    def accept(self) -> Accepted | None:
        """The next connection, which doesn't block; None: nobody waits.

        Raises:
            AcceptFailed: there was one, and it can't be had.
        """
        try:
            # What accept() itself does beyond this takes microseconds: it makes two members of enums for each socket.
            fd, address = self._listening._accept()  # type: ignore[attr-defined]  # noqa: SLF001
        except BlockingIOError:
            return None
        except OSError as error:
            raise AcceptFailed(error) from error
        sock = socket.socket(self._family, socket.SOCK_STREAM, self._protocol, fd)  # each one not named is asked for
        sock.setblocking(False)  # noqa: FBT003  the call has no such keyword
        if self._unix:
            return Accepted(sock, None, None)
        # Not getpeername(), which fails where the peer is gone already.
        return Accepted(sock, _inet(address), self._local or _inet(sock.getsockname()))


def _inet(name: Any) -> InetAddress:
    return InetAddress.parse(name[0], name[1])
