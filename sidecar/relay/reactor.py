"""One epoll, entered by one thread: calls who waits for a descriptor, a moment, or a word from another thread.

Theory of operation. A trio task for each connection and a trio wait for each event cost several times what the kernel
takes to move the bytes; plain calls from one epoll cost little, and in a thread of their own they don't wait for trio's
loop either. So :meth:`Reactor.run` lives in a thread beside trio's. Descriptors are level-triggered: who does a bounded
piece of work for each event and returns is fair to the others, and can't miss anything. EPOLLHUP can't be masked, so a
descriptor that is wanted for nothing is edge-triggered: its RST is still reported, once, and it doesn't spin.

Who calls what: ``add``, ``add_one``, ``call``, ``stop`` and ``statistics`` are for any thread, ``run`` for its own;
everything else is called from within ``run``. Whoever adds a descriptor gives up using it until it is told the
outcome. What goes back to trio's thread goes through ``tell``, in batches. The interpreter's lock makes each of the
shared containers' operations whole, and orders them; there is no other lock. Rejected: a lock for each event (the
other thread starves while this one is busy), and closing descriptors from both threads (a number that is used again is
written to by mistake).

A fault in what is called is its own: it is told so and the loop goes on. Called by ``relay``.
"""

from __future__ import annotations

import os
import select
import socket
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, Protocol

from sidecar.reasons import End
from sidecar.relay.terms import Clock, boot_clock
from sidecar.relay.timers import Timer, Timers
from sidecar.sockets import abort

IN: Final = select.EPOLLIN
OUT: Final = select.EPOLLOUT
ERROR: Final = select.EPOLLERR
HANG_UP: Final = select.EPOLLHUP

LAZY_SECONDS: Final = 1.0  # for which it sleeps at most

_EVENTS: Final = 256  # that one look brings at most


class Watched(Protocol):
    """Who waits for a descriptor."""

    def finish(self, end: End) -> None:
        """It is over now, by an RST. Again: no change."""

    def ready(self, mask: int) -> None:
        """Something of *mask* holds. To be looked at again: it may be over by now."""

    def fault(self, error: Exception) -> None:
        """``ready`` raised this, and won't be called again."""


class Looker(Protocol):
    """Who waits for a moment."""

    def look(self) -> None:
        """It has come. To be looked at again: it may be over by now."""

    def fault(self, error: Exception) -> None:
        """``look`` raised this."""


