"""Dialling the local process.

Owns the one way in to it, and the translation of every failure on that way into :class:`UpstreamUnavailable`. Knows
nothing of claims and verdicts; called by ``passage`` once a claim has passed. The caller bounds the time.
"""

from __future__ import annotations

import errno
import os
import socket

import trio

from sidecar.config import HostPort, UnixPath
from sidecar.errors import SidecarError
from sidecar.sockets import abort, connect_unix, failure_words, is_connected_to_itself, is_loopback, is_unix


class UpstreamUnavailable(SidecarError):
    """The local process doesn't answer. The text says which address and what the kernel said."""


def connect_now(address: HostPort | UnixPath) -> socket.socket | None:
    """A connection that doesn't block, where the kernel makes it at once; None: it takes longer, see ``connect``.

    Within one host the kernel makes a connection before it says so, unless the process's queue is full.

    Raises:
        UpstreamUnavailable: nothing listens at *address*.
    """
    if isinstance(address, HostPort) and not is_loopback(address.host):
        return None
    try:
        sock = _connect_unix_now(address.path) if isinstance(address, UnixPath) else _connect_tcp_now(address)
    except OSError as error:
        raise UpstreamUnavailable(f"{address}: {failure_words(error)}") from error
    return None if sock is None else _not_itself(address, sock)


async def connect(address: HostPort | UnixPath) -> socket.socket:
    """A connection to the local process that doesn't block.

    Raises:
        UpstreamUnavailable: nothing listens at *address*, its name doesn't resolve, ...
    """
    try:
        if isinstance(address, UnixPath):
            stream = await connect_unix(address.path)
        else:
            stream = await trio.open_tcp_stream(address.host or "localhost", address.port)
    except OSError as error:
        raise UpstreamUnavailable(f"{address}: {failure_words(error)}") from error
    sock = socket.socket(fileno=stream.socket.detach())
    sock.setblocking(False)  # noqa: FBT003  the call has no such keyword
    return _not_itself(address, sock)


def _connect_unix_now(path: str) -> socket.socket | None:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    return _connected(sock, sock.connect_ex(path))


def _connect_tcp_now(address: HostPort) -> socket.socket | None:
    host = str(address.host)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    error = sock.connect_ex((host, address.port))
    if error == errno.EINPROGRESS:  # what it came to is said by asking again
        error = sock.connect_ex((host, address.port))
    return _connected(sock, error)


def _connected(sock: socket.socket, error: int) -> socket.socket | None:
    if not error:
        return sock
    abort(sock)
    if error in {errno.EAGAIN, errno.EALREADY}:  # a Unix socket's queue is full; a TCP one's is, or it is far away
        return None
    raise OSError(error, os.strerror(error))


def _not_itself(address: HostPort | UnixPath, sock: socket.socket) -> socket.socket:
    try:
        if is_unix(sock) or not is_connected_to_itself(sock):
            return sock
    except OSError as error:  # it is gone already
        abort(sock)
        raise UpstreamUnavailable(f"{address}: {failure_words(error)}") from error
    abort(sock)  # by an RST: TIME_WAIT would keep the local process off its port
    raise UpstreamUnavailable(f"{address}: nothing listens there")
