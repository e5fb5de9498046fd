"""A Kubernetes pod's name, taken apart.

Owns where the ordinal of a StatefulSet's pod stands in its name: the digits after the last "-". What stands before may
hold dashes and digits of its own. Knows no key.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

from sidecar.identity import MAX_ORDINAL

MAX_LENGTH: Final = 253

# A DNS subdomain (RFC 1123), which is what Kubernetes takes for a pod's name.
_POD_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*")
_ORDINAL = re.compile(r"0|[1-9][0-9]{0,9}")


@dataclass(frozen=True, slots=True)
class PodName:
    """``<base>-<ordinal>``."""

    base: str
    ordinal: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """The name that *text* spells. Raises ValueError."""
        if len(text) > MAX_LENGTH or not _POD_NAME.fullmatch(text):
            raise ValueError("isn't a valid Kubernetes pod name: a-z 0-9 - . with a letter or digit at both ends")
        base, dash, ordinal = text.rpartition("-")
        if not dash or not _ORDINAL.fullmatch(ordinal) or int(ordinal) > MAX_ORDINAL:
            raise ValueError(
                'must end in "-" and an ordinal without leading zeros, as the pods of a StatefulSet do: replica-a-2'
            )
        return cls(base, int(ordinal))

    def __str__(self) -> str:
        return f"{self.base}-{self.ordinal}"
