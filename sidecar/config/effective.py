"""The configuration as the rest of the program sees it: nothing left open, each listener with its own values.

Owns `Config` and how a listener's settings come about: its own, else the file's, else the default that follows from
the rest. Judges nothing: `resolve` is called once the file has passed every check. `rules` and `explain` ask the same
functions what a listener comes to, so that nobody else knows the order of precedence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeVar

from sidecar.admission import Requirement
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
from sidecar.identity import Generation, Identity, Instance
from sidecar.preface.claim import TlvTypes

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Assignment:
    """Where the assignment comes from, and how long to wait for it. All times in seconds.

    Attributes:
        instance: The value that the configuration fixes, if it does.
        generation: The same.
        poll_interval: How often a change is looked for.
        revalidate_interval: A real read of the authority at least this often.
        timeout: What a claim waits for the authority, from its arrival.
        ahead_wait: How long a claim that is ahead waits for the authority to catch up.
    """

    instance: Instance | None
    generation: Generation | None
    poll_interval: float
    revalidate_interval: float
    timeout: float
    ahead_wait: float

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
    """

    name: str
    listen: HostPort | UnixPath
    upstream: HostPort | UnixPath
    answer: Literal["verdict", "full"]
    sources: tuple[Network, ...]
    tlvs: TlvTypes
    require: frozenset[Requirement]


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration that has passed every check.

    Attributes:
        hash: Names the text that it was read from.
    """

    identity: Identity
    assignment: Assignment
    listeners: tuple[Listener, ...]
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


def tls_of(file: ConfigurationFile, listener: ListenerSection) -> TlsSection | Literal["none"] | None:
    """The listener's own block over the file's, key by key. None: neither says anything."""
    own, common = listener.tls, file.tls
    if isinstance(own, TlsSection) and isinstance(common, TlsSection):
        return common.model_copy(update={key: getattr(own, key) for key in own.model_fields_set})
    return own if own is not None else common


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
        ),
        listeners=tuple(_listener(file, listener) for listener in file.listeners),
        limits=file.limits,
        timeouts=file.timeouts,
        drain=file.drain,
        telemetry=file.telemetry,
        admin=file.admin,
        log=file.log,
        hash=text_hash,
    )


def _listener(file: ConfigurationFile, listener: ListenerSection) -> Listener:
    if isinstance(listener.upstream, Handoff):
        raise _unchecked("a hand-over")
    return Listener(
        name=listener.name,
        listen=listener.listen,
        upstream=listener.upstream,
        answer=listener.answer,
        sources=listener.sources,
        tlvs=tlv_types(listener.tlvs),
        require=required_parts(file, listener),
    )


def _value(setting: T | FileSource) -> T:
    if isinstance(setting, FileSource):
        raise _unchecked("a file")
    return setting


def _unchecked(what: str) -> TypeError:
    return TypeError(f"{what} got past the checks")
