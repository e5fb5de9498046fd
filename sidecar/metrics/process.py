"""What is counted for the process as a whole, and the door to everything that is counted.

Owns those metrics' names, labels and help text, over ``prometheus_client``. Knows no clock: wall-clock time comes from
the callable that ``app`` passes in. ``app`` builds one :class:`Metrics` and hands its parts on.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.process_collector import ProcessCollector

from sidecar import exposition
from sidecar.metrics.children import NAMESPACE, children
from sidecar.metrics.labels import AcceptError, CertificateKind, ReadResult, State, TlsReload
from sidecar.metrics.listener import Families, ListenerMetrics
from sidecar.metrics.tallies import Counters

_READ_BUCKETS: Final = (0.0005, 0.0025, 0.01, 0.05, 0.25, 1, 2.5)


class Metrics:
    """All metrics of one process.

    ``log_suppressed``, ``loop_lag``, ``relay_lag`` and ``relay_pipes`` are handles to increment and to set; everything
    else is a method.

    Args:
        registry: where they are registered; one of its own for each process, never the library's global one.
        listeners: the listeners' names, as configured.
        wall_clock: seconds since the epoch of Unix.
    """

    def __init__(
        self, registry: CollectorRegistry, *, listeners: Sequence[str], wall_clock: Callable[[], float]
    ) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(name, text, labels, namespace=NAMESPACE, registry=registry)

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return Gauge(name, text, labels, namespace=NAMESPACE, registry=registry)

        self._registry = registry
        self._wall_clock = wall_clock

        families = Families(registry)
        self._listeners = {name: ListenerMetrics(name, families, wall_clock) for name in listeners}
        self._limit = gauge("connections_limit", "The most admitted connections that the whole process carries.")

        self._reads = children(
            counter("authority_reads_total", "Reads of the assignment, by what they brought.", "result"), ReadResult
        )
        self._read_duration = Histogram(
            "authority_read_duration_seconds",
            "How long reads of the assignment took.",
            namespace=NAMESPACE,
            registry=registry,
            buckets=_READ_BUCKETS,
        )
        self._last_success = gauge(
            "authority_last_success_timestamp_seconds", "When the authority last gave a good answer; 0: never."
        )
        self._generation = gauge("assignment_generation", "The generation assigned to this slot; 0: none, or not used.")
        self._changes = counter("assignment_changes_total", "Times that another assignment was read than before.")
        self._assignment_info = gauge(
            "assignment_info", "1; whose slot this is, and which pod it is assigned to.", "identity", "pod_uid"
        )
        self._states = children(gauge("state", "1 for the state that the sidecar is in, else 0.", "state"), State)
        self._enforcement = gauge(
            "enforcement_info", "1; whether a listener enforces or only watches.", "listener", "mode"
        )
        self._accept_errors = children(
            counter("accept_errors_total", "Failures to take a connection from the kernel.", "kind"), AcceptError
        )
        suppressed = Counters("log_suppressed_total", "Log lines left out by the rate limit on refusals.", (), registry)
        self.log_suppressed = suppressed.series()
        self.loop_lag = gauge("event_loop_lag_seconds", "How late the event loop last woke up.")
        self.relay_lag = gauge("relay_lag_seconds", "How long the relay's thread took to heed a word, the last time.")
        self.relay_pipes = gauge("relay_pipes", "Pipes in use, through which busy connections are spliced.")
        self._exposed = gauge(
            "upstream_exposed", "1: somebody else's socket listens on an upstream's port beyond loopback; 0: none seen."
        )
        self._served_from = gauge(
            "certificate_not_before_timestamp_seconds",
            "When the certificate that is served has begun to be valid; 0: there is none.",
        )
        self._expiry = children(
            gauge(
                "certificate_expiry_timestamp_seconds",
                "When what is served, and the first of the roots, ceases to be valid; 0: there is none.",
                "kind",
            ),
            CertificateKind,
        )
        self._tls_reloads = children(
            counter("tls_reloads_total", "Changes of certificates, roots or CRLs, by what became of them.", "result"),
            TlsReload,
        )
        self._reloaded = gauge(
            "config_last_reload_successful",
            "1: the configuration in effect is the one that was last asked for; 0: not.",
        )
        self._config_info = gauge("config_info", "1; which configuration is in effect.", "hash")
        gauge("build_info", "1; what is running.", "version", "python").labels(
            _version(), platform.python_version()
        ).set(1)
        ProcessCollector(registry=registry)

        self.state(State.PENDING)

    def listener(self, name: str) -> ListenerMetrics:
        """The counters of the listener *name*, one of those given at construction."""
        return self._listeners[name]

    def limit(self, connections: int) -> None:
        """The process carries at most this many admitted connections."""
        self._limit.set(connections)

    def authority_read(self, result: ReadResult, seconds: float) -> None:
        """A read of the authority has ended, *seconds* after it began."""
        self._reads[result].inc()
        self._read_duration.observe(seconds)
        if result in {ReadResult.ASSIGNED, ReadResult.UNASSIGNED}:
            self._last_success.set(self._wall_clock())

    def assignment(self, identity: str, pod_uid: str, generation: int) -> None:
        """The newest assignment; empty and 0 are what it doesn't say."""
        _show(self._assignment_info, identity, pod_uid)
        self._generation.set(generation)

    def assignment_changed(self) -> None:
        """Another assignment was read than before."""
        self._changes.inc()

    def exposed(self, *, exposed: bool) -> None:
        """Whether there is a way round the sidecar."""
        self._exposed.set(exposed)

    def reloaded(self, *, successful: bool) -> None:
        """The configuration was asked to be read again."""
        self._reloaded.set(successful)

    def state(self, state: State) -> None:
        """The sidecar is in *state* from now on."""
        for each, gauge in self._states.items():
            gauge.set(each is state)

    def enforcement(self, modes: Mapping[str, str]) -> None:
        """How each listener (the key) treats a wrong claim: ``enforce`` or ``shadow``."""
        self._enforcement.clear()
        for listener, mode in modes.items():
            self._enforcement.labels(listener, mode).set(1)

    def accept_error(self, error: OSError) -> None:
        """Taking a connection from the kernel has failed."""
        self._accept_errors[AcceptError.of(error)].inc()

    def tls_reloaded(self, result: TlsReload) -> None:
        """Certificates, roots or CRLs have changed."""
        self._tls_reloads[result].inc()

    def certificates(self, not_before: float, not_after: float, ca_not_after: float) -> None:
        """What is served from now on: seconds since 1970, the latest begin and the earliest ends where several are."""
        self._served_from.set(not_before)
        self._expiry[CertificateKind.SERVED].set(not_after)
        self._expiry[CertificateKind.CA].set(ca_not_after)

    def config(self, digest: str) -> None:
        """The configuration with this hash is in effect."""
        _show(self._config_info, digest)

    def render(self, accept: str | None) -> tuple[bytes, str]:
        """Everything as text, and the content type of that text.

        Args:
            accept: the request's ``Accept`` header. OpenMetrics 1.0 goes to those who ask for it by name; everybody
                else, whatever they sent, gets the plain format 0.0.4.
        """
        for listener in self._listeners.values():
            listener.catch_up()
        return exposition.render(self._registry, accept)


def _show(info: Gauge, *labels: str) -> None:
    """Make *labels* the only child of *info*."""
    info.clear()
    info.labels(*labels).set(1)


def _version() -> str:
    try:
        return metadata.version("identity-sidecar")
    except metadata.PackageNotFoundError:  # run from a source tree that nobody installed
        return "unknown"
