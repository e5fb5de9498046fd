"""The composition root: builds every part, passes each what it needs, and runs them in the right order.

Start: descriptors, both HTTP servers, listeners (so that a port that is taken ends the start before anything is
accepted), then the accept loops. End: see ``lifecycle``; the accept loops and listeners go first, the connections with
them, the HTTP servers last, so that the final counts can still be scraped.

Nothing else in the package creates sockets to listen on, a registry, a logger or the roster. Called by the ``run``
command.
"""

from __future__ import annotations

import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial

import trio
from prometheus_client import CollectorRegistry

from sidecar import admin, telemetry
from sidecar.assignment import Assignment, Reading
from sidecar.authority.front import Front, FrontTimes
from sidecar.authority.source import Source
from sidecar.bind import Bound, bind
from sidecar.certificates import Certificates
from sidecar.config import Config, HostPort, UnixPath
from sidecar.config import Listener as ListenerConfig
from sidecar.control import ProcessControl
from sidecar.descriptors import http_connections, pipes, raise_limit
from sidecar.exposure import UpstreamWatch
from sidecar.floor import FloorKeeper
from sidecar.gates import Gates
from sidecar.http_server import Bounds
from sidecar.http_server import serve as serve_http
from sidecar.journal import Journal
from sidecar.lifecycle import Lifecycle
from sidecar.listener import Listener
from sidecar.log import Logger, LogSwitch, RefusalLog
from sidecar.metrics import Metrics
from sidecar.opening import open_floor, open_lifelines, open_source
from sidecar.parting import Parting
from sidecar.reasons import End
from sidecar.rebind import Door
from sidecar.relay import Relay
from sidecar.reload import Reload, places
from sidecar.roster import Roster
from sidecar.standing import Obstacle, Standing
from sidecar.vitals import Vitals


async def run(config: Config, logger: Logger, *, reread: Callable[[], Config], switch: LogSwitch) -> int:
    """Run a sidecar until a signal or the admin server ends it. The exit code.

    Args:
        config: what it is and does.
        logger: where it says so.
        reread: reads the configuration again, for a reload. Raises ConfigurationError.
        switch: the logger's.

    Raises:
        StartError: an address is taken, the floor belongs to another slot, ...
    """
    source = open_source(config)
    keeper = open_floor(config)
    try:
        return await _App(config, logger, source, keeper, reread, switch).run()
    finally:
        keeper.close()


