"""From a received packet to a connection that is the receiver's, in the order that docs/handoff.md demands.

Owns the descriptors that came with a packet from the moment the kernel made them: each is handed on, or closed here,
whatever happens. Nothing in it waits, so that both forms of the receiver share it. Called by ``blocking`` and ``trio``.
"""

from __future__ import annotations

import array
import os
import socket
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from sidecar.handoff.connection import reset
from sidecar.handoff_format import MAX_PACKET, Introduction, LifelineError, decide

# What recvmsg() is called with. One byte more than a packet may have tells a longer one; room for two descriptors tells
# one too many. Without MSG_CMSG_CLOEXEC a child process would get the connection, and keep it from ending.
PACKET_ROOM: Final = MAX_PACKET + 1
DESCRIPTOR_ROOM: Final = socket.CMSG_SPACE(2 * array.array("i").itemsize)
FLAGS: Final = socket.MSG_CMSG_CLOEXEC

_Received = tuple[bytes, list[tuple[int, int, bytes]], int, object]  # what recvmsg() returns


@dataclass(frozen=True, slots=True)
class Taken:
    """What came of a packet.

    Attributes:
        reply: what the sidecar is to be told, before the connection is used.
        introduction: what it said of the connection.
        connection: the connection, its answer written and not blocking; None where it was refused, or is over already.
    """

    reply: bytes
    introduction: Introduction
    connection: socket.socket | None


def take(received: _Received, *, full: bool) -> Taken:
    """Take the connection that was *received*, or refuse it where the receiver is *full*.

    Raises:
        LifelineError: it is no hand-over; every descriptor that came with it is closed.
    """
    packet, ancillary, flags, _ = received
    with ExitStack() as unless_taken:
        descriptors = _descriptors(ancillary)
        for descriptor in descriptors:
            unless_taken.callback(os.close, descriptor)
        lost = bool(flags & socket.MSG_CTRUNC)
        decision = decide(packet, descriptors=len(descriptors), lost=lost, full=full)
        if decision.refusal is not None:
            return Taken(decision.reply, decision.introduction, None)
        connection = _open(descriptors[0])
        unless_taken.pop_all()
    return Taken(decision.reply, decision.introduction, _answered(connection, decision.introduction.answer))


def _descriptors(ancillary: Iterable[tuple[int, int, bytes]]) -> list[int]:
    found = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    return found.tolist()


def _open(descriptor: int) -> socket.socket:
    try:
        connection = socket.socket(fileno=descriptor)
    except OSError as error:
        raise LifelineError("a hand-over's descriptor is no socket") from error
    connection.settimeout(0)  # it doesn't block already, by the format: Python has to be told
    return connection


def _answered(connection: socket.socket, answer: bytes) -> socket.socket | None:
    """*connection* after the sidecar's answer was written; None where it broke.

    Nothing was written before, so that an answer always fits where the connection is sound.
    """
    try:
        if not answer or connection.send(answer, socket.MSG_NOSIGNAL) == len(answer):
            return connection
    except OSError:
        pass  # the client has gone, or the sidecar has given it up
    reset(connection)
    connection.close()
    return None
