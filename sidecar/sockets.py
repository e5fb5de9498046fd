"""What is asked of the kernel about one connection, beyond sending and receiving.

Owns the socket options and states that trio has no words for, and the kernel's own words for a dial that failed.
Called by ``upstream``, ``relay``, ``connection`` and ``client``; decides nothing.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import ipaddress
import os
import socket
import struct
import sys
import termios
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import trio

Socket = socket.socket  # for those who only pass one on

_FULL_QUEUE_SECONDS: Final = 0.01  # between two attempts at a Unix socket whose queue is full

_RST_ON_CLOSE: Final = struct.pack("ii", 1, 0)  # SO_LINGER: on, 0 s
_UNSPECIFIED: Final = bytes(16)  # a sockaddr of the family AF_UNSPEC
_UNIX: Final = int(socket.AF_UNIX)
_family_of: Final = socket.SocketType.family.__get__
_libc: Final = ctypes.CDLL(None)
# struct tcp_info of linux/tcp.h
_TCP_INFO_SIZE: Final = 136
_TCPI_LAST_DATA_SENT: Final = 44
_TCPI_BYTES_ACKED: Final = 120
# States of linux/tcp_states.h: TIME_WAIT, CLOSE, and CLOSE_WAIT, LAST_ACK, CLOSING or FIN_WAIT2
_HAS_RECEIVED_END: Final = frozenset({6, 7, 8, 9, 11})
_HAS_SENT_END: Final = frozenset({5, 6, 7})
_ENDED_BY_PEER: Final = frozenset({7, 8, 9})


def is_unix(sock: socket.socket) -> bool:
    """Whether it is a Unix socket. The attribute itself makes an enum's member each time, which takes microseconds."""
    return bool(_family_of(sock) == _UNIX)


def keep_alive(sock: socket.socket, seconds: float | None) -> None:
    """Let the kernel ask a silent peer now and then whether it is still there; None: it never asks.

    A listening socket hands this on to those that it accepts, and so does TCP_NODELAY, which is set too.
    """
    if is_unix(sock):
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, seconds is not None)
    if seconds is not None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, max(1, round(seconds)))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, round(seconds / 3)))


def give_up_after(sock: socket.socket, seconds: float | None) -> None:
    """Let the kernel end a connection whose peer acknowledges nothing for so long; None: not before its own time.

    Within one host nobody goes without a word: the kernel itself answers for a process that has died. There this does
    nothing, since TCP_USER_TIMEOUT also counts the time for which a living peer takes nothing (Linux from 5.11 on), and
    a local process may pause for as long as it likes.
    """
    if seconds is not None and not is_unix(sock) and not is_loopback(sock.getsockname()[0]):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(seconds * 1000))


@lru_cache(64)
def is_loopback(host: str | None) -> bool:
    """Whether *host* is an address that only this machine can mean; a name may mean anything."""
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def abort(sock: socket.socket) -> None:
    """Close at once: what the kernel still holds is thrown away and the peer gets an RST. Does nothing when closed."""
    if sock.fileno() == -1:
        return
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RST_ON_CLOSE)
    except OSError as error:  # the peer was faster and the socket is dead already
        if error.errno not in {errno.EINVAL, errno.ENOTCONN}:
            raise
    finally:
        sock.close()


def disconnect(sock: socket.socket) -> None:
    """End a connection that another process has too: its peer gets an RST, and what either of us does with it fails.

    That is ``connect`` to AF_UNSPEC (connect(2)), which Python can't say. A Unix socket knows no such end, and a kernel
    may refuse it while the other process waits in a read; then it is shut down. Raises nothing: a connection that has
    ended is what was wanted.
    """
    if sock.fileno() == -1:
        return
    if is_unix(sock) or _libc.connect(sock.fileno(), _UNSPECIFIED, len(_UNSPECIFIED)):
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)


def receive_now(sock: socket.socket, most: int) -> bytes | None:
    """What has come, at most so many bytes; empty at the end of the stream, also a broken one; None: nothing yet."""
    try:
        return sock.recv(most)
    except BlockingIOError:
        return None
    except OSError:
        return b""


def unsent(sock: socket.socket) -> int:
    """Bytes that the kernel holds for the peer: not sent yet, or not acknowledged (tcp(7), SIOCOUTQ)."""
    held = fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4))
    return int.from_bytes(held, sys.byteorder)


@dataclass(frozen=True, slots=True)
class TcpCounts:
    """What the kernel has counted of a TCP connection so far (tcp(7), TCP_INFO).

    Attributes:
        received: Bytes that came.
        acknowledged: Bytes that the peer has acknowledged.
        silent: Seconds for which nothing has come and nothing was sent.
    """

    received: int
    acknowledged: int
    silent: float


def tcp_counts(sock: socket.socket) -> TcpCounts | None:
    """What has gone through; None for a Unix socket."""
    if is_unix(sock):
        return None
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_SIZE)
    last_sent, last_received = struct.unpack_from("=I4xI", info, _TCPI_LAST_DATA_SENT)
    acknowledged, received = struct.unpack_from("=QQ", info, _TCPI_BYTES_ACKED)
    state = info[0]
    return TcpCounts(  # the kernel counts the end of a stream as a byte
        received - (received > 0 and state in _HAS_RECEIVED_END),
        acknowledged - (acknowledged > 0 and state in _HAS_SENT_END),
        min(last_sent, last_received) / 1000,
    )


def peer_ended_first(sock: socket.socket) -> bool:
    """Whether the peer ended its stream before we did, as far as the state of a TCP connection tells when both have."""
    return not is_unix(sock) and sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] in _ENDED_BY_PEER


def is_connected_to_itself(sock: socket.socket) -> bool:
    """Whether both ends are one.

    Where nothing listens on a port of the range that the kernel takes source ports from, a dial may get that very port
    as its source, and TCP connects it to itself. Raises OSError where the connection is gone already.
    """
    return bool(sock.getsockname() == sock.getpeername())


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
