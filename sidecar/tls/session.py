"""The sidecar's side of a TLS connection: OpenSSL on the accepted socket itself, spoken to like a socket.

Theory of operation. OpenSSL reads and writes the descriptor, so that no byte is copied through memory of ours and the
kernel's readiness is the session's: a record is taken from the kernel no sooner than it is asked for, and each read
asks for a whole one, so that nothing is left inside OpenSSL that an epoll wouldn't tell of. What a read finds behind
the bytes that it returns (the end, or a fault) is kept for the next one, and ``unread`` says so. Rejected: memory in
place of the socket, as on the dialler's side (``stream``): it copies everything twice, and doubles what an idle
connection holds.

The methods are a socket's: they raise BlockingIOError where the kernel isn't ready and ConnectionError where the
session is broken; an end of the peer's stream without close_notify is such a break and no end, since what came before
may not be all. One thread at a time may call them.

Owns the session; the socket is the caller's, to be waited for and closed. Called by ``arrival``, while trio's thread
has it, and by ``relay``.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from enum import Enum, auto
from typing import Final

from OpenSSL import SSL

from sidecar.errors import SidecarError
from sidecar.reasons import TlsFailure
from sidecar.tls.verification import cause_of, describe

RECORD: Final = 16 * 1024  # the most that one record carries (RFC 8446, section 5.1)


class ShakeWait(Enum):
    """What a handshake waits for."""

    READABLE = auto()
    WRITABLE = auto()


class ShakeFailed(SidecarError):
    """The handshake failed; the peer has been sent the alert. The text says what was wrong with what."""

    def __init__(self, cause: TlsFailure, message: str) -> None:
        super().__init__(message)
        self.cause = cause


class NothingSaid(SidecarError):
    """The peer has gone before its first byte."""


class Session:
    """One accepted connection's TLS.

    Args:
        context: what is spoken, and who is trusted.
        sock: the accepted socket, which doesn't block.
    """

    __slots__ = ("_found", "_heard", "_sock", "connection")

    def __init__(self, context: SSL.Context, sock: socket.socket) -> None:
        self._sock = sock
        self._heard = False
        self._found: int | ConnectionError | None = None  # behind what was read last: the end (0), or a fault
        self.connection: Final = SSL.Connection(context, sock)
        self.connection.set_accept_state()

    def shake(self, wall_clock: Callable[[], float]) -> ShakeWait | None:
        """Go on with the handshake as far as it goes; None: it is done. *wall_clock*: what certificates go by.

        Raises:
            NothingSaid: the peer wanted nothing.
            ShakeFailed: it failed.
        """
        if not self._heard:
            try:
                first = self._sock.recv(1, socket.MSG_PEEK)
            except BlockingIOError:
                return ShakeWait.READABLE
            except OSError:
                first = b""
            if not first:
                raise NothingSaid("no byte came")
            self._heard = True
        try:
            self.connection.do_handshake()
        except SSL.WantReadError:
            return ShakeWait.READABLE
        except SSL.WantWriteError:
            return ShakeWait.WRITABLE
        except SSL.Error as error:
            message = describe(self.connection, error, wall_clock())
            raise ShakeFailed(cause_of(self.connection, error), message) from error
        return None

    @property
    def unread(self) -> bool:
        """Whether a read has something to say though the kernel has nothing."""
        return self._found is not None or self.connection.pending() > 0

    def recv(self, size: int) -> bytes:
        """What has come, up to *size* bytes or one record, if that is more; nothing: the peer has ended its stream."""
        buffer = memoryview(bytearray(max(size, RECORD)))
        return bytes(buffer[: self.recv_into(buffer)])

    def recv_into(self, buffer: memoryview) -> int:
        """Read what *buffer*, which takes a record at least, has room for: full records, and one that isn't. The bytes.

        After one that isn't full there is most likely nothing, and to hear that costs as much as to read a record; if
        there is something, the kernel says so again.
        """
        if self._found is not None:
            return self._tell()
        got = 0
        try:
            while len(buffer) - got >= RECORD:
                size = self.connection.recv_into(buffer[got:], RECORD)
                got += size
                if size < RECORD:
                    break
        except (SSL.WantReadError, SSL.WantWriteError):
            if not got:
                raise BlockingIOError from None
        except SSL.ZeroReturnError:
            self._found = 0
        except SSL.Error as error:
            self._found = _broken(error)
        return got or self._tell()

    def _tell(self) -> int:
        if isinstance(self._found, ConnectionError):
            raise self._found
        return 0

    def send(self, data: bytes | memoryview) -> int:
        """Send as much of *data* as the kernel takes. What it doesn't take has to be sent next, as it was."""
        view = memoryview(data)
        sent = 0
        try:
            while sent < len(view):
                sent += self.connection.send(view[sent : sent + RECORD])
        except (SSL.WantWriteError, SSL.WantReadError):
            if not sent:
                raise BlockingIOError from None
        except SSL.Error as error:
            raise _broken(error) from error
        return sent

    def shutdown(self, _how: int = socket.SHUT_WR) -> None:
        """End our stream, by close_notify; the peer's goes on (RFC 8446, section 6.1)."""
        try:
            self.connection.shutdown()
        except (SSL.WantWriteError, SSL.WantReadError):
            raise BlockingIOError from None
        except SSL.Error as error:
            raise _broken(error) from error


def _broken(error: SSL.Error) -> ConnectionError:
    failure = ConnectionError("TLS is broken off")
    failure.__cause__ = error
    return failure
