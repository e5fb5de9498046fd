"""Where this slot stands: what its authority and its floor say of it now.

Owns the words for what stands in the way of readiness, and the snapshot of the floor that a decision is taken on. Reads
only what is known already; asks nobody. Called by ``lifecycle`` and, for each decision, through the gates.
"""

from __future__ import annotations

from dataclasses import dataclass

from sidecar.admission import Floor
from sidecar.assignment import Assignment, Regressed, Unassigned
from sidecar.authority.front import Front
from sidecar.authority.source import Source
from sidecar.floor import FloorKeeper, FloorRecord
from sidecar.metrics import State


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Something that stands in the way of readiness: the process's state that it amounts to, and words for people."""

    state: State
    words: str


@dataclass(frozen=True, slots=True)
class Standing:
    """What is known of this slot."""

    source: Source
    front: Front
    keeper: FloorKeeper

    def floor_now(self) -> tuple[FloorRecord | None, str]:
        """What the floor of any scope is made of: as long as both are the same objects, so is the floor."""
        return self.keeper.current, self.front.floor_fault

    def floor(self, scope: str) -> Floor | None:
        """The floor for a decision in *scope*; None: it can't be read or written."""
        record = self.keeper.current
        return record.at(scope) if record is not None and not self.front.floor_fault else None

    def obstacles(self) -> list[Obstacle]:
        """What stands in the way of readiness; empty: this pod holds its slot. A silent authority changes nothing."""
        found = []
        if self.front.floor_trouble:
            found.append(Obstacle(State.FLOOR_UNAVAILABLE, self.front.floor_trouble))
        latest, newest = self.front.latest, self.front.newest
        if isinstance(latest, Regressed):
            found.append(Obstacle(State.REGRESSED, f"authority_regressed: {latest.detail}"))
        elif isinstance(newest, Unassigned) and not newest.pending:
            found.append(Obstacle(State.NOT_ASSIGNED, "this slot has no assignment"))
        elif not isinstance(newest, Assignment):
            waiting = self.source.pending() or [getattr(newest, "detail", "no assignment yet")]
            found += [Obstacle(State.PENDING, f"pending: {each}") for each in waiting]
        return found
