"""A sidecar's side of the hand-over, over real sockets; written from docs/handoff.md, not from the code under test."""

from __future__ import annotations

import array
import errno
import select
import socket
from contextlib import suppress
from ctypes import CDLL, create_string_buffer, get_errno
from types import TracebackType
from typing import Self

from sidecar.preface.claim import Claim, write_claim
from sidecar.preface.proxy_v2 import Address, Tlv, write_header
from tests.names import CLAIM, inet

PEER = inet("192.0.2.10", 51000)
LOCAL = inet("198.51.100.7", 7101)
SECONDS = 10  # for whatever is bound to happen
RESET = b"\1\0\0\0\0\0\0\0"  # struct linger: on, 0 seconds


def packet(
    number: int | None = 1,
    *,
    answer: bytes | None = None,
    first: bytes = b"",
    claim: Claim = CLAIM,
    peer: Address | None = PEER,
    local: Address | None = LOCAL,
    more: tuple[Tlv, ...] = (),
) -> bytes:
    """The bytes that hand a connection over."""
    tlvs = [*write_claim(claim, answer=False), *more]
    if number is not None:
        tlvs.append(Tlv(0xF0, str(number).encode()))
    if answer is not None:
        tlvs.append(Tlv(0xF1, answer))
    return write_header(source=peer, destination=local, tlvs=tlvs) + first


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    """A client, and the socket that a sidecar has accepted for it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname(), timeout=SECONDS)
        accepted, _ = server.accept()
    accepted.setblocking(False)
    return client, accepted


def unix_pair() -> tuple[socket.socket, socket.socket]:
    """The same over a Unix socket."""
    client, accepted = socket.socketpair()
    client.settimeout(SECONDS)
    accepted.setblocking(False)
    return client, accepted


def receive(client: socket.socket, length: int) -> bytes:
    """Exactly *length* bytes, or what comes until the end."""
    data = b""
    while len(data) < length and (chunk := client.recv(length - len(data))):
        data += chunk
    return data


def was_reset(client: socket.socket) -> bool:
    """Whether the connection ends by an RST, after whatever still comes; False: it ends in order."""
    try:
        while client.recv(65536):
            pass
    except ConnectionResetError:
        return True
    return False


def disconnect(connection: socket.socket) -> None:
    """What a sidecar does to cut: connect(AF_UNSPEC) on its own duplicate."""
    libc = CDLL(None, use_errno=True)
    assert libc.connect(connection.fileno(), create_string_buffer(16), 16) == 0, errno.errorcode[get_errno()]


class FakeSidecar:
    """A lifeline, and the duplicates of what was handed over through it."""

    def __init__(self, path: object) -> None:
        """Connect, and wait for nothing."""
        self.lifeline = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.lifeline.settimeout(SECONDS)
        self.lifeline.connect(str(path))
        self.duplicates: list[socket.socket] = []

    def reply(self) -> str:
        """The receiver's next message; empty at the lifeline's end."""
        try:
            return self.lifeline.recv(4096).decode()
        except ConnectionResetError:  # it ended with something of ours unread
            return ""

    def send(self, data: bytes, *connections: socket.socket) -> None:
        """One packet, with these descriptors."""
        descriptors = array.array("i", [connection.fileno() for connection in connections])
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)] if connections else []
        self.lifeline.sendmsg([data], rights)

    def hand_over(self, connection: socket.socket, number: int = 1, **parts: object) -> None:
        """Hand *connection* over, and keep it as the duplicate."""
        self.duplicates.append(connection)
        self.send(packet(number, **parts), connection)

    def send_until_nobody_listens(self, connection: socket.socket) -> None:
        """Hand *connection* over again and again, without reading a reply, until the receiver is stuck with those."""
        self.lifeline.settimeout(0)
        poll = select.poll()
        poll.register(self.lifeline, select.POLLOUT)
        while poll.poll(500):
            with suppress(BlockingIOError):
                self.send(packet(1), connection)

    def give(self, number: int = 1, **parts: object) -> socket.socket:
        """A client whose connection was handed over and taken."""
        client, accepted = tcp_pair()
        self.hand_over(accepted, number, **parts)
        assert self.reply() == f"taken {number}"
        return client

    def die(self) -> None:
        """What the kernel does with a sidecar that was killed: every descriptor is closed."""
        self.lifeline.close()
        for connection in self.duplicates:
            connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.die()


def sidecar_at(path: object) -> FakeSidecar:
    """A lifeline that the receiver at *path* is ready for."""
    sidecar = FakeSidecar(path)
    assert sidecar.reply() == "ready 1"
    return sidecar


def ended(duplicate: socket.socket) -> bool:
    """Whether the sidecar sees on its duplicate, in time, that both directions have ended."""
    poll = select.poll()
    poll.register(duplicate, 0)
    return bool(poll.poll(SECONDS * 1000))
