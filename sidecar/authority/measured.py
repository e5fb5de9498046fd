"""An authority whose reads are counted and timed, whatever it is.

Owns nothing but that; ``app`` puts it around the real one.
"""

from __future__ import annotations

from dataclasses import dataclass

import trio

from sidecar.admission import Assignment, Reading, Regressed, Unassigned
from sidecar.authority.source import Authority
from sidecar.metrics import Metrics, ReadResult


@dataclass(frozen=True, slots=True)
class Measured:
    """An authority that tells *metrics* of its reads."""

    authority: Authority
    metrics: Metrics

    @property
    def newest(self) -> Reading:
        """The newest reading known."""
        return self.authority.newest

    async def read(self) -> Reading:
        """A reading of the authority behind; one that is given up for its time counts as unavailable."""
        began = trio.current_time()
        result = ReadResult.UNAVAILABLE
        try:
            reading = await self.authority.read()
            result = _result(reading)
        finally:
            self.metrics.authority_read(result, trio.current_time() - began)
        return reading


def _result(reading: Reading) -> ReadResult:
    match reading:
        case Assignment():
            return ReadResult.ASSIGNED
        case Unassigned():
            return ReadResult.UNASSIGNED
        case Regressed():
            return ReadResult.REGRESSED
        case _:
            return ReadResult.UNAVAILABLE
