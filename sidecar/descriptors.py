"""How many connections this process's file descriptors carry.

Owns RLIMIT_NOFILE: raises it as far as it may go, and says what fits. Called by ``app`` once, at start.
"""

from __future__ import annotations

import resource
from dataclasses import dataclass
from typing import Final

# Stderr, epoll, listeners, files, both HTTP servers with all that they take at once, and the relay's pipes.
RESERVED: Final = 256

_HTTP_CONNECTIONS: Final = 64
_PIPES: Final = 48  # of 1 MiB, out of the 64 MiB that an unprivileged user may have (pipe(7))
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
    return max(2, min(_HTTP_CONNECTIONS, _reserved(descriptors) // 4 - 2))


def pipes(descriptors: int) -> int:
    """How many pipes the relay may have, out of what is reserved."""
    return min(_PIPES, _reserved(descriptors) // 5)


def fit(wanted: Places, descriptors: int, *, each: int = 2) -> Places:
    """*wanted*, lowered to what *descriptors* carry.

    One that waits, and one whose refusal is on its way, take one each, and get at most a quarter each of what there is,
    so that none of the three can use up what another needs.

    Args:
        wanted: what the configuration asks for.
        descriptors: that the process may have.
        each: how many an admitted connection takes: two where it is relayed, one where it is handed over.
    """
    free = descriptors - _reserved(descriptors)
    quarter = max(1, free // 4)
    pending, lingering = min(wanted.pending, quarter), min(wanted.lingering, quarter)
    connections = max(1, (free - pending - lingering) // each)
    return Places(min(wanted.connections, connections), pending, lingering)
