"""What the kernel knows of a TCP connection, asked instead of waited for.

A test that wants two writes to arrive as two has to know that the first was read before it sends the second; one that
wants to know whether a connection ended in order has to look at its socket once everything is over. Both are questions
to the kernel: the first by SOCK_DIAG, as ``ss`` asks it, the second by the socket's own options.
"""

from __future__ import annotations

import errno
import select
import socket
import struct
import time

from processes import eventually

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_NLMSG_ERROR = 2
_NLM_F_REQUEST = 1
_ANY_STATE = 0xFFFF_FFFF
_NO_COOKIE = b"\xff" * 8
_READ_QUEUE = struct.calcsize("=IHHII") + 56  # where idiag_rqueue stands: behind both headers, ids and idiag_expires
_TCP_CLOSE = 7
_READ_SECONDS = 20.0


def unread_by_peer(sock: socket.socket) -> int | None:
    """How many bytes the other end of *sock*, on this host, has not read yet; None where it is closed.

    Both ends are of this host, so what was sent has arrived there by the time the call that sent it has returned.
    """
    ours, theirs = sock.getsockname(), sock.getpeername()
    wanted = struct.pack("!HH4s12x4s12xI", theirs[1], ours[1], *map(socket.inet_aton, (theirs[0], ours[0])), 0)
    body = struct.pack("=BBBxI", socket.AF_INET, socket.IPPROTO_TCP, 0, _ANY_STATE) + wanted + _NO_COOKIE
    head = struct.pack("=IHHII", 16 + len(body), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 0, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as kernel:
        kernel.send(head + body)
        reply = kernel.recv(8192)
    if struct.unpack_from("=H", reply, 4)[0] == _NLMSG_ERROR:
        number = -struct.unpack_from("=i", reply, 16)[0]
        if number == errno.ENOENT:
            return None
        raise OSError(number, "the kernel doesn't tell about sockets")
    return int(struct.unpack_from("=I", reply, _READ_QUEUE)[0])


def send_segments(sock: socket.socket, segments: list[bytes]) -> None:
    """Send each of *segments* once the other end has read the one before it; stop when it has closed."""
    for segment in segments:
        sock.sendall(segment)
        deadline = time.monotonic() + _READ_SECONDS
        while unread_by_peer(sock):
            assert time.monotonic() < deadline, "the other end doesn't read"
            select.select([sock], [], [], 0.0002)  # wakes up where the other end has ended the connection meanwhile


def receive_exactly(sock: socket.socket, size: int) -> bytes:
    """The next *size* bytes, or what comes of them before the stream ends."""
    data = b""
    while len(data) < size and (part := sock.recv(size - len(data))):
        data += part
    return data


def receive_all(sock: socket.socket) -> bytes:
    """Everything up to the end of the stream. Raises ConnectionResetError where it ends by an RST."""
    parts = []
    while data := sock.recv(1 << 20):
        parts.append(data)
    return b"".join(parts)


def is_reset(sock: socket.socket) -> bool:
    """Whether the stream, after whatever still comes, ends by an RST; False: it ends in order."""
    try:
        receive_all(sock)
    except ConnectionResetError:
        return True
    return False


def reset(sock: socket.socket) -> None:
    """Close with an RST."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def ends_in_order(sock: socket.socket) -> bool:
    """Whether no RST comes once both sides have ended: *sock* has read the end of the stream, and ends its own now."""
    sock.shutdown(socket.SHUT_WR)
    over = eventually(lambda: sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _TCP_CLOSE)
    return over and sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0


def silent_for(sock: socket.socket, seconds: float) -> bool:
    """Whether nothing comes for so long: no byte, no end, no reset."""
    return select.select([sock], [], [], seconds)[0] == []
