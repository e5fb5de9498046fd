"""The names that certificates for development carry, and what a certificate's name means here.

Owns whom a certificate can be issued to. How an ID is written and what one names is ``spiffe``'s. Called by the
``certs`` command.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from sidecar.dns_names import DnsPattern
from sidecar.errors import MalformedValue
from sidecar.identity import ControllerName, Identity
from sidecar.spiffe import CONTROLLER, NamedController, NamedSlot, SpiffeId, named

_NEITHER: Final = "neither a slot nor a controller"


@dataclass(frozen=True, slots=True)
class ReplicaSet:
    """All slots of a replica set: one certificate for a whole StatefulSet. It names none of them."""

    cluster: str
    replica: str

    def __post_init__(self) -> None:
        Identity(self.cluster, self.replica, 0)  # their syntax is an identity's

    @classmethod
    def parse(cls, text: str) -> Self:
        """What ``<cluster>/<replica>`` spells. Raises MalformedValue."""
        cluster, separator, replica = text.partition("/")
        if not separator:
            raise MalformedValue("must be <cluster>/<replica>/<ordinal>, or <cluster>/<replica> for all of them")
        return cls(cluster, replica)

    def __str__(self) -> str:
        return _NEITHER


Subject = NamedSlot | ReplicaSet | NamedController


def parse_controller(text: str) -> NamedController:
    """The controller that ``<cluster>/<name>`` spells. Raises MalformedValue."""
    cluster, separator, name = text.partition("/")
    if not separator:
        raise MalformedValue("must be <cluster>/<name>")
    Identity(cluster, CONTROLLER, 0)
    controller = NamedController(cluster, ControllerName.parse(name))
    SpiffeId("any", _segments(controller))  # a controller's name may hold what an ID may not
    return controller


def dns_name(text: str) -> str:
    """*text*, where it is a DNS name, a wildcard's among them. Raises MalformedValue."""
    DnsPattern.parse(text)  # the names of certificates and the patterns for them are written alike
    return text


def spiffe_id(trust_domain: str, subject: Subject) -> SpiffeId:
    """The ID of *subject*.

    Raises:
        MalformedValue: As an ID it would name something else: a slot of the replica set ``controller``.
    """
    own = SpiffeId(trust_domain, _segments(subject))
    if _meaning(own) != str(subject):
        raise MalformedValue(f"a certificate for {subject} would name {_meaning(own)}: rename the replica set")
    return own


def meaning(text: str) -> str:
    """What the SPIFFE ID *text* names, in words. Raises MalformedValue: it is none, or no workload's."""
    return _meaning(SpiffeId.parse(text))


def _meaning(own: SpiffeId) -> str:
    return str(named(own) or _NEITHER)


def _segments(subject: Subject) -> tuple[str, ...]:
    match subject:
        case NamedSlot(identity, None):
            return tuple(str(identity).split("/"))
        case NamedSlot(identity, generation):
            return (*str(identity).split("/"), str(generation))
        case NamedController(cluster, name):
            return (cluster, CONTROLLER, str(name))
        case ReplicaSet(cluster, replica):
            return (cluster, replica)
