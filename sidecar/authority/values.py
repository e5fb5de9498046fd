"""The assignment as it stands in the configuration: fixed for the life of the container.

The simplest safe form (``instance: ${POD_UID}``): a pod that comes back under the same name has another UID and so
another configuration. Nothing is read, so nothing can be stale or unavailable.
"""

from __future__ import annotations

from dataclasses import dataclass

import trio

from sidecar.admission import Assignment


@dataclass(frozen=True, slots=True)
class Values:
    """An authority whose answer never changes."""

    newest: Assignment

    async def read(self) -> Assignment:
        """The assignment."""
        await trio.lowlevel.checkpoint()
        return self.newest
