"""The sidecar's side of the hand-over: one connection to the receiver, through which descriptors go.

Theory of operation. The local process listens on a Unix socket of packets; this side connects to it once, and again
whenever that connection ends. It is the *lifeline*: what went through it lives no longer than it does. So nothing goes
through before the receiver has said that nothing of an earlier lifeline is left, and when it ends, everybody who went
through it is told. An offered connection is in both hands until the receiver has said ``taken`` or ``refused``; one
that it doesn't answer for in time is given up, and is cut, since it may have been taken all the same.

The receiver is who listens there. It must be root, this process's user, or the owner of the socket's file: else
somebody has put a socket of his own there. Rejected: a connection of its own for each hand-over, which costs as much
as a relay.

Owns that socket. The format is ``handoff_format``'s, and docs/handoff.md states it. Called by ``hand_over``;
everything but the waits is synchronous.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

import trio

from sidecar.errors import SidecarError
from sidecar.handoff_format import LifelineError, Reply, check_ready, read_reply
from sidecar.log import Logger
from sidecar.sockets import failure_words

RECONNECT_SECONDS: Final = 0.1  # before the first attempt to connect again; then twice as long each time
RECONNECT_MOST: Final = 1.0

_CREDENTIALS: Final = struct.Struct("=iII")  # struct ucred of unix(7)
_MESSAGE: Final = 256  # of the receiver, at most


class NotHandedOver(SidecarError):
    """The connection couldn't be offered, and the receiver doesn't have it. The text says why."""


class Fate(Enum):
    """What became of a connection that was offered and that the receiver said nothing of."""

    LOST = "the receiver has gone"
    SILENCE = "the receiver doesn't answer"


@dataclass(slots=True)
class _Offer:
    expires_at: float
    answered: Callable[[Reply | Fate], None]


class Lifeline:
    """The way to one receiver.

    Args:
        path: its socket's.
        logger: told when it comes and goes.
    """

    def __init__(self, path: str, logger: Logger) -> None:
        self._path = path
        self._logger = logger
        self._sock: socket.socket | None = None  # once the receiver is ready
        self._fault = "it hasn't been connected to yet"
        self._number = 0
        self._offers: dict[int, _Offer] = {}  # in the order in which they expire
        self._offered = trio.Event()
        self._taken: dict[int, Callable[[], None]] = {}

    @property
    def next_number(self) -> int:
        """The number of the next connection to be offered."""
        return self._number + 1

    @property
    def fault(self) -> str:
        """Why nothing can be handed over now; empty: it can."""
        return self._fault

    def offer(
        self, sock: socket.socket, packet: bytes, *, expires_at: float, answered: Callable[[Reply | Fate], None]
    ) -> int | None:
        """Hand *sock* over, with *packet*, which carries ``next_number``. Its number; None: the lifeline is full.

        Args:
            sock: stays open here.
            packet: see ``handoff_format``.
            expires_at: when the receiver's reply is waited for no longer, on trio's clock.
            answered: called once with it, or with why there is none, unless the offer is withdrawn.

        Raises:
            NotHandedOver: the receiver isn't there, or the kernel doesn't do it.
        """
        if self._sock is None:
            raise NotHandedOver(self._fault)
        try:
            socket.send_fds(self._sock, [packet], [sock.fileno()])
        except BlockingIOError:
            return None
        except OSError as error:
            raise NotHandedOver(failure_words(error)) from error
        self._number += 1
        self._offers[self._number] = _Offer(expires_at, answered)
        self._offered.set()
        return self._number

    async def wait_room(self) -> None:
        """Wait until the receiver has taken something out of the lifeline, or it has ended."""
        if self._sock is not None:
            with suppress(trio.ClosedResourceError):
                await trio.lowlevel.wait_writable(self._sock)

    def withdraw(self, number: int) -> None:
        """Whoever offered it waits no more."""
        self._offers.pop(number, None)

    def follow(self, number: int, lost: Callable[[], None]) -> None:
        """The connection was taken: *lost* is called when the lifeline ends."""
        self._taken[number] = lost

    def forget(self, number: int) -> None:
        """The connection has ended."""
        self._taken.pop(number, None)

    async def run(self) -> None:
        """Keep connected until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_offers)
            nursery.start_soon(self._stay_connected)

    async def _stay_connected(self) -> None:
        pause = RECONNECT_SECONDS
        while True:
            try:
                with self._connect() as sock:
                    await self._hear(sock)
            except (OSError, LifelineError) as error:
                self._lose(failure_words(error))
            else:
                self._lose("the receiver has closed it")
                pause = RECONNECT_SECONDS
            await trio.sleep(pause)
            pause = min(2 * pause, RECONNECT_MOST)

    def _connect(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        try:
            sock.connect(self._path)
            pid, uid, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
            if uid not in _trusted(self._path):
                raise LifelineError(  # noqa: TRY301  what is open is closed below
                    f"user {uid} listens there, who neither owns the socket nor is this process's"
                )
        except BaseException:
            sock.close()
            raise
        self._fault = "the receiver hasn't said yet that nothing of an earlier life is left"
        self._logger.info("lifeline_connected", path=self._path, receiver_pid=pid, receiver_uid=uid)
        return sock

    async def _hear(self, sock: socket.socket) -> None:
        """Take the receiver's messages until the lifeline ends. Raises OSError and LifelineError."""
        try:
            while message := await _receive(sock):
                if self._sock is not None:
                    self._answered(read_reply(message))
                else:
                    check_ready(message)
                    self._sock, self._fault = sock, ""
                    self._logger.info("lifeline_ready", path=self._path)
        finally:
            trio.lowlevel.notify_closing(sock)  # for those who wait for room in it

    def _answered(self, reply: Reply) -> None:
        offer = self._offers.pop(reply.number, None)
        if offer is not None:  # else it was withdrawn, and has been cut
            offer.answered(reply)

    async def _watch_offers(self) -> None:
        """Give up those that the receiver doesn't answer for."""
        while True:
            while not self._offers:  # one may be withdrawn again before this task runs
                self._offered = trio.Event()
                await self._offered.wait()
            number, offer = next(iter(self._offers.items()))
            await trio.sleep_until(offer.expires_at)
            if self._offers.pop(number, None) is not None:
                offer.answered(Fate.SILENCE)

    def _lose(self, why: str) -> None:
        """It is gone: nobody who went through it may live."""
        fault = f"handoff:{self._path}: {why}"
        if fault != self._fault:
            self._logger.warning("lifeline_lost", path=self._path, error=why, cut=len(self._taken))
        self._sock, self._fault = None, fault
        offers, taken = list(self._offers.values()), list(self._taken.values())
        self._offers.clear()
        self._taken.clear()
        for offer in offers:
            offer.answered(Fate.LOST)
        for lost in taken:
            lost()


def _trusted(path: str) -> set[int]:
    """Users of whom one must be listening at *path*. Raises OSError."""
    return {0, os.geteuid(), Path(path).stat().st_uid}


async def _receive(sock: socket.socket) -> bytes:
    """The next message; empty at the end."""
    while True:
        try:
            message = sock.recv(_MESSAGE)
        except BlockingIOError:
            await trio.lowlevel.wait_readable(sock)
        else:
            return message