class Reactor:
    """The loop.

    Args:
        deliver: has a callable called in trio's thread, soon; may be called from any thread.
        clock: seconds.
    """

    def __init__(self, deliver: Callable[[Callable[[], None]], None], clock: Clock = boot_clock) -> None:
        self.clock = clock
        self.turned_at = clock()  # when it last woke up
        self.deliver = deliver
        self._epoll = select.epoll()
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._epoll.register(self._bell, IN)
        self._watched: dict[int, Watched] = {}
        self._timers = Timers()
        self._requests: deque[Callable[[], None]] = deque()
        self._told: deque[Callable[[], None]] = deque()
        self._to_tell: list[Callable[[], None]] = []
        self._telling = False
        self._asleep = False
        self._ended: list[tuple[socket.socket, bool]] = []

    # ---- for any thread ----

    def add(self, watched: Mapping[int, tuple[Watched, int]]) -> None:
        """Watch these descriptors together for what each one's mask says; all of them are level-triggered.

        Raises OSError, and watches none of them then.
        """
        registered: list[int] = []
        try:
            for fd, (_, mask) in watched.items():
                self._epoll.register(fd, mask)
                registered.append(fd)
        except OSError:
            for fd in registered:
                self._epoll.unregister(fd)
            raise
        # All at once: what happens on one of them before that is seen again, and may concern the others.
        self._watched.update({fd: who for fd, (who, _) in watched.items()})

    def add_one(self, fd: int, who: Watched, mask: int) -> None:
        """Watch one descriptor that stands alone, which may be edge-triggered. Raises OSError, and doesn't watch it."""
        self._watched[fd] = who  # before it can be told of: an edge isn't seen again
        try:
            self._epoll.register(fd, mask)
        except OSError:
            del self._watched[fd]
            raise

    def call(self, action: Callable[[], None], *, soon: bool = True) -> None:
        """Have *action* called in the reactor's thread: soon, or when it wakes up anyhow, within ``LAZY_SECONDS``."""
        self._requests.append(action)
        if soon and self._asleep:
            os.eventfd_write(self._bell, 1)

    def wake(self) -> None:
        """Let the turn that waits now return."""
        self.call(lambda: None)

    # ---- for whoever drives it ----

    def fileno(self) -> int:
        """What can be read when there is something to do; see ``rest``."""
        return self._epoll.fileno()

    def rest(self) -> float:
        """It is about to be waited for outside of ``turn``: seconds for which that may be, at most."""
        self._asleep = True
        if self._requests:
            return 0.0
        due = self._timers.next()
        return LAZY_SECONDS if due is None else min(LAZY_SECONDS, max(0.0, due - self.clock()))

    def turn(self, patience: float | None = None) -> None:
        """Wait for something to do, *patience* seconds at most, and do it."""
        due = self._timers.next()
        if due is not None:
            left = max(0.0, due - self.clock())
            patience = left if patience is None else min(left, patience)
        self._asleep = True
        events = self._epoll.poll(0 if self._requests else patience, _EVENTS)
        self._asleep = False
        self.turned_at = self.clock()
        unknown = 0
        for fd, mask in events:
            if self._requests:
                self._heed()
            who = self._watched.get(fd)
            if who is not None:
                try:
                    who.ready(mask)
                except Exception as error:  # noqa: BLE001  a fault in one is no other's
                    who.fault(error)
            elif fd == self._bell:
                os.eventfd_read(fd)
            else:
                unknown += 1
        self._heed()
        for action in self._timers.due(self.clock()):
            action()
        self._close_ended()
        self._hand_over()
        if unknown and unknown == len(events):  # another thread is about to add it, and needs the interpreter for that
            os.sched_yield()  # level-triggered: it is seen again

    def want(self, fd: int, mask: int) -> None:
        """Be told of *mask* from now on; of an RST in any case."""
        self._epoll.modify(fd, mask or select.EPOLLET)

    def end(self, *sockets: socket.socket, orderly: bool) -> None:
        """Watch these no more and close them, by an RST unless *orderly*: once nothing of this turn refers to them."""
        for sock in sockets:
            self._watched.pop(sock.fileno(), None)
            self._ended.append((sock, orderly))

    def forget(self, fd: int) -> None:
        """Watch it no more, though closing it won't end it: another process has it too.

        The kernel's table goes by what is open, not by its number, and would go on telling of it under a number that
        by then is another's.
        """
        self._epoll.unregister(fd)

    def look(self, who: Looker) -> None:
        """Let *who* look now. A fault in it is its own."""
        try:
            who.look()
        except Exception as error:  # noqa: BLE001  a fault in one is no other's
            who.fault(error)

    def again(self, timer: Timer | None, when: float, who: Looker) -> Timer | None:
        """Let *who* look at *when* instead of *timer*; infinite: not at all."""
        if timer is not None:
            self._timers.give_up(timer)
        return None if when == float("inf") else self._timers.at(when, partial(self.look, who))

    def give_up(self, timer: Timer) -> None:
        """Don't call."""
        self._timers.give_up(timer)

    def tell(self, action: Callable[[], None]) -> None:
        """Have *action* called in trio's thread, once this turn is over."""
        self._to_tell.append(action)

    def close(self) -> None:
        """End what is still watched, and say so, in trio's thread; then let go. Nobody drives it any more."""
        for who in set(self._watched.values()):
            who.finish(End.ABORTED)
        self._close_ended()
        self._told.extend(self._to_tell)
        self._pass_on()
        self._epoll.close()
        os.close(self._bell)

    def _heed(self) -> None:
        while self._requests:
            self._requests.popleft()()

    def _close_ended(self) -> None:
        for sock, orderly in self._ended:
            if orderly:
                sock.close()
            else:
                abort(sock)
        self._ended.clear()

    def _hand_over(self) -> None:
        self._told.extend(self._to_tell)  # not before: whoever is told that something has ended finds it closed
        self._to_tell.clear()
        if self._told and not self._telling:
            self._telling = True
            self.deliver(self._pass_on)

    def _pass_on(self) -> None:
        """In trio's thread."""
        self._telling = False
        while self._told:
            self._told.popleft()()
