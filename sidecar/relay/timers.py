"""Moments at which something is to be called, most of which are given up before they come.

A heap, in which a timer that was given up stays until it surfaces or until such timers are the larger part; then the
heap is made anew without them. So giving up costs nothing, and a thousand short connections a second leave nothing.

Owns no clock: called by ``reactor``, which has one.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterator
from typing import Final

_FEW: Final = 64  # given-up timers that aren't worth making the heap anew


class Timer:
    """One call to come."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[], None]) -> None:
        self.action: Callable[[], None] | None = action


class Timers:
    """All of them."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()  # so that equal moments are never compared further
        self._given_up = 0

    def at(self, when: float, action: Callable[[], None]) -> Timer:
        """Have *action* called at *when*."""
        timer = Timer(action)
        heapq.heappush(self._heap, (when, next(self._numbers), timer))
        return timer

    def give_up(self, timer: Timer) -> None:
        """Don't call it. Again, or after it was called: no change."""
        if timer.action is None:
            return
        timer.action = None
        self._given_up += 1
        if self._given_up > _FEW and self._given_up > len(self._heap) // 2:
            self._heap = [entry for entry in self._heap if entry[2].action is not None]
            heapq.heapify(self._heap)
            self._given_up = 0

    def next(self) -> float | None:
        """When the next one is due; None: there is none."""
        while self._heap and self._heap[0][2].action is None:
            heapq.heappop(self._heap)
            self._given_up -= 1
        return self._heap[0][0] if self._heap else None

    def due(self, now: float) -> Iterator[Callable[[], None]]:
        """What is to be called by *now*, one after the other."""
        while (when := self.next()) is not None and when <= now:
            timer = heapq.heappop(self._heap)[2]
            action, timer.action = timer.action, None
            if action is not None:
                yield action
