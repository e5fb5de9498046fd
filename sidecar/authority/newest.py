"""The one newest record.

Owns the order of what was read. Reads count in the order in which they began. A result that is behind the newest record
is merely late if its read began before that record was known, and dropped; if it began after, the authority has gone
back. Pure but for the trust in its caller's numbers: no clock, no I/O. Called by ``front``.
"""

from __future__ import annotations

from dataclasses import dataclass

from sidecar.assignment import Assignment, Reading, Regressed, Unassigned, Unavailable
from sidecar.identity import Generation


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of a result: what is to be decided on, and whether that is news."""

    reading: Reading
    changed: bool = False


class Newest:
    """Keeps the newest record, and the best that is known of the authority."""

    def __init__(self) -> None:
        self._record: Assignment | Unassigned | None = None
        self._number = 0  # of the read that gave it
        self._begun_by_then = 0  # reads with numbers up to here had begun when it became known
        self._latest: Reading = Unavailable("nothing has been read yet")
        self._latest_number = 0

    @property
    def record(self) -> Reading:
        """The newest record; before the first one, why there is none."""
        return self._record if self._record is not None else self._latest

    @property
    def latest(self) -> Reading:
        """What the latest read brought, good or not."""
        return self._latest

    def take(
        self, number: int, result: Assignment | Unassigned | Unavailable, *, floor: Generation | None, begun: int
    ) -> Taken:
        """Take the result of a read.

        Args:
            number: the read's, in the order in which reads began.
            result: what it brought.
            floor: the highest generation that was ever acted on.
            begun: the number of the latest read that has begun.
        """
        reading: Reading = result
        behind = isinstance(result, Assignment) and floor and result.generation and result.generation < floor
        late = number < self._number or (behind and number <= self._begun_by_then)
        if late and self._record is not None and not isinstance(result, Unavailable):
            return Taken(self._record)
        if behind:
            assert isinstance(result, Assignment)  # noqa: S101  else it couldn't be behind
            reading = Regressed(
                f"it says generation {result.generation}, and {floor} was seen before: restore what it lost, or start "
                "a new floor_series if that generation is really gone"
            )
        if number > self._latest_number:
            self._latest, self._latest_number = reading, number
        if isinstance(reading, Unavailable | Regressed):
            return Taken(reading)
        changed = reading != self._record
        self._record, self._number, self._begun_by_then = reading, number, begun
        return Taken(reading, changed)
