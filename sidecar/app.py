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
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Final

import trio
from prometheus_client import CollectorRegistry

from sidecar import admin, telemetry
from sidecar.admission import Assignment, Rules
from sidecar.authority.measured import Measured
from sidecar.authority.values import Values
from sidecar.bind import Bound, bind
from sidecar.config import Config, HostPort, UnixPath
from sidecar.config import Listener as ListenerConfig
from sidecar.connection import Gate, Times
from sidecar.control import ProcessControl
from sidecar.descriptors import Places, fit, raise_limit
from sidecar.http_server import serve as serve_http
from sidecar.journal import Journal
from sidecar.lifecycle import Lifecycle
from sidecar.listener import Listener
from sidecar.log import Logger, RefusalLog
from sidecar.metrics import Metrics
from sidecar.relay import RelayTimes
from sidecar.roster import Roster

_LOOP_LAG_SECONDS: Final = 0.25  # between two looks at how late the loop is
_FLUSH_SECONDS: Final = 1.0  # between two looks at refusals whose lines were left out


async def run(config: Config, logger: Logger) -> int:
    """Run a sidecar until a signal or the admin server ends it. The exit code.

    Raises:
        StartError: an address is taken, ...
    """
    return await _App(config, logger).run()


class _App:
    """The parts of one process."""

    def __init__(self, config: Config, logger: Logger) -> None:
        self._config = config
        self._logger = logger
        places = _places(config, logger)
        self._metrics = metrics = Metrics(
            CollectorRegistry(),
            listeners=[each.name for each in config.listeners],
            wall_clock=time.time,  # noqa: TID251  timestamps for people; nothing is decided on them
        )
        assignment = Assignment(config.assignment.generation, config.assignment.instance)
        self._authority = Measured(Values(assignment), metrics)
        self._roster = Roster(connections=places.connections, pending=places.pending)
        self._refusals = RefusalLog(
            logger,
            per_second=config.log.refusals_per_second,
            clock=trio.current_time,
            on_suppressed=metrics.log_suppressed.inc,
        )
        self._lifecycle = Lifecycle(
            self._roster,
            self._authority,
            delay=config.drain.delay,
            timeout=config.drain.timeout,
            on_state=metrics.state,
        )
        metrics.limit(places.connections)
        metrics.config(config.hash)
        metrics.enforcement({each.name: "enforce" for each in config.listeners})
        metrics.assignment(
            str(config.identity),
            str(assignment.instance or ""),
            assignment.generation.value if assignment.generation else 0,
        )

    async def run(self) -> int:
        """Everything, in order."""
        config = self._config
        async with AsyncExitStack() as closed_last, AsyncExitStack() as closed_first:
            # From the start on, since a signal's own effect would be an end without a drain.
            signals = closed_last.enter_context(trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
            telemetry_bound = await self._bind(closed_last, config.telemetry.listen, "telemetry.listen")
            admin_bound = await self._bind(closed_last, config.admin.listen, "admin.listen")
            bound = {
                each.name: await self._bind(closed_first, each.listen, f"listeners.{each.name}.listen")
                for each in config.listeners
            }
            async with trio.open_nursery() as services:
                services.start_soon(self._heed, signals)
                self._start_services(services, telemetry_bound, admin_bound, bound)
                code = await self._serve(bound, closed_first)
                services.cancel_scope.cancel()
        self._refusals.flush()
        self._logger.info("stopped", exit_code=code)
        return code

    async def _serve(self, bound: Mapping[str, Bound], listening: AsyncExitStack) -> int:
        """Accept until the end has begun and the last connection has ended. The exit code."""
        async with trio.open_nursery() as connections:
            doors = []
            for each in self._config.listeners:
                listener = self._listener(each)
                doors += [(listener, socket) for socket in bound[each.name].listeners]
            async with trio.open_nursery() as accepting:
                for listener, socket in doors:
                    accepting.start_soon(listener.serve, socket, connections)
                self._lifecycle.start()
                self._logger.info("started", identity=self._config.identity, config_hash=self._config.hash)
                await self._lifecycle.wait_drained()
                accepting.cancel_scope.cancel()
            for listener, socket in doors:
                await listener.take_last(socket, connections)
            await listening.aclose()
            code = await self._lifecycle.wait_gone()
            connections.cancel_scope.cancel()
        return code

    async def _bind(self, stack: AsyncExitStack, address: HostPort | UnixPath, what: str) -> Bound:
        bound = await stack.enter_async_context(await bind(address, what=what))
        self._logger.info("listening", what=what, addresses=list(bound.addresses), missing=list(bound.missing) or None)
        return bound

    def _start_services(
        self, services: trio.Nursery, telemetry_bound: Bound, admin_bound: Bound, bound: Mapping[str, Bound]
    ) -> None:
        control = ProcessControl(
            self._config.identity,
            self._authority,
            self._lifecycle,
            self._roster,
            self._metrics,
            self._refusals,
            {name: each.addresses for name, each in bound.items()},
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
                )
            )
        services.start_soon(self._watch_loop)
        services.start_soon(self._flush_refusals)
        services.start_soon(self._revalidate)

    def _listener(self, config: ListenerConfig) -> Listener:
        times, drain = self._config.timeouts, self._config.limits.refusal_drain
        gate = Gate(
            rules=Rules(self._config.identity, config.require, self._config.assignment.given),
            tlvs=config.tlvs,
            upstream=config.upstream,
            full_answer=config.answer == "full",
            times=Times(
                times.preface, self._config.assignment.timeout, times.connect, times.keepalive, times.user_timeout
            ),
            relay_times=RelayTimes(times.half_close, times.idle, times.lifetime),
            refusal_drain=drain,
            authority=self._authority,
            roster=self._roster,
            state=self._lifecycle.snapshot,
            metrics=self._metrics.listener(config.name),
            journal=Journal(self._logger, self._refusals, self._config.identity, self._authority),
        )
        return Listener(config.name, config.sources, gate, self._metrics, self._logger)

    async def _heed(self, signals: AsyncIterator[int]) -> None:
        ending = False
        async for number in signals:
            name = signal.Signals(number).name
            if number == signal.SIGHUP:
                self._logger.warning("signal", signal=name, effect="none: this version reloads nothing; restart it")
                continue
            self._logger.info("signal", signal=name, effect="cut at once" if ending else "drain and stop")
            if ending:
                self._lifecycle.abort()
            else:
                self._lifecycle.shutdown()
            ending = True

    async def _watch_loop(self) -> None:
        while True:
            due = trio.current_time() + _LOOP_LAG_SECONDS
            await trio.sleep_until(due)
            self._metrics.loop_lag.set(trio.current_time() - due)

    async def _revalidate(self) -> None:
        while True:
            await self._authority.read()
            await trio.sleep(self._config.assignment.revalidate_interval)

    async def _flush_refusals(self) -> None:
        while True:
            await trio.sleep(_FLUSH_SECONDS)
            self._refusals.flush()


def _places(config: Config, logger: Logger) -> Places:
    wanted = Places(config.limits.connections, config.limits.pending)
    descriptors = raise_limit()
    places = fit(wanted, descriptors)
    if places != wanted:
        logger.warning(
            "limits_lowered",
            descriptors=descriptors,
            connections=places.connections,
            pending=places.pending,
            advice="raise RLIMIT_NOFILE or lower limits.connections and limits.pending",
        )
    return places
