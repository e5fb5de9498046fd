"""What is counted for each listener: the events of its connections' lives.

Owns those metrics' names, labels and help text, over ``tallies``, and the one equation that they keep: each
method is one transition and synchronous, so that at any scrape
``accepted = admitted + rejected + probes + active{pending}``. Called by ``listener`` and ``connection``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from prometheus_client import CollectorRegistry

from sidecar.admission import SHADOWED
from sidecar.metrics.children import Kind
from sidecar.metrics.labels import Basis, Outcome, Stage
from sidecar.metrics.tallies import Counters, Gauges, Histograms, Tally
from sidecar.reasons import End, Probe, Reason, TlsFailure

# A histogram is a series a bucket, a listener and a label value: few buckets, where the limits that users set lie.
_HANDSHAKE_BUCKETS: Final = (0.005, 0.025, 0.1, 0.5, 1, 5)
# What the shadow mode may count; other reasons and ends happen in it as ever.
_SHADOW_REJECTIONS: Final = SHADOWED | {Reason.PREFACE_MISSING, Reason.PREFACE_MALFORMED}
_SHADOW_CUTS: Final = (
    *(End.SUPERSEDED, End.AUTHORITY_STALE, End.CERTIFICATE_EXPIRED, End.CERTIFICATE_REVOKED, End.FENCED),
    *(End.NOT_ASSIGNED, End.GENERATION_STALE, End.INSTANCE_MISMATCH, End.CONTROLLER_STALE, End.CONTROLLER_AHEAD),
)
_ADMISSION_BUCKETS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.25, 1, 2.5, 10)


class Families:
    """The metric families that every listener has its own children of."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counters:
            return Counters(name, text, ("listener", *labels), registry)

        def gauge(name: str, text: str, *labels: str) -> Gauges:
            return Gauges(name, text, ("listener", *labels), registry)

        def histogram(name: str, text: str, label: str, bounds: Sequence[float]) -> Histograms:
            return Histograms(name, text, ("listener", label), registry, bounds=bounds)

        self.accepted = counter("connections_accepted_total", "Connections that the kernel handed over.")
        self.admitted = counter("connections_admitted_total", "Connections let through to the local process.", "basis")
        self.rejected = counter("connections_rejected_total", "Connections refused, by reason.", "reason")
        self.ended = counter("connections_ended_total", "Admitted connections that have ended, by cause.", "cause")
        self.active = gauge("connections_active", "Live connections: without a verdict yet, or admitted.", "state")
        self.shadow_rejected = counter(
            "shadow_rejections_total", "Connections that the shadow mode let through though they are wrong.", "reason"
        )
        self.shadow_cut = counter(
            "shadow_cuts_total", "Connections that the shadow mode spared though they are right no more.", "cause"
        )
        self.takeovers_failed = counter(
            "takeovers_failed_total", "Takeovers whose new connection failed after the old one was cut."
        )
        self.probes = counter("probes_total", "Connections that asked for nothing, such as health checks.", "kind")
        self.tls_failed = counter(
            "tls_handshake_failures_total", "TLS handshakes that failed, by cause: the detail of tls_failed.", "cause"
        )
        self.last_rejection = gauge(
            "last_rejection_timestamp_seconds",
            "When a connection was last refused for this reason; 0: never.",
            "reason",
        )
        self.handshake = histogram(
            "handshake_duration_seconds", "How long the peer took for this stage.", "stage", _HANDSHAKE_BUCKETS
        )
        self.admission = histogram(
            "admission_duration_seconds",
            "How long the sidecar took from the complete preface to the verdict.",
            "outcome",
            _ADMISSION_BUCKETS,
        )
        self.forwarded = counter(
            "forwarded_bytes_total", "Bytes relayed: up is to the local process, down is from it.", "direction"
        )


class Forwarded(Protocol):
    """Bytes relayed so far, which only grow."""

    up: int
    down: int


