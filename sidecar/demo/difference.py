"""The one way in which the demo fails.

Owns the exception that every part raises when something comes out otherwise than the story tells it.
"""

from __future__ import annotations

from sidecar.errors import SidecarError


class DiffersError(SidecarError):
    """Something came out otherwise than the demo tells it.

    Attributes:
        what: what was looked at.
        expected: what the demo tells.
        happened: what came instead.
    """

    def __init__(self, what: str, *, expected: object, happened: object) -> None:
        super().__init__(f"{what}: expected {expected}, but {happened}")
        self.what = what
        self.expected = expected
        self.happened = happened
