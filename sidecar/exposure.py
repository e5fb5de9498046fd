"""Whether there is a way round the sidecar, and whether anybody is behind it.

Owns when it is looked, and what is said of it: a warning and a metric when the local process listens where diallers can
reach it without being asked who they mean, and for readiness the listeners behind which nobody listens. Knows nothing
of how that is found out (``proc_net``), and admits and refuses nothing. Built and run by ``app``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

import trio

from sidecar.config import Handoff, HostPort, UnixPath
from sidecar.log import Logger
from sidecar.metrics import Metrics, State
from sidecar.proc_net import Look, can_be_seen
from sidecar.standing import Obstacle

EXPOSURE_SECONDS: Final = 10.0  # between two looks for a way round
MISSING_SECONDS: Final = 1.0  # between two looks for an upstream that isn't there, where readiness hangs on it
PRESENT_SECONDS: Final = 5.0  # while all are there; a look may cost as much as 50 ms of a processor

_Seen = TypeVar("_Seen")


class UpstreamWatch:
    """Looks at the upstreams again and again.

    Args:
        upstreams: by listener.
        metrics: told whether any of them is exposed.
        logger: told of each change.
        needed: whether readiness hangs on the upstreams.
        look: makes one look; its methods block.
    """

    def __init__(
        self,
        upstreams: Mapping[str, HostPort | UnixPath | Handoff],
        metrics: Metrics,
        logger: Logger,
        *,
        needed: bool,
        look: Callable[[], Look] = Look,
    ) -> None:
        # Whoever takes connections over listens at a path as others do.
        self._upstreams = {
            name: UnixPath(upstream.path) if isinstance(upstream, Handoff) else upstream
            for name, upstream in upstreams.items()
        }
        self._metrics = metrics
        self._logger = logger
        self._needed = needed
        self._look = look
        self._limiter = trio.CapacityLimiter(1)
        self._exposed: dict[str, Sequence[str]] = {}
        self._missing = list(upstreams) if needed else []  # until they have been seen
        self._failure: str | None = None

    def obstacles(self) -> list[Obstacle]:
        """What stands in the way of readiness, where it hangs on the upstreams."""
        return [
            Obstacle(State.UPSTREAM_MISSING, f"nobody listens on the upstream of {name}") for name in self.missing()
        ]

    def missing(self) -> list[str]:
        """The listeners whose upstream nobody listens on, as of the last look; none where readiness needs none.

        An upstream that can't be seen from here, such as one on another host, isn't missing.
        """
        return list(self._missing)

    async def run(self) -> None:
        """Look until cancelled."""
        self._say_what_cant_be_seen()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_exposure)
            if self._needed:
                nursery.start_soon(self._watch_presence)

    async def look_for_ways_round(self) -> None:
        """Look once whether others listen on an upstream's port beyond loopback."""

        def look() -> dict[str, Sequence[str]]:
            one = self._look()
            return {name: one.beyond_loopback(upstream) for name, upstream in self._upstreams.items()}

        found = await self._in_thread(look)
        if found is None:
            return
        for name, addresses in found.items():
            if addresses == self._exposed.get(name, []):
                continue
            upstream = self._upstreams[name]
            if addresses:
                self._logger.warning(
                    "upstream_exposed",
                    listener=name,
                    upstream=upstream,
                    addresses=addresses,
                    advice="who dials there gets round the sidecar: let the local process listen on loopback only",
                )
            else:
                self._logger.info("upstream_no_longer_exposed", listener=name, upstream=upstream)
        self._exposed = found
        self._metrics.exposed(exposed=any(found.values()))

    async def look_for_upstreams(self) -> None:
        """Look once whether somebody listens on each upstream."""

        def look() -> list[str]:
            one = self._look()
            return [name for name, upstream in self._upstreams.items() if not one.listens(upstream)]

        found = await self._in_thread(look)
        if found is not None:
            self._missing = found

    async def _watch_exposure(self) -> None:
        while True:
            await self.look_for_ways_round()
            await trio.sleep(EXPOSURE_SECONDS)

    async def _watch_presence(self) -> None:
        while True:
            await self.look_for_upstreams()
            await trio.sleep(MISSING_SECONDS if self._missing else PRESENT_SECONDS)

    async def _in_thread(self, look: Callable[[], _Seen]) -> _Seen | None:
        """What *look* saw. None where it couldn't be done: then what was seen last goes on counting."""
        try:
            seen = await trio.to_thread.run_sync(look, abandon_on_cancel=True, limiter=self._limiter)
        except (OSError, RuntimeError) as error:  # out of descriptors or threads, or without /proc
            self._say_that_it_failed(str(error))
            return None
        self._failure = None
        return seen

    def _say_that_it_failed(self, failure: str) -> None:
        if failure != self._failure:
            self._failure = failure
            self._logger.warning("upstreams_not_looked_at", error=failure)

    def _say_what_cant_be_seen(self) -> None:
        for name, upstream in self._upstreams.items():
            if not can_be_seen(upstream):
                self._logger.warning(
                    "upstream_not_seen",
                    listener=name,
                    upstream=upstream,
                    effect="no look whether somebody listens there, or whether there is a way round the sidecar",
                    advice="write localhost or an address of this host, if that is what the name means",
                )
