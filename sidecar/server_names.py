"""Who answers, by its certificate: whether the sidecar that was dialled may stand for the slot that is meant.

Owns the depths at which a dialler looks at a verified certificate. Deeper isn't always better: many replica sets have
one certificate for all their pods, and the life itself is proved by the answer. Called by diallers when the TLS
handshake is done, before the preface is sent.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Final, Self

from sidecar.dns_names import DnsPattern
from sidecar.errors import MalformedValue
from sidecar.preface.claim import Claim
from sidecar.preface.printable import printable
from sidecar.presented import NameFault, Presented
from sidecar.spiffe import NamedSlot, SpiffeId, named, parse_trust_domain

_DNS: Final = "dns:"
_SHOWN_LENGTH: Final = 160


@unique
class Depth(StrEnum):
    """How much of the SPIFFE ID is compared; each depth looks at what the ones below it do."""

    SLOT_AND_GENERATION = "slot+generation"
    SLOT = "slot"
    TRUST_DOMAIN = "trust-domain"


@dataclass(frozen=True, slots=True)
class ServerRule:
    """What a dialler wants to see in the sidecar's certificate.

    Attributes:
        depth: How deep to look into its SPIFFE ID, or the DNS names of which it must carry one.
        trust_domain: The ID's trust domain. None: any for which the dialler's roots vouch.

    Raises MalformedValue where a trust domain is asked for beside DNS names, which belong to none: the check would be
    left out without a word.
    """

    depth: Depth | DnsPattern = Depth.TRUST_DOMAIN
    trust_domain: str | None = None

    def __post_init__(self) -> None:
        if self.trust_domain is None:
            return
        parse_trust_domain(self.trust_domain)
        if isinstance(self.depth, DnsPattern):
            raise MalformedValue(f"{_DNS}PATTERN and a trust domain exclude each other: a DNS name belongs to none")

    @classmethod
    def parse(cls, depth: str, trust_domain: str | None = None) -> Self:
        """The rule that *depth* spells: ``slot+generation``, ``slot``, ``trust-domain`` or ``dns:PATTERN``.

        Raises:
            MalformedValue: It is none of these, or *trust_domain* is none or doesn't go with it.
        """
        if depth.startswith(_DNS):
            return cls(DnsPattern.parse(depth.removeprefix(_DNS)), trust_domain)
        if depth not in set(Depth):
            raise MalformedValue(f"must be one of {', '.join(Depth)}, {_DNS}PATTERN")
        return cls(Depth(depth), trust_domain)

    def lacking(self, claim: Claim) -> str | None:
        """Why *claim* can't be checked at this depth: worth a look before anything is dialled."""
        if self.depth is Depth.SLOT_AND_GENERATION and claim.generation is None:
            return f"the claim has no generation to check at depth {self.depth}: claim one, or use {Depth.SLOT}"
        return None

    def difference(self, presented: Presented, claim: Claim) -> str | None:
        """What differs between the certificate and what is meant by *claim*, both sides of it; None: nothing.

        The text is printable ASCII, whatever the certificate holds.
        """
        if why := self.lacking(claim):
            return why
        if isinstance(self.depth, DnsPattern):
            return _dns_difference(self.depth, presented)
        expected = self._expected(claim)
        spiffe_id = presented.spiffe_id()
        if isinstance(spiffe_id, NameFault):
            hint = "" if presented.uris else f"; {_DNS}PATTERN checks certificates without SPIFFE IDs"
            return f"expected {expected}, the certificate's names can't say so: {spiffe_id}{hint}"
        if self._fits(spiffe_id, claim):
            return None
        return f"expected {expected}, the certificate says {printable(str(spiffe_id).encode(), _SHOWN_LENGTH)}"

    def _fits(self, spiffe_id: SpiffeId, claim: Claim) -> bool:
        if self.trust_domain not in (None, spiffe_id.trust_domain):
            return False
        if self.depth is Depth.TRUST_DOMAIN:
            return True
        slot = named(spiffe_id)
        if not isinstance(slot, NamedSlot) or slot.identity != claim.identity:
            return False
        return self.depth is Depth.SLOT or slot.generation == claim.generation

    def _expected(self, claim: Claim) -> str:
        within = f"trust domain {self.trust_domain}" if self.trust_domain else "any trust domain"
        match self.depth:
            case Depth.SLOT:
                return f"slot {claim.identity} in {within}"
            case Depth.SLOT_AND_GENERATION:
                return f"slot {claim.identity} at generation {claim.generation} in {within}"
            case _:
                return f"a SPIFFE ID in {within}"


def _dns_difference(pattern: DnsPattern, presented: Presented) -> str | None:
    if any(map(pattern.matches_server, presented.dns_names)):
        return None
    if not presented.dns_names:
        return f"expected DNS name {pattern}, the certificate has none"
    first, others = presented.dns_names[0], len(presented.dns_names) - 1
    shown = printable(first.encode("utf-8", "surrogatepass"), _SHOWN_LENGTH) + (f" and {others} more" if others else "")
    return f"expected DNS name {pattern}, the certificate says {shown}"
