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
from typing import Final, Protocol

import trio

Socket = socket.socket  # for those who only pass one on

_FULL_QUEUE_SECONDS: Final = 0.01  # between two attempts at a Unix socket whose queue is full

_RST_ON_CLOSE: Final = struct.pack("ii", 1, 0)  # SO_LINGER: on, 0 s
_UNSPECIFIED: Final = bytes(16)  # a sockaddr of the family AF_UNSPEC
_DISCARDED: Final = 64 * 1024  # bytes at a time
_UNIX: Final = int(socket.AF_UNIX)
_family_of: Final = socket.SocketType.family.__get__
_libc: Final = ctypes.CDLL(None)
# struct tcp_info of linux/tcp.h: state, last_data_sent and _recv, bytes_acked and _received, notsent_bytes, bytes_sent
# and _retrans
_TCP_INFO: Final = struct.Struct("=B 43x I 4x I 64x QQ 8x I 52x QQ")
# States of linux/tcp_states.h
_WE_ENDED: Final = frozenset({4, 5, 9, 11})  # FIN_WAIT1, FIN_WAIT2, LAST_ACK, CLOSING
_PEER_ENDED: Final = frozenset({8, 9, 11})  # CLOSE_WAIT, LAST_ACK, CLOSING
_CLOSE: Final = 7
_PEER_ENDED_FIRST: Final = frozenset({7, 8, 9})  # CLOSE, CLOSE_WAIT, LAST_ACK; the first is only likely


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
            while sock.recv(_DISCARDED, socket.MSG_DONTWAIT):  # what had come can still be read after it
                pass


class Received(Protocol):
    """What bytes are received from: a socket, or what behaves like one."""

    def recv(self, size: int, /) -> bytes:
        """Raises OSError."""


def receive_now(sock: Received, most: int) -> bytes | None:
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
    """What the kernel has counted of an accepted TCP connection so far (tcp(7), TCP_INFO).

    The kernel counts the end of a stream as a byte; here it is left out wherever the connection's state tells it.

    Attributes:
        received: Bytes that came. Where it is over, the end of the peer's stream, had it come, is one more.
        sent: Bytes that were sent; those sent again count once.
        queued: Bytes that weren't sent yet; once our stream has ended, the end is the last of them.
        silent: Seconds for which nothing has come and nothing was sent.
        ended: Whether our stream has ended.
        over: Whether nothing is left of it: both streams have ended, or there was an RST.
        end_acknowledged: Whether the peer has acknowledged the end of our stream, which it does before it is over but
            for an RST.
        peer_ended_first: Whether, where both streams have ended, the peer's was the first, as far as the state tells.
    """

    received: int
    sent: int
    queued: int
    silent: float
    ended: bool
    over: bool
    end_acknowledged: bool
    peer_ended_first: bool


def tcp_counts(sock: socket.socket) -> TcpCounts | None:
    """What has gone through; None for a Unix socket, and on a kernel that doesn't count all of it (before 4.19)."""
    if is_unix(sock):
        return None
    info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
    if len(info) < _TCP_INFO.size:
        return None
    state, last_sent, last_received, acknowledged, received, queued, sent, sent_again = _TCP_INFO.unpack(info)
    sent -= sent_again
    return TcpCounts(
        received=received - (state in _PEER_ENDED),
        sent=sent,
        queued=queued,
        silent=min(last_sent, last_received) / 1000,
        ended=state in _WE_ENDED,
        over=state == _CLOSE,
        end_acknowledged=acknowledged > sent,
        peer_ended_first=state in _PEER_ENDED_FIRST,
    )


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
