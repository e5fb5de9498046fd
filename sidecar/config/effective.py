"""The configuration as the rest of the program sees it: nothing left open, each listener with its own values.

Owns `Config` and how a listener's settings come about: its own, else the file's, else the default that follows from
the rest. Judges nothing: `resolve` is called once the file has passed every check. `rules` and `explain` ask the same
functions what a listener comes to, so that nobody else knows the order of precedence.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from sidecar.admission import Requirement
from sidecar.assignment import Assignment as Assigned
from sidecar.config.addresses import Handoff, HostPort, Network, UnixPath
from sidecar.config.assignment_model import AssignmentSection, FileSource, IdentitySection
from sidecar.config.listener_model import ListenerSection, TlsSection, TlvSection
from sidecar.config.model import (
    AdminSection,
    ConfigurationFile,
    DrainSection,
    LimitsSection,
    LogSection,
    TelemetrySection,
    TimeoutsSection,
)
from sidecar.config.tls import Tls, resolve_tls, tls_of
from sidecar.dns_names import DnsPattern
from sidecar.identity import Generation, Identity, Instance
from sidecar.preface.claim import TlvTypes
from sidecar.spiffe import Pattern

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Assignment:
    """Where the assignment comes from, and how long to wait for it. All times in seconds.

    Attributes:
        instance: The value, the file that holds it, or None where the assignment has no instance.
        generation: The same.
        poll_interval: How often a change is looked for.
        revalidate_interval: A real read of the authority at least this often.
        timeout: What a claim waits for the authority, from its arrival.
        ahead_wait: How long a claim that is ahead waits for files to catch up.
        max_age: How old a remembered assignment may be that stands in for a silent authority; None: none does.
        max_staleness: Without a good read for so long, established connections are cut; None: never.
    """

    instance: Instance | Path | None
    generation: Generation | Path | None
    poll_interval: float
    revalidate_interval: float
    timeout: float
    ahead_wait: float
    max_age: float | None
    max_staleness: float | None

    @property
    def has_files(self) -> bool:
        """Whether a part of it is read from a file."""
        return isinstance(self.instance, Path) or isinstance(self.generation, Path)

    @property
    def fixed(self) -> Assigned:
        """What of it is known without reading anything."""
        instance = self.instance if isinstance(self.instance, Instance) else None
        generation = self.generation if isinstance(self.generation, Generation) else None
        return Assigned(generation, instance)

    @property
    def given(self) -> frozenset[Requirement]:
        """The parts of the incarnation that it has."""
        parts = {Requirement.INSTANCE: self.instance, Requirement.GENERATION: self.generation}
        return frozenset(part for part, value in parts.items() if value is not None)


@dataclass(frozen=True, slots=True)
class Listener:
    """One port, the local process behind it, and what a claim must carry to get there.

    Attributes:
        name: A metric label; unique.
        listen: Where diallers come in. Port 0: the kernel chooses.
        upstream: The local process.
        answer: What a refusal tells a peer that no client certificate proves.
        sources: Networks that may connect; empty: all.
        tlvs: Which TLV type carries which part of a claim.
        require: The parts that a claim may not leave out.
        shadow: Count wrong claims instead of refusing them.
        exclusive: At most one admitted connection.
        epoch_scope: Whose epoch floor it shares.
        unsafe_epoch: Whether a dialler that nothing proves may raise that floor.
        send_proxy: Tell the local process who dials, by a header.
        reject_delay: Seconds between a refusal and its being told.
        mode: Of a Unix listener's socket.
        tls: None: plain, whatever is claimed is no more than a statement.
        allow: SPIFFE IDs that may connect, with TLS.
        allow_dns: DNS names that may.
        outer_proxy: Load balancers whose own header comes first, and alone may connect; empty: there are none.
    """

    name: str
    listen: HostPort | UnixPath
    upstream: HostPort | UnixPath | Handoff
    answer: Literal["verdict", "full"]
    sources: tuple[Network, ...]
    tlvs: TlvTypes
    require: frozenset[Requirement]
    shadow: bool
    exclusive: bool
    epoch_scope: str
    unsafe_epoch: bool
    send_proxy: bool
    reject_delay: float
    mode: int
    tls: Tls | None = None
    allow: tuple[Pattern, ...] = ()
    allow_dns: tuple[DnsPattern, ...] = ()
    outer_proxy: tuple[Network, ...] = ()

    @property
    def senders(self) -> tuple[Network, ...]:
        """Networks whose sockets may connect; empty: all."""
        return self.outer_proxy or self.sources


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration that has passed every check.

    Attributes:
        state_dir: Where the floor is kept; None: in memory.
        floor_series: Which series of floors.
        shadow_wait: Seconds of silence after which the shadow mode takes a client for one without preface.
        hash: Names the text that it was read from.
    """

    identity: Identity
    assignment: Assignment
    listeners: tuple[Listener, ...]
    state_dir: Path | None
    floor_series: int
    shadow_wait: float
    limits: LimitsSection
    timeouts: TimeoutsSection
    drain: DrainSection
    telemetry: TelemetrySection
    admin: AdminSection
    log: LogSection
    hash: str


