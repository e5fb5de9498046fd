"""What a side asks of the pair that it is one of.

``pair`` is that; ``side`` knows no more of it than this, so that neither imports the other.
"""

from __future__ import annotations

from typing import Protocol

from sidecar.reasons import End
from sidecar.relay.terms import Fence


class Owner(Protocol):
    """The pair that a side is of."""

    over: bool
    fence: Fence

    def may_move(self) -> bool:
        """Whether the fence lets bytes move now; where not, the pair is over."""

    def moved(self, up: bool, size: int, /) -> None:  # noqa: FBT001  the fastest way to pass it
        """*size* bytes have gone to the other side."""

    def stream_ended(self, of_client: bool, /) -> None:  # noqa: FBT001  as above
        """That side's peer has ended its stream, and everything that it sent has gone on."""

    def finish(self, end: End, *, fault: Exception | None = None) -> None:
        """It is over, abortively. Again: no change."""

    def end_was_told(self) -> None:
        """A side that owed its peer the end of our stream has told it."""
