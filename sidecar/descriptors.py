"""How many connections this process's file descriptors carry.

Owns RLIMIT_NOFILE: raises it as far as it may go, and says what fits. Called by ``app`` once, at start.
"""

from __future__ import annotations

import resource
from dataclasses import dataclass
from typing import Final

RESERVED: Final = 160  # stderr, epoll, listeners, files, and both HTTP servers with all that they take at once

_HTTP_CONNECTIONS: Final = 64
_LINGERING: Final = 1024


@dataclass(frozen=True, slots=True)
class Places:
    """How many connections may be admitted, how many may wait for a verdict, and how many may be told of theirs."""

    connections: int
    pending: int
    lingering: int = _LINGERING


def raise_limit() -> int:
    """Raise the soft limit to the hard one; the number of descriptors that the process may have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def _reserved(descriptors: int) -> int:
    return min(RESERVED, descriptors // 4)


def http_connections(descriptors: int) -> int:
    """How many connections each of the two HTTP servers may take at once, out of what is reserved."""
    return max(2, min(_HTTP_CONNECTIONS, _reserved(descriptors) // 2 - 4))


def fit(wanted: Places, descriptors: int) -> Places:
    """*wanted*, lowered to what *descriptors* carry.

    An admitted connection takes two; one that waits, and one whose refusal is on its way, take one each. So pairs get
    half of the descriptors and the other two a quarter each, and none can use up what another needs.
    """
    quarter = max(1, (descriptors - _reserved(descriptors)) // 4)
    return Places(*(min(each, quarter) for each in (wanted.connections, wanted.pending, wanted.lingering)))
