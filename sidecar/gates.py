"""The gates of all listeners, as the configuration in effect makes them.

Owns what outlives a reload (an exclusive place, a scope's floor) and what a reload replaces (everything else of a
gate). A connection keeps the gate that it came through. Built by ``app``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from operator import is_

import trio

from sidecar.admission import Rules, State
from sidecar.certificates import Certificates
from sidecar.config import Config, Listener
from sidecar.epoch_floor import EpochFloor
from sidecar.exclusive import Exclusive
from sidecar.gate import Gate, Times
from sidecar.handshake import Desk
from sidecar.journal import Journal
from sidecar.lifecycle import Lifecycle
from sidecar.lifeline import Lifeline
from sidecar.metrics import Metrics
from sidecar.parting import Parting
from sidecar.reasons import Advice, End
from sidecar.relay import Fence, Relay, RelayTimes, Traffic, boot_clock
from sidecar.roster import Roster
from sidecar.standing import Standing


class Gates:
    """One gate for each listener, by name."""

    def __init__(
        self,
        config: Config,
        *,
        standing: Standing,
        roster: Roster,
        lifecycle: Lifecycle,
        relay: Relay,
        lifelines: Mapping[str, Lifeline],
        parting: Parting,
        metrics: Metrics,
        journal: Journal,
        certificates: Certificates,
    ) -> None:
        self._standing = standing
        self._roster = roster
        self._lifecycle = lifecycle
        self._relay = relay
        self._lifelines = lifelines
        self._parting = parting
        self._metrics = metrics
        self._journal = journal
        self._certificates = certificates
        self._places = {each.name: Exclusive() for each in config.listeners if each.exclusive}
        self._fences = {each.name: Fence() for each in config.listeners}
        self._good_until = float("inf")
        self._totals = {each.name: Traffic() for each in config.listeners}
        for name, total in self._totals.items():
            metrics.listener(name).follow(total)
        self._states: dict[str, tuple[tuple[object, ...], State]] = {}
        self._gates: dict[str, Gate] = {}
        self.rebuild(config)

    def of(self, name: str) -> Gate:
        """The listener's, as it is now."""
        return self._gates[name]

    def rebuild(self, config: Config) -> None:
        """Make them anew; connections that come from now on go through the new ones."""
        before, self._gates = self._gates, {each.name: self._build(config, each) for each in config.listeners}
        for name, place in self._places.items():
            if name in before and before[name].shadow and not self._gates[name].shadow:
                self._leave_one(name, place)
        self._set_fences()
        self._metrics.enforcement({each.name: "shadow" if each.shadow else "enforce" for each in config.listeners})

    def fence(self, until: float) -> None:
        """Up to then, on trio's clock, established connections rest on something; the relay holds itself to it."""
        self._good_until = boot_clock() + until - trio.current_time()
        self._set_fences()

    def _set_fences(self) -> None:
        for name, fence in self._fences.items():
            fence.until = float("inf") if self._gates[name].shadow else self._good_until

    def _leave_one(self, name: str, place: Exclusive) -> None:
        """The shadow mode spared those whom others superseded; now that it has ended there is one place again."""
        for connection in self._roster:
            if connection.listener == name and connection.admitted and connection is not place.holder:
                connection.end(End.SUPERSEDED)

    def _build(self, config: Config, listener: Listener) -> Gate:
        assignment, times = config.assignment, config.timeouts
        files = assignment.has_files
        epochs = EpochFloor(listener.epoch_scope, self._standing.keeper, self._roster)
        return Gate(
            desk=Desk(
                Rules(
                    config.identity,
                    listener.require,
                    assignment.given,
                    ahead_advice=Advice.RETRY if files else Advice.RE_RESOLVE,  # files catch up
                ),
                listener.tlvs,
            ),
            clock=trio.lowlevel.current_clock().current_time,
            upstream=listener.upstream,
            full_answer=listener.answer == "full",
            shadow=listener.shadow,
            shadow_now=lambda: self._gates[listener.name].shadow,
            send_proxy=listener.send_proxy,
            times=Times(
                preface=times.preface,
                authority=assignment.timeout,
                connect=times.connect,
                ahead=assignment.ahead_wait if files else 0.0,
                shadow=config.shadow_wait,
                reject_delay=listener.reject_delay,
                keepalive=times.keepalive,
                user_timeout=times.user_timeout,
            ),
            relay_times=RelayTimes(times.half_close, times.idle, times.lifetime),
            refusal_drain=config.limits.refusal_drain,
            authority=self._standing.front,
            roster=self._roster,
            exclusive=self._places.get(listener.name),
            now=partial(self._state, listener.epoch_scope),
            epoch_floor=epochs if listener.unsafe_epoch or listener.tls is not None else None,
            relay=self._relay,
            fence=self._fences[listener.name],
            total=self._totals[listener.name],
            lifeline=self._lifelines.get(listener.name),
            parting=self._parting,
            metrics=self._metrics.listener(listener.name),
            journal=self._journal,
            prover=self._certificates.prover(listener),
            outer_sources=listener.sources if listener.outer_proxy else None,
        )

    def _state(self, scope: str) -> State:
        """The same one as long as nothing has changed: it is asked for several times for each connection."""
        made_of = (self._lifecycle.refusing, *self._standing.floor_now())
        known = self._states.get(scope)
        if known is not None and all(map(is_, known[0], made_of)):
            return known[1]
        state = State(draining=self._lifecycle.refusing, floor=self._standing.floor(scope))
        self._states[scope] = (made_of, state)
        return state
