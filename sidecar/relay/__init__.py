"""The relay: pumps admitted pairs of connections, in a thread of its own beside trio's.

Its door is narrow. Admitted pairs go in (:meth:`Relay.pump`), outcomes come out; a pair is ended from outside by
:meth:`Relay.cut`. trio owns its lifetime: the thread lives as long as :meth:`Relay.run`, and takes everything that it
still has with it. All of it may be called in trio's thread alone; what the thread does by itself is ``reactor``,
``pair`` and ``side``.

Owns the pairs' sockets from ``pump`` to the outcome. Knows no claim, verdict or metric. Called by ``connection``.
"""

from __future__ import annotations

from sidecar.relay.relay import Pumped, Relay, Statistics
from sidecar.relay.side import CHUNK
from sidecar.relay.terms import Fence, Outcome, RelayTimes, Terms, Traffic, boot_clock

__all__ = [
    "CHUNK",
    "Fence",
    "Outcome",
    "Pumped",
    "Relay",
    "RelayTimes",
    "Statistics",
    "Terms",
    "Traffic",
    "boot_clock",
]
