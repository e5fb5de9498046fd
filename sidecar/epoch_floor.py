"""A scope's epoch floor, as a listener raises it.

Owns what a higher epoch sets off, in this order: it is kept durably, whoever is below it is cut and gone, and only then
the connection that brought it goes on. Called by ``passage`` through the gate; which diallers may raise a floor is
settled before.
"""

from __future__ import annotations

from dataclasses import dataclass

from sidecar.floor import BelowFloor, FloorKeeper, FloorUnavailable
from sidecar.identity import Epoch
from sidecar.roster import Roster


@dataclass(slots=True)
class EpochFloor:
    """The floor of one scope.

    ``cut_below`` is the epoch below which everybody has been cut: a claim that gave up may have left a higher floor
    behind, and nobody cut by it.
    """

    scope: str
    keeper: FloorKeeper
    roster: Roster
    cut_below: Epoch | None = None

    def holds(self, epoch: Epoch) -> bool:
        """Whether it is at least *epoch* already, and nobody below it is left: then there is nothing to raise."""
        record = self.keeper.current
        floor = record.at(self.scope).epoch if record is not None else None
        return floor is not None and epoch <= floor and floor == self.cut_below

    async def raise_to(self, epoch: Epoch) -> bool:
        """Make it at least *epoch*. False: it can't be kept now, so that nothing may rest on it."""
        record = self.keeper.current
        if record is None:
            return False
        floor = record.at(self.scope).epoch
        if floor is None or epoch > floor:
            try:
                await self.keeper.raise_epoch(self.scope, epoch)
            except BelowFloor:
                return True  # a later leader was faster, and the decision after the dial will say so
            except FloorUnavailable:
                return False
            floor = epoch
        if floor != self.cut_below:
            await self.roster.decide_again()
            self.cut_below = floor
        return True
