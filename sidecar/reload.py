"""The configuration in effect, and how another one takes its place while the process runs.

Owns the order of a reload: read and validate the whole file, refuse it whole where it asks for what takes a new
process, and only then hand each part its new values. Built by ``app``; called on SIGHUP and by the admin server.

The file is read and validated in a thread, since a disk may hang and a large file takes its time; connections go on
meanwhile. Reloads happen one at a time, and one that takes too long is left behind: it applies nothing, and until its
thread has ended the next ones can't begin either, and say so. What was read is applied on trio's loop, at one moment.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import trio

from sidecar.certificates import Certificates
from sidecar.config import Config, ConfigurationError, Handoff
from sidecar.config.reloading import needs_restart
from sidecar.descriptors import Places, fit
from sidecar.gates import Gates
from sidecar.lifecycle import Lifecycle
from sidecar.log import Logger, LogSwitch, RefusalLog
from sidecar.metrics import Metrics
from sidecar.roster import Roster

SECONDS: Final = 4.0  # for a reload, with its wait for another one; less than who asks for it waits (``cli``)


def places(config: Config, descriptors: int, metrics: Metrics, logger: Logger) -> Places:
    """How many connections the process carries under *config*; says so where that is less than it asks for."""
    wanted = Places(config.limits.connections, config.limits.pending)
    handed_over = all(isinstance(each.upstream, Handoff) for each in config.listeners)
    carried = fit(wanted, descriptors, each=1 if handed_over else 2)
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
    """Whatever a reload may change, and the configuration that it has now.

    ``reread`` blocks, and raises ConfigurationError.
    """

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
    certificates: Certificates
    _reader: trio.CapacityLimiter = field(init=False, default_factory=lambda: trio.CapacityLimiter(1))

    async def from_file(self) -> list[str]:
        """Put the configuration as it stands in the file now into effect. What is wrong with it; empty: nothing."""
        self.certificates.poke()
        problems = [f"couldn't be read within {SECONDS:g} s: nothing was changed"]
        with trio.move_on_after(SECONDS):
            problems = await self._read_and_apply()
        return self._settle(problems)

    async def _read_and_apply(self) -> list[str]:
        try:
            config = await trio.to_thread.run_sync(self.reread, abandon_on_cancel=True, limiter=self._reader)
        except ConfigurationError as error:
            return str(error).splitlines()
        except Exception:  # the boundary: what goes on under the configuration in effect outlives it
            self.logger.exception("internal_error", step="reload")
            return ["couldn't be read, by a fault of the sidecar's: its log has the traceback"]
        return self._apply(config)

    def _settle(self, problems: list[str]) -> list[str]:
        self.metrics.reloaded(successful=not problems)
        if problems:
            self.logger.error("reload_refused", problems=problems)
        else:
            self.logger.info("reloaded", config_hash=self.config.hash)
        return problems

    def _apply(self, config: Config) -> list[str]:
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