class _App:
    """The parts of one process."""

    def __init__(
        self,
        config: Config,
        logger: Logger,
        source: Source,
        keeper: FloorKeeper,
        reread: Callable[[], Config],
        switch: LogSwitch,
    ) -> None:
        self._config = config
        self._logger = logger
        self._descriptors = raise_limit()
        wall_clock = time.time  # noqa: TID251  for timestamps that people read, and for certificates, which go by no other
        self._metrics = metrics = Metrics(
            CollectorRegistry(),
            listeners=[each.name for each in config.listeners],
            wall_clock=wall_clock,
        )
        carried = places(config, self._descriptors, metrics, logger)
        self._roster = Roster(connections=carried.connections, pending=carried.pending, lingering=carried.lingering)
        assignment = config.assignment
        self._front = Front(
            source,
            keeper,
            FrontTimes(
                read=assignment.timeout,
                revalidate=assignment.revalidate_interval,
                max_age=assignment.max_age,
                max_staleness=assignment.max_staleness,
            ),
            metrics,
            on_change=self._assignment_changed,
            on_stale=self._authority_stale,
            on_floor=self._floor_changed,
            on_good=lambda until: self._gates.fence(until),  # noqa: PLW0108  they are made below
        )
        self._standing = Standing(source, self._front, keeper)
        self._upstreams = UpstreamWatch(
            {each.name: each.upstream for each in config.listeners},
            metrics,
            logger,
            needed=config.telemetry.ready_needs_upstream,
        )
        self._lifecycle = Lifecycle(
            self._roster,
            obstacles=self._obstacles,
            delay=config.drain.delay,
            timeout=config.drain.timeout,
            on_state=metrics.state,
        )
        clock = trio.lowlevel.current_clock().current_time  # trio.current_time goes round to it each time
        self._refusals = RefusalLog(
            logger,
            per_second=config.log.refusals_per_second,
            clock=clock,
            on_suppressed=metrics.log_suppressed.inc,
        )
        self._relay = Relay(pipes=pipes(self._descriptors))
        self._parting = Parting()
        self._lifelines = open_lifelines(config, logger)
        self._certificates = Certificates(config, metrics, logger, self._roster, wall_clock)
        self._gates = Gates(
            config,
            standing=self._standing,
            roster=self._roster,
            lifecycle=self._lifecycle,
            relay=self._relay,
            lifelines=self._lifelines,
            parting=self._parting,
            metrics=metrics,
            journal=Journal(logger, self._refusals, config.identity, self._front, clock),
            certificates=self._certificates,
        )
        self._reload = Reload(
            config,
            reread,
            self._descriptors,
            self._gates,
            self._roster,
            self._lifecycle,
            self._refusals,
            switch,
            metrics,
            logger,
            self._certificates,
        )
        metrics.config(config.hash)
        metrics.reloaded(successful=True)
        self._show_assignment(config.assignment.fixed)

    async def run(self) -> int:
        """Everything, in order."""
        config = self._config
        async with AsyncExitStack() as closed_last, AsyncExitStack() as closed_first:
            # From the start on, since a signal's own effect would be an end without a drain.
            signals = closed_last.enter_context(trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
            telemetry_bound = await self._bind(closed_last, config.telemetry.listen, "telemetry.listen")
            admin_bound = await self._bind(closed_last, config.admin.listen, "admin.listen")
            await self._certificates.begin()
            doors = {each.name: await self._door(closed_first, each) for each in config.listeners}
            async with trio.open_nursery() as services:
                services.start_soon(self._heed, signals, services)
                services.start_soon(self._relay.run)
                services.start_soon(self._parting.run)
                for lifeline in set(self._lifelines.values()):
                    services.start_soon(lifeline.run)
                services.start_soon(self._front.run)
                services.start_soon(self._certificates.run)
                self._start_services(services, telemetry_bound, admin_bound, doors)
                code = await self._serve(doors, closed_first)
                services.cancel_scope.cancel()
        self._refusals.flush()
        self._logger.info("stopped", exit_code=code)
        return code

    async def _serve(self, doors: Mapping[str, Door], listening: AsyncExitStack) -> int:
        """Accept until the end has begun and the last connection has ended. The exit code."""
        listeners = {
            each.name: Listener(
                each.name, each.senders, partial(self._gates.of, each.name), self._metrics, self._logger
            )
            for each in self._config.listeners
        }
        async with trio.open_nursery() as connections:
            async with trio.open_nursery() as accepting:
                for name, listener in listeners.items():
                    accepting.start_soon(doors[name].serve, partial(listener.serve, connections=connections))
                self._lifecycle.start()
                self._logger.info("started", identity=self._config.identity, config_hash=self._config.hash)
                await self._lifecycle.wait_drained()
                accepting.cancel_scope.cancel()
            for name, listener in listeners.items():
                for socket in doors[name].listeners:
                    listener.take_last(socket, connections)
            await listening.aclose()
            code = await self._lifecycle.wait_gone()
            connections.cancel_scope.cancel()
        return code

    async def _bind(self, stack: AsyncExitStack, address: HostPort | UnixPath, what: str, mode: int = 0o600) -> Bound:
        bound = await stack.enter_async_context(await bind(address, what=what, mode=mode))
        self._logger.info("listening", what=what, addresses=list(bound.addresses), missing=list(bound.missing) or None)
        return bound

    async def _door(self, stack: AsyncExitStack, listener: ListenerConfig) -> Door:
        what = f"listeners.{listener.name}.listen"
        bound = await self._bind(stack, listener.listen, what, listener.mode)
        again = partial(bind, listener.listen, what=what, mode=listener.mode, clear_left_over=False)
        return await stack.enter_async_context(Door(bound, again, listener=listener.name, logger=self._logger))

    def _start_services(
        self, services: trio.Nursery, telemetry_bound: Bound, admin_bound: Bound, doors: Mapping[str, Door]
    ) -> None:
        control = ProcessControl(
            self._config.identity,
            self._front,
            self._lifecycle,
            self._roster,
            self._metrics,
            self._refusals,
            {name: each.addresses for name, each in doors.items()},
            self._reload,
        )
        public = telemetry.routes(self._metrics, control, clock=time.monotonic)
        private = admin.routes(public, control)
        for listening, routes in ((telemetry_bound, public), (admin_bound, private)):
            services.start_soon(
                partial(
                    serve_http,
                    listening.listeners,
                    routes,
                    log=self._logger,
                    on_accept_error=self._metrics.accept_error,
                    bounds=Bounds(connections=http_connections(self._descriptors)),
                )
            )
        services.start_soon(self._upstreams.run)
        services.start_soon(Vitals(self._metrics, self._relay, self._refusals, self._lifecycle).run)

    async def _heed(self, signals: AsyncIterator[int], services: trio.Nursery) -> None:
        ending = False
        async for number in signals:
            name = signal.Signals(number).name
            if number == signal.SIGHUP:
                self._logger.info("signal", signal=name, effect="reload")
                services.start_soon(self._reload.from_file)  # the next signal may be one to end
                continue
            self._logger.info("signal", signal=name, effect="cut at once" if ending else "drain and stop")
            if ending:
                self._lifecycle.abort()
            else:
                self._lifecycle.shutdown()
            ending = True

    def _obstacles(self) -> list[Obstacle]:
        return self._standing.obstacles() + self._certificates.obstacles() + self._upstreams.obstacles()

    def _show_assignment(self, own: Assignment) -> None:
        generation = own.generation.value if own.generation else 0
        self._metrics.assignment(str(self._config.identity), str(own.instance or ""), generation)

    async def _assignment_changed(self, reading: Reading) -> None:
        """Another record than before, and it is the newest already: cut whom it revokes before anybody is answered."""
        own = reading if isinstance(reading, Assignment) else Assignment()
        self._metrics.assignment_changed()
        self._show_assignment(own)
        self._logger.info("assignment", assigned=isinstance(reading, Assignment), **_shown(own))
        self._lifecycle.refresh()
        await self._roster.decide_again()

    def _floor_changed(self, trouble: str) -> None:
        if trouble:
            self._logger.error("floor_unavailable", detail=trouble)
        else:
            self._logger.info("floor_available")
        self._lifecycle.refresh()

    def _authority_stale(self) -> None:
        self._logger.error("authority_stale", effect="established connections are cut: no good read is young enough")
        self._roster.cut_all(End.AUTHORITY_STALE)


def _shown(assignment: Assignment) -> dict[str, object]:
    return {"generation": assignment.generation, "instance": assignment.instance}
