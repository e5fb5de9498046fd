"""The receiver for programs without trio. It needs the standard library alone.

Owns one thread that lives as long as the receiver. It alone reads the lifeline, so that the lifeline's end is noticed
while the application is busy elsewhere: then it resets every connection that came through it. Applications take
connections with :meth:`Receiver.accept`, in as many threads as they like. ``trio`` is its twin.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import threading
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack
from typing import Final, Self

from sidecar.errors import SidecarError
from sidecar.handoff.handed import Handed, HandedSocket
from sidecar.handoff.listening import RETRY_SECONDS, NoLifelineError, WrongUserError, check_user, listen, log_fault
from sidecar.handoff.taking import DESCRIPTOR_ROOM, FLAGS, PACKET_ROOM, Taken, take
from sidecar.handoff_format import READY, LifelineError

_NOTHING_WAITS: Final = {errno.EAGAIN, errno.ECONNABORTED, errno.EINTR}


class ReceiverClosed(SidecarError):
    """No connection comes any more: the receiver was closed. Its cause, where there is one, is a fault that did it."""


class Receiver:
    """Takes connections over from a sidecar whose upstream is ``handoff:`` and this *path*.

    It listens from the start. A connection that the sidecar hands over is taken at once and waits here for
    :meth:`accept`, as one waits in a listening socket's queue. When the sidecar is gone, every connection from it is
    reset, and the next sidecar is waited for.

    Close it at the end: until then its thread keeps the process alive. A process that forks must do so before it makes
    a receiver, since a child would keep the lifeline open.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        mode: int = 0o660,
        capacity: int | None = None,
        *,
        uids: Collection[int] | None = None,
        on_fault: Callable[[SidecarError], None] = log_fault,
    ) -> None:
        """Listen at *path*.

        Args:
            path: of the socket; one that a dead process has left there makes room.
            mode: its permission bits. The sidecar must be able to write to it.
            capacity: how many connections may be open at most; None: as many as there are descriptors for. It is an
                attribute too, and may be changed at any time: with 0 no more are taken, and those there are live on.
            uids: the users that a sidecar may run as; None: root and this process's own.
            on_fault: told of a lifeline that can't be had or that broke the rules. It runs in the receiver's thread and
                must not close the receiver.

        Raises:
            StartError: something else is at *path*, or it can't be used.
        """
        self.capacity = capacity
        self._uids = uids
        self._on_fault = on_fault
        self._changed = threading.Condition()  # guards what follows
        self._open: set[HandedSocket] = set()
        self._waiting: deque[Handed] = deque()
        self._closed = False
        self._failure: BaseException | None = None
        with ExitStack() as unless_started:
            self._listening = listen(path, mode)
            unless_started.callback(self._listening.close)
            self._stop, self._stopped = socket.socketpair()  # closing one wakes whoever polls the other
            unless_started.callback(self._stop.close)
            unless_started.callback(self._stopped.close)
            self._thread = threading.Thread(target=self._run, name="hand-over receiver")
            self._thread.start()
            unless_started.pop_all()

    def accept(self, timeout: float | None = None) -> Handed:
        """The next connection; waits for one, for *timeout* seconds at most.

        Raises:
            TimeoutError: none came in time.
            ReceiverClosed: none comes any more.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._waiting or self._closed, timeout):
                raise TimeoutError("no connection was handed over in time")
            if self._closed:
                raise ReceiverClosed("the receiver was closed") from self._failure
            return self._waiting.popleft()

    def __iter__(self) -> Iterator[Handed]:
        """One connection after the other, until the receiver is closed."""
        while True:
            try:
                handed = self.accept()
            except ReceiverClosed as closed:
                if closed.__cause__ is not None:
                    raise
                return
            yield handed

    def close(self) -> None:
        """Stop listening and let go of the sidecar. Connections that are still open are reset."""
        self._stop.close()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            while (lifeline := self._next_lifeline()) is not None:
                with lifeline:
                    try:
                        self._serve(lifeline)
                    finally:
                        self._reset_all()
        except BaseException as error:  # noqa: BLE001  it is accept()'s to raise: here nobody would see it
            failure = error
        finally:
            self._listening.close()
            self._stopped.close()
            with self._changed:
                self._closed, self._failure = True, failure
                self._changed.notify_all()

    def _next_lifeline(self) -> socket.socket | None:
        """A sidecar's connection; None once the receiver is closed."""
        while self._wait(self._listening.socket, select.POLLIN):
            try:
                lifeline, _ = self._listening.socket.accept()
            except OSError as error:
                if error.errno not in _NOTHING_WAITS:
                    self._on_fault(NoLifelineError(f"a sidecar's connection can't be accepted: {error.strerror}"))
                    self._wait(None, 0, RETRY_SECONDS)
                continue
            lifeline.settimeout(0)
            try:
                check_user(lifeline, self._uids)
            except WrongUserError as fault:
                with lifeline:
                    self._on_fault(fault)
            else:
                return lifeline
        return None

    def _serve(self, lifeline: socket.socket) -> None:
        """Take what comes through *lifeline* until it ends, breaks the rules, or the receiver is closed."""
        try:
            self._say(lifeline, READY)
            while self._wait(lifeline, select.POLLIN):
                received = lifeline.recvmsg(PACKET_ROOM, DESCRIPTOR_ROOM, FLAGS)
                if not received[0] and not received[1]:
                    return
                self._take(lifeline, take(received, full=self._is_full()))
        except LifelineError as fault:
            self._on_fault(fault)
        except OSError:
            return  # it broke, which is an end too

    def _take(self, lifeline: socket.socket, taken: Taken) -> None:
        """Tell the sidecar what came of its packet, then let the application have the connection."""
        if taken.connection is None:
            self._say(lifeline, taken.reply)
            return
        sock = HandedSocket(taken.connection, self._forget)
        with self._changed:
            self._open.add(sock)
        try:
            self._say(lifeline, taken.reply)
        except OSError:
            sock.reset()
            sock.close()
            raise
        with self._changed:
            self._waiting.append(Handed(sock, taken.introduction))
            self._changed.notify()

    def _say(self, lifeline: socket.socket, message: bytes) -> None:
        while True:
            try:
                lifeline.send(message, socket.MSG_NOSIGNAL)
            except BlockingIOError:  # the sidecar is slow to read
                if self._wait(lifeline, select.POLLOUT):
                    continue
            return

    def _wait(self, sock: socket.socket | None, events: int, seconds: float | None = None) -> bool:
        """Wait for *events* of *sock*, or for *seconds*; whether the receiver goes on after it."""
        poll = select.poll()
        poll.register(self._stopped, select.POLLIN)
        if sock is not None:
            poll.register(sock, events)
        happened = poll.poll(None if seconds is None else seconds * 1000)
        return all(descriptor != self._stopped.fileno() for descriptor, _ in happened)

    def _is_full(self) -> bool:
        with self._changed:
            return self.capacity is not None and len(self._open) >= self.capacity

    def _forget(self, sock: HandedSocket) -> None:
        with self._changed:
            self._open.discard(sock)

    def _reset_all(self) -> None:
        """Leave nothing of a lifeline: its connections are broken, and those that nobody has accepted are gone."""
        with self._changed:
            opened, waiting = list(self._open), list(self._waiting)
            self._waiting.clear()
        for sock in opened:
            sock.reset()
        for handed in waiting:
            handed.close()
