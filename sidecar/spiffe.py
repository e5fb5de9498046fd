"""SPIFFE IDs: how they are written, which of them a listener allows, and what one names here.

Owns the strict syntax of the SPIFFE-ID standard (sections 2.1 to 2.3), the patterns of ``allow``, and the two paths
that mean something to a sidecar. Nothing is folded, decoded or normalised: what could be read in two ways is no ID.
Knows nothing of certificates. Called by ``peer_names``, ``server_names``, the configuration and the ``certs`` command.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

from sidecar.errors import MalformedValue
from sidecar.identity import ControllerName, Generation, Identity

MAX_LENGTH: Final = 2048  # SPIFFE-ID, section 2.3
SCHEME: Final = "spiffe://"
CONTROLLER: Final = "controller"  # the second segment of a controller's path

_TRUST_DOMAIN = re.compile(r"[a-z0-9._-]{1,255}")
_SEGMENT = re.compile(r"[A-Za-z0-9._-]+")
_ONE, _REST = "*", "**"


def parse_trust_domain(text: str) -> str:
    """*text*, if it is the name of a trust domain. Raises MalformedValue."""
    if not _TRUST_DOMAIN.fullmatch(text):
        raise MalformedValue("the trust domain must be 1 to 255 of a-z 0-9 . _ - without user or port")
    return text


@dataclass(frozen=True, slots=True)
class SpiffeId:
    """A workload's name, ``spiffe://<trust-domain>/<segment>/...``: there is a path, since without one it is a CA's."""

    trust_domain: str
    segments: tuple[str, ...]

    def __post_init__(self) -> None:
        parse_trust_domain(self.trust_domain)
        if not self.segments:
            raise MalformedValue("a workload's ID must have a path behind the trust domain")
        for segment in self.segments:
            _check_segment(segment)
        _check_length(str(self))

    @classmethod
    def parse(cls, text: str) -> Self:
        """The ID that *text* spells. Raises MalformedValue."""
        return cls(*_split(text))

    def __str__(self) -> str:
        return _join(self.trust_domain, self.segments)


@dataclass(frozen=True, slots=True)
class Pattern:
    """IDs of one trust domain, by their path.

    Attributes:
        trust_domain: Always literal: who may vouch for a name is never a matter of taste.
        segments: Each is a literal, or ``*``, which stands for exactly one whole segment.
        rest: Whether ``**`` follows them, which stands for one segment or more.
    """

    trust_domain: str
    segments: tuple[str, ...]
    rest: bool = False

    def __post_init__(self) -> None:
        parse_trust_domain(self.trust_domain)
        if not (self.segments or self.rest):
            raise MalformedValue("must have a path behind the trust domain, /** for any: an ID without one is a CA's")
        for segment in self.segments:
            if segment != _ONE:
                _check_pattern_segment(segment)
        _check_length(str(self))

    @classmethod
    def parse(cls, text: str) -> Self:
        """The pattern that *text* spells. Raises MalformedValue."""
        trust_domain, segments = _split(text)
        rest = segments[-1:] == (_REST,)
        return cls(trust_domain, segments[:-1] if rest else segments, rest)

    def matches(self, spiffe_id: SpiffeId) -> bool:
        """Whether *spiffe_id* is one of these."""
        own, theirs = self.segments, spiffe_id.segments
        if self.trust_domain != spiffe_id.trust_domain:
            return False
        if len(theirs) <= len(own) if self.rest else len(theirs) != len(own):
            return False
        return all(one in (_ONE, other) for one, other in zip(own, theirs, strict=False))

    def __str__(self) -> str:
        return _join(self.trust_domain, (*self.segments, _REST) if self.rest else self.segments)


@dataclass(frozen=True, slots=True)
class NamedController:
    """A controller, by ``/<cluster>/controller/<name>``."""

    cluster: str
    name: ControllerName

    def __str__(self) -> str:
        return f"controller {self.name} of {self.cluster}"


@dataclass(frozen=True, slots=True)
class NamedSlot:
    """A slot, by ``/<cluster>/<replica>/<ordinal>``, at one generation if ``/<generation>`` follows, else at any."""

    identity: Identity
    generation: Generation | None = None

    def __str__(self) -> str:
        return f"slot {self.identity}" + (f" at generation {self.generation}" if self.generation else "")


def named(spiffe_id: SpiffeId) -> NamedController | NamedSlot | None:
    """What the path of *spiffe_id* names; None for any other path: such an ID says who somebody is, and no more.

    A second segment ``controller`` is looked for first. A slot whose replica has that name therefore can't be named in
    a certificate, with or without a generation. Segments that aren't exactly an identity's, a generation's or a
    controller's name (``sidecar.identity``) name nothing.
    """
    match spiffe_id.segments:
        case (cluster, second, last) if second == CONTROLLER:
            return _controller(cluster, last)
        case (_, second, *_) if second == CONTROLLER:
            return None
        case (cluster, replica, ordinal):
            return _slot(f"{cluster}/{replica}/{ordinal}", None)
        case (cluster, replica, ordinal, generation):
            return _slot(f"{cluster}/{replica}/{ordinal}", generation)
        case _:
            return None


def _controller(cluster: str, name: str) -> NamedController | None:
    try:
        Identity(cluster, CONTROLLER, 0)  # the cluster's syntax is an identity's
        return NamedController(cluster, ControllerName.parse(name))
    except MalformedValue:
        return None


def _slot(identity: str, generation: str | None) -> NamedSlot | None:
    try:
        return NamedSlot(Identity.parse(identity), None if generation is None else Generation.parse(generation))
    except MalformedValue:
        return None


def _split(text: str) -> tuple[str, tuple[str, ...]]:
    """Trust domain and segments as they stand; nothing of them is checked."""
    _check_length(text)  # before anything is done with each part of it
    if not text.startswith(SCHEME):
        raise MalformedValue(f"must begin with {SCHEME}")
    trust_domain, *segments = text.removeprefix(SCHEME).split("/")
    return trust_domain, tuple(segments)


def _join(trust_domain: str, segments: tuple[str, ...]) -> str:
    return SCHEME + "/".join((trust_domain, *segments))


def _check_length(text: str) -> None:
    if len(text) > MAX_LENGTH:
        raise MalformedValue(f"must be at most {MAX_LENGTH} bytes long")


def _check_segment(segment: str) -> None:
    if not segment:
        raise MalformedValue("the path must have no empty segment and no slash at its end")
    if segment in (".", ".."):
        raise MalformedValue("the path must have no segment . or ..")
    if not _SEGMENT.fullmatch(segment):
        raise MalformedValue("the path must be of A-Z a-z 0-9 . _ - alone: no percent-encoding, query or fragment")


def _check_pattern_segment(segment: str) -> None:
    if segment == _REST:
        raise MalformedValue("** must be the last segment")
    if _ONE in segment:
        raise MalformedValue("* must be a whole segment")
    _check_segment(segment)
