"""The sections that say which slot this is, and where its assignment is read.

Owns their keys, types and defaults; see `model`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from sidecar.config import fields
from sidecar.config.section import MAPPING, VALUE, Section, default, shape


class IdentitySection(Section):
    """Which slot this process holds: <cluster>/<replica>/<ordinal>."""

    cluster: fields.Cluster | None = None
    """The first segment. Put the Kubernetes namespace into it: prod-eu.${POD_NAMESPACE}"""
    replica: fields.Replica | None = None
    """The second segment. Required, unless pod_name or prefix gives it."""
    ordinal: fields.Ordinal | None = None
    """The third segment. Required, unless pod_name gives it."""
    pod_name: fields.PodNameValue | None = None
    """Instead of ordinal: in replica-a-2 the digits after the last "-" are the ordinal, what stands before is the
    replica where replica isn't set."""
    prefix: fields.Prefix | None = None
    """<cluster>/<replica> in one, instead of cluster and replica."""


class FileSource(Section):
    """A value that is read from a file."""

    file: fields.FilePath
    """The file's path, absolute."""


class LeaseSection(Section):
    """The proof that this sidecar is the only live holder of its slot."""

    ttl: fields.Duration = default("10s")
    """How long the lease holds without a renewal."""
    on_fenced: Literal["refuse", "exit"] = "refuse"
    """What to do once the lease is lost."""


InstanceSetting = Annotated[
    Annotated[fields.InstanceValue, Tag(VALUE)] | Annotated[FileSource, Tag(MAPPING)], Discriminator(shape)
]
GenerationSetting = Annotated[
    Annotated[fields.GenerationValue, Tag(VALUE)] | Annotated[FileSource, Tag(MAPPING)], Discriminator(shape)
]
LeaseSetting = Annotated[
    Annotated[Literal["none"], Tag(VALUE)] | Annotated[LeaseSection, Tag(MAPPING)], Discriminator(shape)
]


class AssignmentSection(Section):
    """Where the authoritative assignment is read. At least one of instance and generation, or registry."""

    instance: InstanceSetting | None = None
    """The pod's UID: a value, no variable's default, or {file: /path}. With a registry: this pod's own, required."""
    generation: GenerationSetting | None = None
    """Which launch of the slot this is: a value, or {file: /path}. Not with a registry."""
    registry: fields.RegistryUrl | None = Field(default=None, repr=False)
    """The store of assignments: sqlite:///path, etcd://host:port/prefix or postgresql://..."""
    poll_interval: fields.Duration = default("2s")
    """Files, SQLite: how often a change is looked for."""
    revalidate_interval: fields.Duration = default("10s")
    """A real read of the authority at least this often; established connections are decided again."""
    timeout: fields.Duration = default("2s")
    """What a claim waits for the authority, from its arrival."""
    ahead_wait: fields.Duration = default("2s")
    """Files: how long a claim ahead of the file waits for it to catch up."""
    on_unavailable: Literal["refuse", "last_known"] = "refuse"
    """Whether a claim that equals the last known assignment is admitted while the authority can't be read."""
    max_age: fields.Duration = default("30s")
    """Of the last known assignment; only with on_unavailable: last_known."""
    max_staleness: fields.DurationOrNever | None = None
    """Established connections are cut when no good read is younger. Default: never, and 30s with a registry."""
    lease: LeaseSetting | None = None
    """On by default with a registry; "lease: none" switches it off."""
