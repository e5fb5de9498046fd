"""The section of a listener, and TLS, which a listener may set for itself.

Owns their keys, types and defaults; see `model`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from sidecar.admission import Requirement
from sidecar.config import fields
from sidecar.config.section import MAPPING, VALUE, Section, default, shape

Require = Annotated[tuple[Annotated[Requirement, Field(strict=False)], ...], fields.AT_LEAST_ONE]
Enforcement = Literal["enforce", "shadow"]


class TlsSection(Section):
    """TLS towards the diallers. A listener's own block overrides the default key by key."""

    certificate: fields.FilePath | None = None
    """The certificate chain that is served, PEM."""
    key: fields.FilePath | None = None
    """Its private key, PEM."""
    client_ca: fields.FilePath | None = None
    """The roots that client certificates are verified against, PEM."""
    crl: fields.OptionalPath = ""
    """Revoked certificates, PEM; empty: none."""
    min_version: Literal["1.2", "1.3"] = "1.3"
    """The oldest TLS version that is spoken."""
    allow: tuple[fields.SpiffePattern, ...] = ()
    """SPIFFE IDs that may connect: * stands for one segment, ** for the rest."""
    allow_dns: tuple[fields.DnsName, ...] = ()
    """DNS names of client certificates that may connect."""
    trust_domains: dict[fields.TrustDomain, fields.FilePath] = Field(default_factory=dict)
    """Roots for each trust domain, where several are used."""
    close_on_certificate_expiry: fields.Flag = False
    """Whether a connection is cut when its certificate expires."""


TlsSetting = Annotated[
    Annotated[Literal["none"], Tag(VALUE)] | Annotated[TlsSection, Tag(MAPPING)], Discriminator(shape)
]


class TlvSection(Section):
    """Which TLV type carries which part of a claim; the types of format 1 where nothing is said."""

    identity: fields.TlvType = default("0xE5")
    """The expected identity."""
    generation: fields.TlvType = default("0xE6")
    """The expected generation."""
    instance: fields.TlvType = default("0xE7")
    """The expected instance."""
    epoch: fields.TlvType = default("0xE8")
    """The controller's epoch."""
    controller: fields.TlvType = default("0xE9")
    """The controller's name."""
    answer: fields.TlvType = default("0xEB")
    """The wish for an answer."""


class OuterProxySection(Section):
    """A load balancer's own PROXY v2 header, before TLS."""

    from_: Annotated[tuple[fields.NetworkValue, ...], fields.AT_LEAST_ONE] = Field(alias="from")
    """The load balancers' networks; nobody else's header is believed."""


class CtpSection(Section):
    """What the Hello of the Cluster Transport Protocol must name."""

    fqdn: str = ""
    """The name that it must have for its server; empty: any."""
    version: str = ""
    """The version that it must have; empty: any."""


class ListenerSection(Section):
    """One port, and the local process behind it."""

    name: fields.Name
    """A label in metrics and logs; unique."""
    listen: fields.ListenAddress
    """":port" (all addresses, IPv4 and IPv6), "host:port", "[::1]:port" or unix:/path. Port 0: the kernel chooses."""
    upstream: fields.UpstreamAddress
    """The local process: host:port, unix:/path or handoff:/path."""
    preface: Literal["proxy-v2", "ctp"] = "proxy-v2"
    """The bytes that carry the claim."""
    answer: Literal["verdict", "full"] = "verdict"
    """What a refusal tells a peer that no client certificate proves: the verdict, or this side's values too."""
    sources: tuple[fields.NetworkValue, ...] = ()
    """Networks that may connect, by the socket's address; empty: all."""
    concurrency: Literal["shared", "exclusive"] | None = None
    """How many admitted connections there may be. Default: shared, and exclusive with preface: ctp."""
    epoch_scope: str = ""
    """Listeners of one controller may share a scope. Default: the listener's name."""
    unsafe_epoch: fields.Flag = False
    """Whether unauthenticated peers may raise the epoch floor."""
    send_proxy: fields.Flag = False
    """Whether the upstream gets a PROXY v2 header."""
    outer_proxy: OuterProxySection | None = None
    """A load balancer's header before TLS, from these senders only."""
    tlvs: TlvSection = Field(default_factory=TlvSection)
    """Remap of the TLV types in requests, as quoted text: {identity: "0x05"}"""
    mode: fields.FileMode = default("0660")
    """The permissions of a Unix listener's socket, quoted."""
    ctp: CtpSection | None = None
    """Only with preface: ctp."""
    require: Require | None = None
    """Overrides the default for this listener."""
    enforcement: Enforcement | None = None
    """Overrides the default for this listener."""
    reject_delay: fields.DurationOrZero | None = None
    """Overrides the default for this listener."""
    tls: TlsSetting | None = None
    """Overrides the default for this listener, key by key; "tls: none" for plain TCP."""
