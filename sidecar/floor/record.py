"""What a floor says, as values and as the bytes of a file.

Owns the rule that a floor only rises, and the file's format: one JSON object that a person can read, with a checksum
over the rest of it. Numbers that may not fit into a JSON reader's are text. Whatever isn't byte for byte what would be
written for the same values is damaged. Pure; called by ``keeper`` and by the ``floor`` command.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from sidecar.admission import Floor
from sidecar.errors import SidecarError, StartError
from sidecar.identity import Epoch, Generation, Identity

VERSION: Final = 1


class FloorUnavailable(SidecarError):
    """The floor can't be read or written, so that nothing may be acted on that raises it."""


class FloorDamaged(FloorUnavailable):
    """The floor's bytes aren't what was written. The message says what is wrong with them."""


class BelowFloor(SidecarError):
    """What was to be acted on is below the floor: decide again, with the floor as it is now."""


@dataclass(frozen=True, slots=True)
class FloorRecord:
    """The highest generation, and the highest epoch in each epoch scope, that were acted on."""

    generation: Generation | None = None
    epochs: Mapping[str, Epoch] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "epochs", MappingProxyType(dict(self.epochs)))

    def at(self, scope: str) -> Floor:
        """The floor of the listeners that share the epoch scope *scope*."""
        return Floor(self.generation, self.epochs.get(scope))

    def with_generation(self, generation: Generation) -> FloorRecord:
        """This record with *generation* acted on. Raises BelowFloor."""
        if self.generation is not None and generation < self.generation:
            raise BelowFloor(f"generation {generation}, floor {self.generation}")
        return replace(self, generation=generation)

    def with_epoch(self, scope: str, epoch: Epoch) -> FloorRecord:
        """This record with *epoch* acted on in *scope*. Raises BelowFloor."""
        floor = self.epochs.get(scope)
        if floor is not None and epoch < floor:
            raise BelowFloor(f"epoch {epoch}, floor {floor}")
        return replace(self, epochs={**self.epochs, scope: epoch})

    def covers(self, other: FloorRecord) -> bool:
        """Whether this is nowhere below *other*."""
        if other.generation is not None and (self.generation is None or self.generation < other.generation):
            return False
        return all(scope in self.epochs and self.epochs[scope] >= epoch for scope, epoch in other.epochs.items())


@dataclass(frozen=True, slots=True)
class StoredFloor:
    """A floor, and what it is the floor of.

    Attributes:
        slot: floors of another slot say nothing here.
        series: floors of a series that was given up say nothing any more.
    """

    slot: Identity
    series: int
    record: FloorRecord = field(default_factory=FloorRecord)

    def __post_init__(self) -> None:
        if type(self.series) is not int or self.series < 1:
            raise ValueError("series must be a whole number from 1")

    def check_fits(self, slot: Identity, series: int) -> None:
        """Raises StartError where a sidecar that holds *slot*, in *series*, must not go on from this floor."""
        if self.slot != slot:
            raise StartError(
                f"state_dir holds the floor of {self.slot}, and this sidecar holds {slot}: give each slot a state_dir "
                "of its own"
            )
        if self.series > series:
            raise StartError(
                f"floor_series is {series}, and the floor in state_dir is of series {self.series}: a series that was "
                f"given up isn't taken up again; set floor_series to {self.series} or more"
            )


def encode(stored: StoredFloor) -> bytes:
    """The bytes that keep *stored*."""
    record = stored.record
    fields = {
        "version": VERSION,
        "slot": str(stored.slot),
        "series": stored.series,
        "generation": str(record.generation) if record.generation is not None else None,
        "epochs": {scope: str(epoch) for scope, epoch in sorted(record.epochs.items())},
    }
    checksum = hashlib.sha256(json.dumps(fields).encode()).hexdigest()
    return (json.dumps(fields | {"sha256": checksum}, indent=2) + "\n").encode()


def decode(raw: bytes) -> StoredFloor:
    """What *raw* keeps. Raises FloorDamaged."""
    try:
        fields = json.loads(raw)
        if fields["version"] != VERSION:
            raise FloorDamaged(f"is of a version other than {VERSION}, which is all that this sidecar knows")
        generation = fields["generation"]
        stored = StoredFloor(
            Identity.parse(fields["slot"]),
            fields["series"],
            FloorRecord(
                Generation.parse(generation) if generation is not None else None,
                {scope: Epoch.parse(epoch) for scope, epoch in fields["epochs"].items()},
            ),
        )
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise FloorDamaged("isn't a floor") from error
    if encode(stored) != raw:
        raise FloorDamaged("doesn't match its checksum")
    return stored
