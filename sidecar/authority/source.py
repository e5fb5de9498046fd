"""What stands behind an authority, and what the flow sees of it.

Owns the two interfaces alone. A :class:`Source` knows how to read its store and when to look again, and nothing of
claims; ``front`` turns any of them into the :class:`Authority` that the flow asks. There a store's failure is a reading
like any other (``Unavailable``), never an exception and never mistaken for "not assigned": the decision table has a row
for each.
"""

from __future__ import annotations

from typing import Protocol

from sidecar.assignment import Assignment, Reading, Unassigned
from sidecar.errors import SidecarError


class SourceUnavailable(SidecarError):
    """The store doesn't answer, or gives an answer that can't be trusted. The text says which and why."""


class Source(Protocol):
    """Where the assignment of this slot is kept."""

    async def read(self) -> Assignment | Unassigned:
        """What it says now. May be abandoned at any moment. Raises SourceUnavailable."""

    def now(self) -> Assignment | None:
        """What it says, where that is known without waiting and never changes; None: read it."""

    async def wait_hint(self) -> None:
        """Wait until a change may have happened; a read then shows whether it has."""

    def pending(self) -> list[str]:
        """What hasn't appeared yet, in words; empty once there was a first assignment."""


class Authority(Protocol):
    """The assignment as the flow asks for it."""

    @property
    def newest(self) -> Reading:
        """The newest reading known, without asking again: what a decision is repeated on after the dial."""

    @property
    def stale(self) -> bool:
        """Whether what was read is too old for anything to rest on it."""

    def last_known(self) -> Assignment | None:
        """The remembered assignment, where the configuration lets it stand in for an authority that is silent."""

    def forget(self) -> None:
        """A higher generation was heard of: what is remembered admits nobody any more."""

    def read_now(self) -> Reading | None:
        """The same as ``read``, where it needs no waiting; None: it does."""

    async def read(self) -> Reading:
        """What a read that began after this call brought, once everything that it revokes is cut."""
