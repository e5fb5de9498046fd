"""How the process is doing: what has to be looked at now and then, since nothing says it by itself.

Owns when that is looked at: how late trio's loop is and how late the relay's, what the log has left out, and whether
what stands in the way of readiness has changed. Built and run by ``app``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import trio

from sidecar.lifecycle import Lifecycle
from sidecar.log import RefusalLog
from sidecar.metrics import Metrics
from sidecar.relay import Relay

LAG_SECONDS: Final = 0.25  # between two looks at how late the loops are
HOUSEKEEPING_SECONDS: Final = 1.0  # between two looks at what was left out of the log, and at the state


@dataclass(frozen=True, slots=True)
class Vitals:
    """Looks, and tells the metrics and the log."""

    metrics: Metrics
    relay: Relay
    refusals: RefusalLog
    lifecycle: Lifecycle

    async def run(self) -> None:
        """Look until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_loops)
            nursery.start_soon(self._keep_house)

    async def _watch_loops(self) -> None:
        while True:
            due = trio.current_time() + LAG_SECONDS
            await trio.sleep_until(due)
            self.metrics.loop_lag.set(trio.current_time() - due)
            relay = self.relay.statistics()
            self.metrics.relay_lag.set(relay.lag)
            self.metrics.relay_pipes.set(relay.pipes)

    async def _keep_house(self) -> None:
        while True:
            await trio.sleep(HOUSEKEEPING_SECONDS)
            self.refusals.flush()
            self.lifecycle.refresh()
