"""The receiver for trio programs: a handler for each connection that is handed over.

Owns the awaits and the handlers' lives. A lifeline is a nursery: when it ends, its connections are reset and their
handlers cancelled, and the next one is told ``ready`` only after the last handler has returned. ``blocking`` is its
twin for programs without trio.
"""

from __future__ import annotations

import operator
import os
import socket
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import Final, Never

import trio

from sidecar.errors import SidecarError
from sidecar.handoff.connection import finish, reset
from sidecar.handoff.listening import RETRY_SECONDS, NoLifelineError, WrongUserError, check_user, listen, log_fault
from sidecar.handoff.taking import DESCRIPTOR_ROOM, FLAGS, PACKET_ROOM, Taken, take
from sidecar.handoff_format import READY, Introduction, LifelineError


class HandedStream(trio.abc.HalfCloseableStream):
    """A connection that was handed over. What it gives begins with the client's first byte.

    Closing it ends the connection for the client too. When the sidecar cuts the connection, its calls raise
    BrokenResourceError.

    Attributes:
        about: what the sidecar says of it.
    """

    def __init__(self, connection: socket.socket, about: Introduction) -> None:
        """Take over *connection*."""
        self.about: Final = about
        self._connection = connection
        self._stream = trio.SocketStream(trio.socket.from_stdlib_socket(connection))
        self._first = about.first

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """The next bytes, the left-over ones before those that come now; empty at the end."""
        if not self._first or self._is_closed():
            return await self._stream.receive_some(max_bytes)
        size = len(self._first) if max_bytes is None else operator.index(max_bytes)
        if size < 1:
            raise ValueError("max_bytes must be 1 or more")
        await trio.lowlevel.checkpoint()
        data, self._first = self._first[:size], self._first[size:]
        return data

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of *data*."""
        await self._stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until sending might be possible at once."""
        await self._stream.wait_send_all_might_not_block()

    async def send_eof(self) -> None:
        """End the sending direction; receiving goes on."""
        await self._stream.send_eof()

    async def aclose(self) -> None:
        """End the connection in order, for the client too. Does nothing when closed."""
        if not self._is_closed():
            finish(self._connection)
        await self._stream.aclose()

    def reset(self) -> None:
        """Break the connection: the client gets an RST. It is still to be closed. Does nothing when closed."""
        if not self._is_closed():
            reset(self._connection)

    def _is_closed(self) -> bool:
        return self._connection.fileno() == -1


Handler = Callable[[HandedStream], Awaitable[object]]


async def serve(
    path: str | os.PathLike[str],
    handler: Handler,
    *,
    mode: int = 0o660,
    capacity: int | None = None,
    uids: Collection[int] | None = None,
    on_fault: Callable[[SidecarError], None] = log_fault,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> Never:
    """Take connections over from a sidecar whose upstream is ``handoff:`` and this *path*; run *handler* on each.

    When a handler returns, its connection is ended in order; when it is cancelled or fails, the connection is reset. It
    is cancelled when the lifeline ends. As with :func:`trio.serve_listeners`, an exception that a handler lets out ends
    everything: it has to expect ``trio.BrokenResourceError``. Runs until it is cancelled.

    Args:
        path: of the socket; one that a dead process has left there makes room.
        handler: what is done with a connection.
        mode: the socket's permission bits. The sidecar must be able to write to it.
        capacity: how many connections may be open at most; None: as many as there are descriptors for.
        uids: the users that a sidecar may run as; None: root and this process's own.
        on_fault: told of a lifeline that can't be had or that broke the rules.
        task_status: started once it listens.

    Raises:
        StartError: something else is at *path*, or it can't be used.
    """
    listening = listen(path, mode)
    try:
        task_status.started()
        listener = trio.socket.from_stdlib_socket(listening.socket)
        while True:
            lifeline = await _next_lifeline(listener, uids, on_fault)
            with lifeline:
                await _Lifeline(lifeline, handler, capacity, on_fault).serve()
    finally:
        listening.close()


async def _next_lifeline(
    listener: trio.socket.SocketType, uids: Collection[int] | None, on_fault: Callable[[SidecarError], None]
) -> trio.socket.SocketType:
    while True:
        try:
            lifeline, _ = await listener.accept()
        except ConnectionAbortedError:
            continue
        except OSError as error:
            on_fault(NoLifelineError(f"a sidecar's connection can't be accepted: {error.strerror}"))
            await trio.sleep(RETRY_SECONDS)
            continue
        try:
            check_user(lifeline, uids)
        except WrongUserError as fault:
            with lifeline:
                on_fault(fault)
        else:
            return lifeline


@dataclass(frozen=True, slots=True)
class _Lifeline:
    """One sidecar's connection, and everything that came through it."""

    socket: trio.socket.SocketType
    handler: Handler
    capacity: int | None
    on_fault: Callable[[SidecarError], None]
    streams: set[HandedStream] = field(default_factory=set)

    async def serve(self) -> None:
        """Take what comes until it ends or breaks the rules; returns when nothing of it is left."""
        async with trio.open_nursery() as handlers:
            try:
                await self._take_all(handlers)
            except LifelineError as fault:
                self.on_fault(fault)
            finally:
                for stream in self.streams:
                    stream.reset()
                handlers.cancel_scope.cancel()

    async def _take_all(self, handlers: trio.Nursery) -> None:
        try:
            await self.socket.send(READY)
            while True:
                received = await self.socket.recvmsg(PACKET_ROOM, DESCRIPTOR_ROOM, FLAGS)
                if not received[0] and not received[1]:
                    return
                is_full = self.capacity is not None and len(self.streams) >= self.capacity
                await self._take(handlers, take(received, full=is_full))
        except OSError:
            return  # it broke, which is an end too

    async def _take(self, handlers: trio.Nursery, taken: Taken) -> None:
        """Tell the sidecar what came of its packet, then let the application have the connection."""
        if taken.connection is None:
            await self.socket.send(taken.reply)
            return
        stream = HandedStream(taken.connection, taken.introduction)
        try:
            await self.socket.send(taken.reply)
        except BaseException:
            stream.reset()
            await trio.aclose_forcefully(stream)
            raise
        self.streams.add(stream)
        handlers.start_soon(self._handle, stream)

    async def _handle(self, stream: HandedStream) -> None:
        try:
            await self.handler(stream)
        except BaseException:
            stream.reset()  # the client must not take for the end what was cut off
            raise
        finally:
            self.streams.discard(stream)
            await trio.aclose_forcefully(stream)
