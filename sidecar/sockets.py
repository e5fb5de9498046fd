"""What is asked of the kernel about one connection, beyond sending and receiving.

Owns the socket options and states that trio has no words for, and the kernel's own words for a dial that failed.
Called by ``upstream``, ``relay``, ``connection`` and ``client``; decides nothing.
"""

from __future__ import annotations

import errno
import fcntl
import ipaddress
import os
import select
import socket
import struct
import sys
import termios
from typing import Final

import trio

_FULL_QUEUE_SECONDS: Final = 0.01  # between two attempts at a Unix socket whose queue is full

_RST_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER: on, 0 s


def tune(stream: trio.SocketStream, *, keepalive: float | None, user_timeout: float | None) -> None:
    """Let the kernel notice a peer that has gone without a word. Seconds; None leaves a mechanism off.

    Within one host nobody goes without a word: the kernel itself answers for a process that has died. There
    TCP_USER_TIMEOUT is left off, since it also counts the time for which a living peer takes nothing (Linux from 5.11
    on), and a local process may pause for as long as it likes.
    """
    sock = stream.socket
    if sock.family == socket.AF_UNIX:
        return
    if keepalive is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, max(1, round(keepalive)))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, round(keepalive / 3)))
    if user_timeout is not None and not _within_one_host(sock):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(user_timeout * 1000))


def _within_one_host(sock: trio.socket.SocketType) -> bool:
    return ipaddress.ip_address(sock.getsockname()[0]).is_loopback


def abort(stream: trio.SocketStream) -> None:
    """Close at once: what the kernel still holds is thrown away and the peer gets an RST. Does nothing when closed."""
    sock = stream.socket
    if sock.fileno() == -1:
        return
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST_ON_CLOSE)
    except OSError as error:  # the peer was faster and the socket is dead already
        if error.errno not in {errno.EINVAL, errno.ENOTCONN}:
            raise
    finally:
        sock.close()


def is_reset(stream: trio.SocketStream) -> bool:
    """Whether the peer has reset the connection, also while what it sent before is still unread.

    The state TCP_CLOSE, like EPOLLHUP, would not do: an orderly end in both directions has it too, perhaps with bytes
    that are still unread.
    """
    poll = select.poll()
    poll.register(stream.socket.fileno(), 0)  # an error is reported in any case
    return any(events & select.POLLERR for _, events in poll.poll(0))


def unsent(stream: trio.SocketStream) -> int:
    """Bytes that the kernel holds for the peer: not sent yet, or not acknowledged (tcp(7), SIOCOUTQ)."""
    held = fcntl.ioctl(stream.socket.fileno(), termios.TIOCOUTQ, bytes(4))
    return int.from_bytes(held, sys.byteorder)


def is_connected_to_itself(stream: trio.SocketStream) -> bool:
    """Whether both ends are one.

    Where nothing listens on a port of the range that the kernel takes source ports from, a dial may get that very port
    as its source, and TCP connects it to itself. Raises OSError where the connection is gone already.
    """
    return bool(stream.socket.getsockname() == stream.socket.getpeername())


def failure_words(error: BaseException) -> str:
    """Why a dial failed, in the words of the kernel or the resolver: each once, where several addresses were tried.

    trio's own text says only that all attempts failed, and shows addresses as Python does. The causes know more.
    """
    if isinstance(error.__cause__, BaseExceptionGroup):
        return "; ".join(dict.fromkeys(map(failure_words, error.__cause__.exceptions)))
    if not isinstance(error, OSError):
        return str(error)
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error)  # a resolver's error carries a number of its own kind, and its words


async def connect_unix(path: str) -> trio.SocketStream:
    """A connection to the Unix socket at *path*; while its queue is full this waits, as a blocking connect does.

    The kernel says EAGAIN then, which trio takes for a connection on its way, and so returns one to nobody. Raises
    OSError.
    """
    while True:
        stream = await trio.open_unix_socket(path)
        try:
            stream.socket.getpeername()
        except OSError as error:
            stream.socket.close()
            if error.errno != errno.ENOTCONN:
                raise
            await trio.sleep(_FULL_QUEUE_SECONDS)
        else:
            return stream
