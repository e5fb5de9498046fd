"""The configuration in effect, and how another one takes its place while the process runs.

Owns the order of a reload: read and validate the whole file, refuse it whole where it asks for what takes a new
process, and only then hand each part its new values. Built by ``app``; called on SIGHUP and by the admin server.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sidecar.config import Config, ConfigurationError
from sidecar.config.reloading import needs_restart
from sidecar.descriptors import Places, fit
from sidecar.gates import Gates
from sidecar.lifecycle import Lifecycle
from sidecar.log import Logger, LogSwitch, RefusalLog
from sidecar.metrics import Metrics
from sidecar.roster import Roster


def places(config: Config, descriptors: int, metrics: Metrics, logger: Logger) -> Places:
    """How many connections the process carries under *config*; says so where that is less than it asks for."""
    wanted = Places(config.limits.connections, config.limits.pending)
    carried = fit(wanted, descriptors)
    if carried != wanted:
        logger.warning(
            "limits_lowered",
            descriptors=descriptors,
            connections=carried.connections,
            pending=carried.pending,
            advice="raise RLIMIT_NOFILE or lower limits.connections and limits.pending",
        )
    metrics.limit(carried.connections)
    return carried


@dataclass(slots=True)
class Reload:
    """Whatever a reload may change, and the configuration that it has now."""

    config: Config
    reread: Callable[[], Config]
    descriptors: int
    gates: Gates
    roster: Roster
    lifecycle: Lifecycle
    refusals: RefusalLog
    switch: LogSwitch
    metrics: Metrics
    logger: Logger

    def __call__(self) -> list[str]:
        """Put the configuration as it stands in the file now into effect. What is wrong with it; empty: nothing."""
        problems = self._apply()
        self.metrics.reloaded(successful=not problems)
        if problems:
            self.logger.error("reload_refused", problems=problems)
        else:
            self.logger.info("reloaded", config_hash=self.config.hash)
        return problems

    def _apply(self) -> list[str]:
        try:
            config = self.reread()
        except ConfigurationError as error:
            return str(error).splitlines()
        if keys := needs_restart(self.config, config):
            return [f"{key} can't be changed by a reload: restart the sidecar" for key in keys]
        self.config = config
        carried = places(config, self.descriptors, self.metrics, self.logger)
        self.roster.resize(connections=carried.connections, pending=carried.pending)
        self.lifecycle.retime(delay=config.drain.delay, timeout=config.drain.timeout)
        self.switch.set(config.log.format, config.log.level)
        self.refusals.per_second = config.log.refusals_per_second
        self.gates.rebuild(config)
        self.roster.cut_wrong()  # whom a shadow mode that has ended has spared
        self.metrics.config(config.hash)
        return []
