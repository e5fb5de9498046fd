"""Who dials, by its certificate: from the names of a verified certificate to what admission may rely on.

Owns a listener's rule for names: ``allow``, ``allow_dns``, and which roots may vouch for which trust domain. Whether
certificate and preface agree is admission's. Called once a connection, when its TLS handshake is done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sidecar.admission import Peer
from sidecar.dns_names import DnsPattern
from sidecar.presented import NameFault, Presented, Wrong
from sidecar.spiffe import NamedController, NamedSlot, Pattern, SpiffeId, named

MOST_DNS_NAMES: Final = 256  # public CAs stop at 100; each is compared with each pattern


@dataclass(frozen=True, slots=True)
class Rule:
    """Which names may connect to a listener.

    Attributes:
        allow: SPIFFE IDs.
        allow_dns: DNS names; they count for a certificate without any URI name, and for no other.
        trust_domains: Those that are listed with their own roots. Such roots vouch for names of their own domains
            and for nothing else; for everything else vouch the roots that are listed for none.
    """

    allow: tuple[Pattern, ...] = ()
    allow_dns: tuple[DnsPattern, ...] = ()
    trust_domains: frozenset[str] = frozenset()


def peer_of(presented: Presented, rule: Rule) -> Peer:
    """What the holder of a verified certificate proves; one that isn't allowed here proves nothing and says why."""
    if not presented.uris and rule.allow_dns:
        fault = _dns_fault(presented, rule)
        return Peer(fault=str(fault)) if fault else Peer(proven=True)
    spiffe_id = presented.spiffe_id()
    if isinstance(spiffe_id, NameFault):
        return Peer(fault=str(spiffe_id))
    if fault := _spiffe_fault(spiffe_id, presented, rule):
        return Peer(fault=str(fault))
    match named(spiffe_id):
        case NamedController(name=name):
            return Peer(proven=True, controller=name)
        case NamedSlot(identity, generation):
            return Peer(proven=True, slot=identity, generation=generation)
        case None:
            return Peer(proven=True)


def _spiffe_fault(spiffe_id: SpiffeId, presented: Presented, rule: Rule) -> NameFault | None:
    if not any(pattern.matches(spiffe_id) for pattern in rule.allow):
        return NameFault(Wrong.SPIFFE_ID_NOT_ALLOWED, str(spiffe_id))
    listed = spiffe_id.trust_domain in rule.trust_domains
    vouched = spiffe_id.trust_domain in presented.trust_domains if listed else not presented.trust_domains
    return None if vouched else NameFault(Wrong.FOREIGN_TRUST_DOMAIN, str(spiffe_id), "signed by another's root")


def _dns_fault(presented: Presented, rule: Rule) -> NameFault | None:
    names = presented.dns_names
    if not names:
        return NameFault(Wrong.NO_SPIFFE_ID if rule.allow else Wrong.NO_DNS_NAME)
    if len(names) > MOST_DNS_NAMES:
        return NameFault(Wrong.TOO_MANY_DNS_NAMES, why=f"{len(names)}, of which {MOST_DNS_NAMES} are looked at at most")
    allowed = next((name for name in names if any(pattern.matches(name) for pattern in rule.allow_dns)), None)
    if allowed is None:
        return NameFault(Wrong.DNS_NAME_NOT_ALLOWED, names[0])
    if presented.trust_domains:  # else a partner's CA could name itself after anybody
        return NameFault(Wrong.FOREIGN_TRUST_DOMAIN, allowed, "signed by a trust domain's own root")
    return None