class ListenerMetrics:
    """One listener's counters, moved by the events of a connection's life.

    A connection is ``accepted``, then exactly one of ``admitted``, ``rejected`` and ``probe``; once admitted it has
    ``ended`` exactly once. The bytes that are relayed are counted elsewhere and looked up at each scrape.
    """

    __slots__ = (
        "_accepted",
        "_active_admitted",
        "_active_pending",
        "_admission",
        "_admitted",
        "_ended",
        "_forwarded_down",
        "_forwarded_up",
        "_handshake",
        "_last_rejection",
        "_probes",
        "_rejected",
        "_shadow_cut",
        "_shadow_rejected",
        "_takeovers_failed",
        "_tls_failed",
        "_traffic",
        "_wall_clock",
    )

    def __init__(self, name: str, families: Families, wall_clock: Callable[[], float]) -> None:
        self._wall_clock = wall_clock
        self._accepted = families.accepted.series(name)
        self._active_pending = families.active.series(name, "pending")
        self._active_admitted = families.active.series(name, "admitted")
        self._admitted = families.admitted.each(Basis, name)
        self._rejected = families.rejected.each(Reason, name)
        self._last_rejection = families.last_rejection.each(Reason, name)
        self._ended = families.ended.each(End, name)
        self._probes = families.probes.each(Probe, name)
        self._shadow_rejected = families.shadow_rejected.each(
            [reason for reason in Reason if reason in _SHADOW_REJECTIONS], name
        )
        self._shadow_cut = families.shadow_cut.each(_SHADOW_CUTS, name)
        self._takeovers_failed = families.takeovers_failed.series(name)
        self._tls_failed = families.tls_failed.each(TlsFailure, name)
        self._handshake = families.handshake.each(Stage, name)
        self._admission = families.admission.each(Outcome, name)
        self._forwarded_up = families.forwarded.series(name, "up")
        self._forwarded_down = families.forwarded.series(name, "down")
        self._traffic: Forwarded | None = None

    def follow(self, traffic: Forwarded) -> None:
        """The listener's bytes are counted there."""
        self._traffic = traffic

    def catch_up(self) -> None:
        """Show what has been relayed up to now."""
        if self._traffic is not None:
            self._forwarded_up.value = self._traffic.up
            self._forwarded_down.value = self._traffic.down

    def accepted(self) -> None:
        """A connection has come in and waits for its verdict."""
        self._accepted.value += 1
        self._active_pending.value += 1

    def admitted(self, basis: Basis) -> None:
        """A waiting connection has been admitted."""
        self._admitted[basis].value += 1
        self._active_pending.value -= 1
        self._active_admitted.value += 1

    def rejected(self, reason: Reason) -> None:
        """A waiting connection has been refused."""
        self._rejected[reason].value += 1
        self._active_pending.value -= 1
        self._last_rejection[reason].value = self._wall_clock()

    def probe(self, kind: Probe) -> None:
        """A waiting connection has turned out to be a probe and is over."""
        self._probes[kind].value += 1
        self._active_pending.value -= 1

    def ended(self, cause: End) -> None:
        """An admitted connection is over."""
        self._ended[cause].value += 1
        self._active_admitted.value -= 1

    def shadow_rejected(self, reason: Reason) -> None:
        """A waiting connection is wrong, and the shadow mode lets it through."""
        self._shadow_rejected[reason].value += 1

    def shadow_cut(self, cause: End) -> None:
        """An admitted connection is right no more, and the shadow mode spares it."""
        self._shadow_cut[cause].value += 1

    def tls_failed(self, cause: TlsFailure) -> None:
        """A handshake has failed; the connection is refused besides."""
        self._tls_failed[cause].value += 1

    def takeover_failed(self) -> None:
        """The old connection was cut, and the new one failed all the same."""
        self._takeovers_failed.value += 1

    def counts(self) -> dict[str, int | dict[str, int]]:
        """The counters as numbers, for a status page; of those by reason, cause or kind only what isn't zero."""
        self.catch_up()

        def by_kind(family: Mapping[Kind, Tally]) -> dict[str, int]:
            return {kind.value: count for kind, child in family.items() if (count := int(child.value))}

        return {
            "accepted": int(self._accepted.value),
            "pending": int(self._active_pending.value),
            "active": int(self._active_admitted.value),
            "admitted": by_kind(self._admitted),
            "rejected": by_kind(self._rejected),
            "probes": by_kind(self._probes),
            "shadow_rejected": by_kind(self._shadow_rejected),
            "shadow_cuts": by_kind(self._shadow_cut),
            "ended": by_kind(self._ended),
            "bytes_up": int(self._forwarded_up.value),
            "bytes_down": int(self._forwarded_down.value),
        }

    def handshake_took(self, stage: Stage, seconds: float) -> None:
        """The peer has completed *stage*, *seconds* after it could begin it."""
        self._handshake[stage].observe(seconds)

    def admission_took(self, outcome: Outcome, seconds: float) -> None:
        """The verdict has been reached *seconds* after the preface was complete."""
        self._admission[outcome].observe(seconds)
