"""A connection that a program without trio has got: its socket, and what the sidecar says of it.

Owns what is special about such a socket: closing it ends it for the client too, and waiting is done beside it, since
whether it blocks is the sidecar's matter as well. Called by ``blocking``, which makes them and resets them all when
their lifeline ends.
"""

from __future__ import annotations

import io
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NoReturn, Self

from sidecar.handoff.connection import finish, reset
from sidecar.handoff_format import Introduction

LONGEST_WAIT: Final = (2**31 - 1) // 1000  # seconds, 24 days: poll(2) takes milliseconds in an int


class HandedSocket(socket.socket):
    """A socket as any other, but for three things.

    Closing it, when the last file made of it is closed too, ends the connection in both directions first. It never
    blocks in the kernel: one without a time-out waits for 24 days and then raises TimeoutError. And it can't be
    detached or duplicated, since nobody would reset the copy when the lifeline ends.

    When the sidecar cuts the connection, or the lifeline ends, its calls raise OSError.
    """

    def __init__(self, connection: socket.socket, closed: Callable[[HandedSocket], None]) -> None:
        """Take over *connection*; *closed* is told when it has been closed."""
        super().__init__(fileno=connection.detach())
        self._close_or_reset = threading.RLock()  # a reset must not hit a descriptor that is another's by now
        self._tell_closed = closed
        self.settimeout(None)

    def settimeout(self, value: float | None, /) -> None:
        """Wait for at most *value* seconds in each call; None: 24 days."""
        super().settimeout(LONGEST_WAIT if value is None else min(value, LONGEST_WAIT))

    def setblocking(self, flag: bool, /) -> None:  # noqa: FBT001  the signature is Python's
        """Wait as long as it takes, or not at all. The open file stays as it is."""
        self.settimeout(None if flag else 0)

    def detach(self) -> NoReturn:
        """Raise: the connection has to be ended by its receiver."""
        raise io.UnsupportedOperation("a connection that was handed over can't be detached: use it and close it")

    def dup(self) -> NoReturn:
        """Raise: the connection has to be ended by its receiver."""
        raise io.UnsupportedOperation("a connection that was handed over can't be duplicated: use it and close it")

    def reset(self) -> None:
        """Break the connection: the client gets an RST. It is still to be closed. Does nothing when closed."""
        with self._close_or_reset:
            if self.fileno() != -1:
                reset(self)

    def _real_close(self) -> None:
        """What socket.socket calls when it and all files made of it are closed: ssl.SSLSocket hooks in here as well."""
        with self._close_or_reset:
            if self.fileno() == -1:
                return
            finish(self)
            super()._real_close()  # type: ignore[misc]
        self._tell_closed(self)


@dataclass(frozen=True, slots=True)
class Handed:
    """A connection that was handed over. Leaving its block closes it.

    Attributes:
        socket: the connection.
        about: what the sidecar says of it.
    """

    socket: HandedSocket
    about: Introduction

    @property
    def first(self) -> bytes:
        """What the client has sent first: the sidecar has read it already, so the socket doesn't give it any more."""
        return self.about.first

    def close(self) -> None:
        """End the connection in order, for the client too, and close its socket.

        A file made of the socket (``makefile``) keeps it open until it is closed as well. Closing the descriptor alone
        would leave the client with a connection that nobody serves: the sidecar holds it open with its duplicate.
        """
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
