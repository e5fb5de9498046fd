"""A local process that takes connections over, whose every step is the test's. Written from docs/handoff.md alone.

It reads packets by itself: a fault that the sidecar's writer and reader had in common would show here.
"""

from __future__ import annotations

import array
import select
import socket
from dataclasses import dataclass
from pathlib import Path

_SECONDS = 20.0
_FIXED = 16  # bytes of a PROXY v2 header before its addresses
_IPV4 = 12  # bytes of two IPv4 addresses with their ports
_NUMBER = 0xF0
_ANSWER = 0xF1


@dataclass(frozen=True)
class Offered:
    """A connection that came through the lifeline; it is in the test's hands."""

    connection: socket.socket
    number: int
    answer: bytes


class Lifeline:
    """One that the sidecar has begun."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        sock.settimeout(_SECONDS)

    def say(self, words: str) -> None:
        """Send *words* as one packet."""
        self._sock.sendall(words.encode())

    def empty(self) -> bool:
        """Whether nothing has come that wasn't taken out."""
        return select.select([self._sock], [], [], 0)[0] == []

    def next(self) -> Offered:
        """What the sidecar offers next. Nothing is replied yet."""
        room = socket.CMSG_SPACE(array.array("i").itemsize)
        packet, ancillary, _, _ = self._sock.recvmsg(16384, room, socket.MSG_CMSG_CLOEXEC)
        ((_, _, data),) = ancillary
        (descriptor,) = array.array("i", data)
        connection = socket.socket(fileno=descriptor)
        connection.settimeout(0)  # as it is already; the open file is the sidecar's too
        end = _FIXED + int.from_bytes(packet[14:16], "big")
        found, at = {}, _FIXED + _IPV4
        while at < end:
            size = int.from_bytes(packet[at + 1 : at + 3], "big")
            found[packet[at]] = packet[at + 3 : at + 3 + size]
            at += 3 + size
        return Offered(connection, int(found[_NUMBER]), found.get(_ANSWER, b""))

    def take(self, offered: Offered) -> socket.socket:
        """Send the answer that is owed, and tell the sidecar."""
        offered.connection.sendall(offered.answer)
        self.say(f"taken {offered.number}")
        return offered.connection

    def refuse(self, offered: Offered, why: str) -> None:
        """Give it back."""
        offered.connection.close()
        self.say(f"refused {offered.number} {why}")

    def close(self) -> None:
        """As if the process had died."""
        self._sock.close()


class ScriptedReceiver:
    """Listens at *path*."""

    def __init__(self, path: Path) -> None:
        self.upstream = f"handoff:{path}"
        self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listening.settimeout(_SECONDS)
        self._listening.bind(str(path))
        self._listening.listen()

    def accept(self) -> Lifeline:
        """The next lifeline. The test says when it is ready."""
        return Lifeline(self._listening.accept()[0])

    def close(self) -> None:
        """Be gone."""
        self._listening.close()
