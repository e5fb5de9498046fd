"""The configuration file: every key, its type and its default.

Owns names, types, defaults and what an editor shows for them (the docstring under each field). A value that is right in
itself but contradicts another is the rules' business, and what a listener's settings come to once the defaults are
filled in is `effective`'s. Here None means: the key isn't there. Called by `reading` and `schema`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from sidecar.config import fields
from sidecar.config.assignment_model import AssignmentSection, IdentitySection
from sidecar.config.listener_model import Enforcement, ListenerSection, Require, TlsSetting
from sidecar.config.section import Section, default


class LimitsSection(Section):
    """What one process carries."""

    connections: fields.Count = 4096
    """Admitted connections of the whole process; lowered at start to what RLIMIT_NOFILE carries."""
    pending: fields.Count = 1024
    """Connections without a verdict yet; when full, the oldest of the source that holds most gives way."""
    refusal_drain: fields.Size = default("1MiB")
    """Unread input taken after a refusal, for 1 s at most."""


class TimeoutsSection(Section):
    """Deadlines of a connection."""

    preface: fields.Duration = default("5s")
    """From accept to the verdict: TLS, preface, decision."""
    connect: fields.Duration = default("2s")
    """Dialling the upstream."""
    half_close: fields.DurationOrNever = default("5m")
    """After the first end of stream."""
    idle: fields.DurationOrNever = default("never")
    """Without a byte in either direction."""
    lifetime: fields.DurationOrNever = default("never")
    """Of a connection; shortened by up to 10% at random."""
    keepalive: fields.Keepalive = default("30s")
    """TCP keepalive, on both sides."""
    user_timeout: fields.UserTimeout = default("30s")
    """TCP_USER_TIMEOUT, on both sides."""


class DrainSection(Section):
    """The end of the process."""

    delay: fields.DurationOrZero = default("0s")
    """How long claims are still admitted after readiness is off."""
    timeout: fields.Duration = default("25s")
    """How long connections may take to end, counted from the end of delay."""


class TelemetrySection(Section):
    """The HTTP server for metrics and probes; may face the pod network."""

    listen: fields.TcpAddress = default(":9902")
    """":port", "host:port" or "[::1]:port"."""
    ready_needs_upstream: fields.Flag = False
    """Whether /readyz waits for the local process."""


class AdminSection(Section):
    """The HTTP server for people and commands."""

    listen: fields.AdminAddress = default("127.0.0.1:9901")
    """A loopback address, or unix:/path."""


class LogSection(Section):
    """Lines on stderr."""

    format: Literal["auto", "json", "text"] = "auto"
    """auto: text on a terminal, JSON lines elsewhere."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least severe lines that are written."""
    refusals_per_second: fields.Count = 10
    """Lines for each reason; what is left out is counted and said."""


class ConfigurationFile(Section):
    """The configuration of the identity sidecar."""

    identity: IdentitySection
    assignment: AssignmentSection
    require: Require | None = None
    """What a claim must carry. Default: identity and every part that the assignment gives."""
    enforcement: Enforcement = "enforce"
    """shadow: decide and count, but let through."""
    shadow_wait: fields.Duration = default("250ms")
    """Shadow only: silence after which a connection without preface is let through."""
    state_dir: fields.DirectoryPath | None = None
    """Where floors are kept over restarts; without it they live in memory."""
    floor_series: fields.Count = 1
    """Raise it to start new floors; never lower it."""
    tls: TlsSetting | None = None
    """The default for every listener."""
    listeners: Annotated[tuple[ListenerSection, ...], fields.AT_LEAST_ONE]
    """The ports that are stood in front of, each with its local process."""
    reject_delay: fields.DurationOrZero = default("0s")
    """How long a refusal waits before it is told."""
    limits: LimitsSection = Field(default_factory=LimitsSection)
    timeouts: TimeoutsSection = Field(default_factory=TimeoutsSection)
    drain: DrainSection = Field(default_factory=DrainSection)
    telemetry: TelemetrySection = Field(default_factory=TelemetrySection)
    admin: AdminSection = Field(default_factory=AdminSection)
    log: LogSection = Field(default_factory=LogSection)
