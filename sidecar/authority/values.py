"""The assignment as it stands in the configuration: fixed for the life of the container.

The simplest safe form (``instance: ${POD_UID}``): a pod that comes back under the same name has another UID and so
another configuration. Nothing is read, so nothing can be stale or unavailable.
"""

from __future__ import annotations

from dataclasses import dataclass

import trio

from sidecar.assignment import Assignment


@dataclass(frozen=True, slots=True)
class Values:
    """A source whose answer never changes."""

    assignment: Assignment

    async def read(self) -> Assignment:
        """The assignment."""
        await trio.lowlevel.checkpoint()
        return self.assignment

    def now(self) -> Assignment:
        """The assignment."""
        return self.assignment

    async def wait_hint(self) -> None:
        """Wait for ever: nothing changes."""
        await trio.sleep_forever()

    def pending(self) -> list[str]:
        """Nothing: values are there from the start."""
        return []
