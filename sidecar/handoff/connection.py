"""A socket that two processes hold: the one that the sidecar handed over, of which it keeps a duplicate.

Owns what that changes. Closing it ends nothing for the client, since the sidecar's duplicate keeps it open. Whether it
blocks is a property of the open file, and so the sidecar's too. And SO_LINGER never takes effect, since the last close
is the sidecar's: a reset takes a disconnect, which is connect(2) with AF_UNSPEC. Called by ``taking`` and by both
forms.
"""

from __future__ import annotations

import ctypes
import os
import socket
from contextlib import suppress
from typing import Final

_SOCKADDR_LENGTH: Final = 16


def finish(connection: socket.socket) -> None:
    """End it in order, in both directions, for the client and for the sidecar. It is still to be closed."""
    with suppress(OSError):  # it is over already
        connection.shutdown(socket.SHUT_RDWR)


def reset(connection: socket.socket) -> None:
    """Break it: nothing can be read or written any more, by nobody who holds it, and the client gets an RST.

    It is still to be closed. A Unix socket knows no reset: its client gets an end, or an error where it writes.
    """
    try:
        _disconnect(connection.fileno())
    except OSError:  # a Unix socket; or a kernel that lets nobody disconnect while another process waits in a read
        finish(connection)
        _throw_away_input(connection)


def _disconnect(descriptor: int) -> None:
    """connect(2) with AF_UNSPEC, for which Python's own sockets have no words."""
    unspecified = ctypes.create_string_buffer(_SOCKADDR_LENGTH)  # AF_UNSPEC is 0
    if ctypes.CDLL(None, use_errno=True).connect(descriptor, unspecified, _SOCKADDR_LENGTH) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _throw_away_input(connection: socket.socket) -> None:
    """Take what the client sent: it can still be read after a shutdown. Nothing new can come."""
    with suppress(OSError):
        while connection.recv(64 * 1024, socket.MSG_DONTWAIT):
            pass
