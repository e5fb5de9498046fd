"""What a registry would hold of a slot: which pod runs it, in which life, and where.

Owns that value. Knows no process; it is what controllers remember, and what becomes wrong when pods move.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from sidecar.identity import ControllerName, Generation, Identity, Instance
from sidecar.preface.claim import Claim

Life: TypeAlias = tuple[Generation, Instance]


@dataclass(frozen=True, slots=True)
class Record:
    """One slot: its incarnation, and the address of the pod that runs it."""

    identity: Identity
    generation: Generation
    instance: Instance
    host: str

    @property
    def ordinal(self) -> int:
        """The slot's place in the replica set."""
        return self.identity.ordinal

    @property
    def life(self) -> Life:
        """The incarnation: what tells this life from the slot's others."""
        return self.generation, self.instance

    def claim(self, controller: ControllerName) -> Claim:
        """What *controller* says to a process that it takes for this one."""
        return Claim(self.identity, self.generation, self.instance, controller=controller)

    def __str__(self) -> str:
        return f"{self.host} as {self.identity}, generation {self.generation}, {self.instance}"
