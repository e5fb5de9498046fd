"""A metric family's children, made all at once so that every series exists from the start.

Owns the way from a closed enum to handles, over ``prometheus_client``; called by ``process``. What moves with every
connection has handles of its own (``tallies``).
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeVar

from prometheus_client import Counter, Gauge, Histogram

NAMESPACE: Final = "identity_sidecar"

Kind = TypeVar("Kind", bound=StrEnum)
Family = TypeVar("Family", Counter, Gauge, Histogram)


def children(family: Family, kinds: type[Kind], *labels: str) -> dict[Kind, Family]:
    """One child of *family* for each of *kinds*, which is its last label: all of them exist from now on."""
    return {kind: family.labels(*labels, kind) for kind in kinds}
