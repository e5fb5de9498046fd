"""When an admitted connection runs out of time.

Owns the three limits and which of them has passed. Reads no clock; called by ``pair`` and ``handed``, which say what
happened when.
"""

from __future__ import annotations

import random
from typing import Final

from sidecar.reasons import End
from sidecar.relay.terms import RelayTimes

LIFETIME_JITTER: Final = 0.1  # of the configured lifetime, at most
NEVER: Final = float("inf")


class Deadlines:
    """The deadlines of one connection.

    Attributes:
        times: The limits.
        active_at: When it last moved something.
        half_closed_at: When the first of its two streams ended.
    """

    __slots__ = ("_dies_at", "active_at", "half_closed_at", "times")

    def __init__(self, times: RelayTimes, now: float) -> None:
        self.times = times
        self.active_at = now
        self.half_closed_at: float | None = None
        self._dies_at = NEVER
        if times.lifetime is not None:  # shortened at random, so that connections made together don't end together
            self._dies_at = now + times.lifetime * random.uniform(1 - LIFETIME_JITTER, 1)  # noqa: S311  guards nothing

    def passed(self, now: float) -> End | None:
        """The limit that has passed; None: none. Being idle comes last, since there may be more to know about it."""
        if now >= self._half_close():
            return End.HALF_CLOSE
        if now >= self._dies_at:
            return End.LIFETIME
        return End.IDLE if now >= self._idle() else None

    def next(self) -> float:
        """When one passes, as things stand."""
        return min(self._half_close(), self._dies_at, self._idle())

    def _half_close(self) -> float:
        limit = self.times.half_close
        return NEVER if limit is None or self.half_closed_at is None else self.half_closed_at + limit

    def _idle(self) -> float:
        return NEVER if self.times.idle is None else self.active_at + self.times.idle
