"""What the flow asks of an authority, whatever stands behind it.

Owns the interface alone. An authority knows how to read its store; it knows nothing of claims, connections or
verdicts. A store's failure is a reading like any other (``Unavailable``), never an exception and never mistaken for
"not assigned": the decision table has a row for each.
"""

from __future__ import annotations

from typing import Protocol

from sidecar.admission import Reading
from sidecar.errors import SidecarError


class SourceUnavailable(SidecarError):
    """A source gave no answer, or one that can't be trusted.

    For the layer between a source and the flow, which makes a reading of it; the text is the reading's detail.
    """


class Authority(Protocol):
    """The source of this slot's assignment."""

    @property
    def newest(self) -> Reading:
        """The newest reading known, without asking again: what a decision is repeated on after the dial."""

    async def read(self) -> Reading:
        """An authoritative reading that began after this call. The caller bounds its time with a cancel scope."""
