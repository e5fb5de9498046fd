"""The certificates that the listeners serve: one rotation for each set of files, and what comes of a change.

Owns which listeners share a rotation, and what is said, counted and cut when files have changed or a peer's certificate
has expired. How files are read and judged is ``tls``'s; a connection's own step is ``proof``. Built and run by ``app``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final

import trio

from sidecar.config import Config, Listener, Tls
from sidecar.log import Logger
from sidecar.metrics import Metrics, State, TlsReload
from sidecar.peer_names import Rule
from sidecar.proof import Prover
from sidecar.roster import Roster
from sidecar.standing import Obstacle
from sidecar.tls.contexts import TlsVersion, server_context
from sidecar.tls.files import TlsFiles
from sidecar.tls.rotation import Rotation, Served

_LOOK_SECONDS: Final = 1.0  # between two looks for peers whose certificate has expired


class Certificates:
    """All of them.

    Args:
        config: which listeners have TLS.
        metrics: told what is served and what became of changes.
        logger: where that is said.
        roster: whose connections a change may concern.
        wall_clock: seconds since 1970.
    """

    def __init__(
        self, config: Config, metrics: Metrics, logger: Logger, roster: Roster, wall_clock: Callable[[], float]
    ) -> None:
        self._metrics = metrics
        self._roster = roster
        self._wall_clock = wall_clock
        self._ends_with_certificate = any(each.tls and each.tls.ends_with_certificate for each in config.listeners)
        self._rotations: Mapping[tuple[object, ...], Rotation] = {
            _files_of(tls): self._rotation(tls, logger) for tls in _of(config.listeners)
        }

    def prover(self, listener: Listener) -> Prover | None:
        """What proves who dials *listener*; None: nothing does."""
        tls = listener.tls
        if tls is None:
            return None
        rotation = self._rotations[_files_of(tls)]
        rule = Rule(listener.allow, listener.allow_dns, frozenset(domain for domain, _ in tls.trust_domains))
        return Prover(lambda: rotation.served, rule, self._wall_clock, ends_with_certificate=tls.ends_with_certificate)

    async def begin(self) -> None:
        """Read all of them. Raises StartError where some can't be used."""
        for rotation in self._rotations.values():
            await rotation.begin()

    async def run(self) -> None:
        """Keep them fresh until cancelled."""
        async with trio.open_nursery() as nursery:
            for rotation in self._rotations.values():
                nursery.start_soon(rotation.run)
            while self._ends_with_certificate:
                await trio.sleep(_LOOK_SECONDS)
                self._roster.cut_outdated()

    def poke(self) -> None:
        """Look at the files now."""
        for rotation in self._rotations.values():
            rotation.poke()

    def obstacles(self) -> list[Obstacle]:
        """What stands in the way of readiness: a listener that has nothing in date to show."""
        now = self._wall_clock()
        served = [rotation.served for rotation in self._rotations.values()]
        if all(each is not None and each.not_before <= now < each.not_after for each in served):
            return []
        return [Obstacle(State.CERTIFICATE_UNUSABLE, "no certificate in date: its own has expired or isn't valid yet")]

    def _rotation(self, tls: Tls, logger: Logger) -> Rotation:
        files = TlsFiles(tls.certificate, tls.key, tls.client_ca, dict(tls.trust_domains), tls.crl)
        version = TlsVersion.TLS_1_2 if tls.speaks_1_2 else TlsVersion.TLS_1_3
        return Rotation(
            files,
            build=partial(server_context, min_version=version),
            witness=_Witness(str(tls.certificate), logger, self._metrics, self._roster, self._show),
            wall_clock=self._wall_clock,
        )

    def _show(self) -> None:
        served = [each.served for each in self._rotations.values() if each.served is not None]
        self._metrics.certificates(
            max(each.not_before for each in served),
            min(each.not_after for each in served),
            min(each.ca_not_after for each in served),
        )


@dataclass(frozen=True, slots=True)
class _Witness:
    """Says what became of one rotation's changes."""

    certificate: str
    logger: Logger
    metrics: Metrics
    roster: Roster
    show: Callable[[], None]

    def swapped(self, served: Served, before: Served | None) -> None:
        """New connections get *served*."""
        self.show()
        self.logger.info(
            "certificate_served",
            certificate=self.certificate,
            serial=f"{served.material.own.chain[0].serial_number:x}",
            not_before=_time(served.not_before),
            not_after=_time(served.not_after),
        )
        if before is None:
            return
        self.metrics.tls_reloaded(TlsReload.OK)
        if served.material.crls != before.material.crls:
            self.roster.cut_outdated()

    def refused(self, problems: tuple[str, ...]) -> None:
        """What was served still is."""
        self.metrics.tls_reloaded(TlsReload.FAILED)
        self.logger.error("certificate_refused", problems=list(problems), effect="what was served before still is")

    def waits(self, start: float) -> None:
        """A new one isn't served before *start*."""
        self.logger.info("certificate_waits", certificate=self.certificate, not_before=_time(start))

    def broken(self, error: Exception) -> None:
        """A fault of ours."""
        self.metrics.tls_reloaded(TlsReload.FAILED)
        self.logger.error("internal_error", step="certificates", exc_info=error)


def _of(listeners: Iterable[Listener]) -> Iterable[Tls]:
    return (each.tls for each in listeners if each.tls is not None)


def _files_of(tls: Tls) -> tuple[object, ...]:
    """What has to be the same for two listeners to serve one context."""
    return tls.certificate, tls.key, tls.client_ca, tls.trust_domains, tls.crl, tls.speaks_1_2


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
