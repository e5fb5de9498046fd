"""An exclusive listener's one place, and who may take it over.

Owns the turn: takeovers happen one at a time, from the decision until the new connection is admitted or refused, so
that two newcomers can't both cut the holder and leave nobody. Owns the count of takeovers too: without epochs two
controllers that each believe to be the one would cut each other for ever, and beyond a few in a short time they are
refused instead. Whether a takeover is right is the admission table's to say. Called by ``connection``.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import trio

from sidecar.admission import Holder
from sidecar.roster import Connection

MOST_TAKEOVERS: Final = 5
WITHIN_SECONDS: Final = 10.0


class Exclusive:
    """The one place of a listener.

    Attributes:
        turn: Held by the connection that is being decided for the place.
        holder: The admitted connection, if there is one.
    """

    def __init__(self) -> None:
        self.turn = trio.Semaphore(1)  # no Lock: who holds it may go from one task to another
        self.holder: Connection | None = None
        self._takeovers: deque[float] = deque(maxlen=MOST_TAKEOVERS)  # when, without epochs

    def state(self) -> Holder | None:
        """The holder as the decision sees it."""
        if self.holder is None:
            return None
        full = len(self._takeovers) == MOST_TAKEOVERS
        flapping = full and trio.current_time() - self._takeovers[0] < WITHIN_SECONDS
        return Holder(self.holder.controller, self.holder.epoch, flapping=flapping)

    def taken_over(self, *, by_epoch: bool) -> None:
        """The holder was cut for another connection."""
        if not by_epoch:
            self._takeovers.append(trio.current_time())

    def give(self, connection: Connection) -> None:
        """It is admitted, and holds the place from now on."""
        self.holder = connection

    def leave(self, connection: Connection) -> None:
        """It is gone."""
        if self.holder is connection:
            self.holder = None