def required_parts(file: ConfigurationFile, listener: ListenerSection) -> frozenset[Requirement]:
    """What a claim on *listener* may not leave out."""
    listed = listener.require or file.require
    if listed is not None:
        return frozenset(listed)
    if listener.preface == "ctp":  # its Hello has no place for an incarnation
        return frozenset({Requirement.IDENTITY})
    return frozenset({Requirement.IDENTITY}) | given_parts(file.assignment)


def given_parts(assignment: AssignmentSection) -> frozenset[Requirement]:
    """The parts of the incarnation that the assignment gives. A registry's record has both."""
    if assignment.registry is not None:
        return frozenset({Requirement.INSTANCE, Requirement.GENERATION})
    parts = {Requirement.INSTANCE: assignment.instance, Requirement.GENERATION: assignment.generation}
    return frozenset(part for part, source in parts.items() if source is not None)


def enforcement_of(file: ConfigurationFile, listener: ListenerSection) -> Literal["enforce", "shadow"]:
    """Whether *listener* enforces its verdicts."""
    return listener.enforcement or file.enforcement


def max_staleness(assignment: AssignmentSection) -> float | None:
    """Seconds without a good read after which connections are cut; None: never."""
    if "max_staleness" in assignment.model_fields_set or assignment.registry is None:
        return assignment.max_staleness
    return 30.0  # a registry can be asked at any time, so that silence means something


def tlv_types(section: TlvSection) -> TlvTypes:
    """Raises MalformedValue where two parts share a type."""
    return TlvTypes(**section.model_dump())


def slot_of(section: IdentitySection) -> Identity | None:
    """The slot that *section* names, however it is written. None while something is missing."""
    cluster, replica, ordinal = section.cluster, section.replica, section.ordinal
    if section.pod_name is not None:
        ordinal = section.pod_name.ordinal
        replica = replica or section.pod_name.base
    if section.prefix is not None:
        cluster, replica = section.prefix
    if cluster is None or replica is None or ordinal is None:
        return None
    return Identity(cluster, replica, ordinal)


def resolve(file: ConfigurationFile, text_hash: str) -> Config:
    """*file* with nothing left open. It has passed `rules` and `availability`."""
    assignment = file.assignment
    identity = slot_of(file.identity)
    if identity is None:
        raise _unchecked("an identity with a part missing")
    return Config(
        identity=identity,
        assignment=Assignment(
            instance=_value(assignment.instance),
            generation=_value(assignment.generation),
            poll_interval=assignment.poll_interval,
            revalidate_interval=assignment.revalidate_interval,
            timeout=assignment.timeout,
            ahead_wait=assignment.ahead_wait,
            max_age=assignment.max_age if assignment.on_unavailable == "last_known" else None,
            max_staleness=max_staleness(assignment),
        ),
        listeners=tuple(_listener(file, listener) for listener in file.listeners),
        state_dir=Path(file.state_dir) if file.state_dir is not None else None,
        floor_series=file.floor_series,
        shadow_wait=file.shadow_wait,
        limits=file.limits,
        timeouts=file.timeouts,
        drain=file.drain,
        telemetry=file.telemetry,
        admin=file.admin,
        log=file.log,
        hash=text_hash,
    )


def _listener(file: ConfigurationFile, listener: ListenerSection) -> Listener:
    tls = tls_of(file, listener)
    names = tls if isinstance(tls, TlsSection) else TlsSection()
    return Listener(
        name=listener.name,
        listen=listener.listen,
        upstream=listener.upstream,
        answer=listener.answer,
        sources=listener.sources,
        tlvs=tlv_types(listener.tlvs),
        require=required_parts(file, listener),
        shadow=enforcement_of(file, listener) == "shadow",
        exclusive=listener.concurrency == "exclusive",
        epoch_scope=listener.epoch_scope or listener.name,
        unsafe_epoch=listener.unsafe_epoch,
        send_proxy=listener.send_proxy,
        reject_delay=listener.reject_delay if listener.reject_delay is not None else file.reject_delay,
        mode=listener.mode,
        tls=resolve_tls(tls) if isinstance(tls, TlsSection) else None,
        allow=tuple(map(Pattern.parse, names.allow)),
        allow_dns=tuple(map(DnsPattern.parse, names.allow_dns)),
        outer_proxy=listener.outer_proxy.from_ if listener.outer_proxy is not None else (),
    )


def _value(setting: T | FileSource) -> T | Path:
    return Path(setting.file) if isinstance(setting, FileSource) else setting


def _unchecked(what: str) -> TypeError:
    return TypeError(f"{what} got past the checks")
