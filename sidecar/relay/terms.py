"""What an admitted pair is pumped under: its deadlines, and what is counted of it.

Owns the small values that pass through the relay's door. Plain attributes, written by one thread and read by others:
that a number is a moment old does no harm, and none of them is ever half written.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from sidecar.reasons import End

Clock = Callable[[], float]

# Seconds on the relay's clock. It goes on while the machine is suspended, so that no deadline is slept through.
boot_clock: Final[Clock] = partial(time.clock_gettime, time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class RelayTimes:
    """Limits in seconds on an admitted pair; None: never."""

    half_close: float | None
    idle: float | None
    lifetime: float | None


@dataclass(slots=True, eq=False)
class Traffic:
    """Bytes that have gone through, live; up is from the controller to the local process."""

    up: int = 0
    down: int = 0


@dataclass(slots=True)
class Fence:
    """Up to when bytes may move at all, whoever else is late to say so.

    The flow cuts what has run out of time; but it might be late, and a process that was stopped for a while goes on
    where it was. So the relay compares this itself before it moves a byte.

    Attributes:
        until: On ``boot_clock``; infinite: always.
        end: What a pair that the fence has stopped has ended of.
    """

    until: float = float("inf")
    end: End = End.AUTHORITY_STALE


@dataclass(frozen=True, slots=True)
class Terms:
    """What an admitted connection is let go under.

    Attributes:
        times: Its deadlines.
        fence: Up to when its bytes may move.
        traffic: What went through it, kept up to date.
        total: What went through all connections of its listener.
    """

    times: RelayTimes
    fence: Fence
    traffic: Traffic
    total: Traffic


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a pair ended; ``fault`` is ours, where that was it."""

    end: End
    fault: Exception | None = None
