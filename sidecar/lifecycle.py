"""From the first listening socket to the exit: what the process as a whole is doing.

Owns the states, what readiness means, and the order of the end: readiness goes off; for ``drain.delay`` claims are
still admitted, since the network learns slowly; then new ones are refused, on listeners that stay open, until the last
connection has ended or ``drain.timeout`` is over; what is left is cut, not all at one moment. ``drain`` alone goes as
far as refusing and ends nothing: it is for a sidecar whose pod is ending while the main container still works.

Knows nothing of sockets and signals; ``app`` tells it of them and acts on its end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import trio

from sidecar.handshake import DRAINING_PREFACE_SECONDS
from sidecar.metrics import State
from sidecar.parting import PARTING_SECONDS
from sidecar.reasons import End
from sidecar.roster import Roster
from sidecar.standing import Obstacle

_CUT_SPREAD: Final = 0.1  # of the drain's time, so that not everybody reconnects elsewhere at one moment
_CUT_SPREAD_SECONDS: Final = 1.0


class Lifecycle:
    """The process's state, and its end.

    Args:
        roster: who is here.
        obstacles: what else stands in the way of readiness.
        delay: seconds for which a process that is on its way out still admits.
        timeout: seconds after that for connections to end by themselves.
        on_state: told of each state that is entered.
    """

    def __init__(
        self,
        roster: Roster,
        *,
        obstacles: Callable[[], Sequence[Obstacle]],
        delay: float,
        timeout: float,
        on_state: Callable[[State], None],
    ) -> None:
        self._roster = roster
        self._obstacles = obstacles
        self._delay = delay
        self._timeout = timeout
        self._on_state = on_state
        self._leaving = trio.Event()
        self._grace = trio.CancelScope()  # for the admitted to end by themselves
        self._parting = trio.CancelScope()  # for the refused to learn that they are
        self._aborted = False
        self.started = False
        self.refusing = False

    def start(self) -> None:
        """Listeners accept and the configuration is loaded."""
        self.started = True
        self._on_state(self.state)

    def refresh(self) -> None:
        """What stands in the way of readiness may have changed."""
        self._on_state(self.state)

    def retime(self, *, delay: float, timeout: float) -> None:
        """Other limits for a drain that hasn't begun."""
        self._delay = delay
        self._timeout = timeout

    @property
    def state(self) -> State:
        """What the process is doing now."""
        if self._leaving.is_set():
            return State.STOPPING
        if self.refusing:
            return State.DRAINING
        if not self.started:
            return State.PENDING
        return next((obstacle.state for obstacle in self._obstacles()), State.READY)

    def not_ready(self) -> list[str]:
        """What stands in the way of readiness, in words; empty: nothing does."""
        lacks = []
        if not self.started:
            lacks.append("listeners don't accept yet")
        if self._leaving.is_set():
            lacks.append("stopping")
        elif self.refusing:
            lacks.append("draining")
        return lacks + [obstacle.words for obstacle in self._obstacles()]

    def drain(self) -> None:
        """Refuse new claims from now on, and end nothing. Again: no change."""
        if not self.refusing:
            self.refusing = True
            self._roster.hurry(trio.current_time())
            self._on_state(self.state)

    def shutdown(self) -> None:
        """Begin the end. Again: no change."""
        if not self._leaving.is_set():
            self._leaving.set()
            self._on_state(self.state)
            if not self._delay:  # not a moment later than whoever asked for it hears that it was done
                self.drain()

    def abort(self) -> None:
        """Cut everybody at once and be gone."""
        self._aborted = True
        self.shutdown()
        self._grace.cancel()
        self._parting.cancel()

    async def wait_drained(self) -> None:
        """Wait for the end to begin, and until every admitted connection has ended or was cut."""
        await self._leaving.wait()
        with self._grace:
            await trio.sleep(self._delay)
            self.drain()
            with trio.move_on_after(self._timeout):
                await self._roster.wait_none_passed()
            await self._cut_one_by_one()
        self.drain()
        self._roster.end_passed(End.ABORTED if self._aborted else End.DRAIN_TIMEOUT)
        await self._roster.wait_none_passed()

    async def wait_gone(self) -> int:
        """After the listeners have closed: wait until those who came last know that they are refused. The exit code."""
        self._parting.deadline = trio.current_time() + DRAINING_PREFACE_SECONDS + PARTING_SECONDS
        with self._parting:
            await self._roster.wait_empty()
        return 1 if self._aborted else 0

    async def _cut_one_by_one(self) -> None:
        rest = tuple(self._roster)
        spread = min(self._timeout * _CUT_SPREAD, _CUT_SPREAD_SECONDS)
        for connection in rest:
            if connection.admitted:
                connection.end(End.DRAIN_TIMEOUT)
                await trio.sleep(spread / len(rest))
