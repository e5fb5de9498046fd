"""What a verified certificate says of its holder, as plain values, and the one SPIFFE ID that it may carry.

Owns the rule of X509-SVID (sections 2 and 5.2) for both sides of a connection, and what is wrong with a certificate's
names in words. That its chain is good is settled before; whether the name is the right one is the caller's to say:
``peer_names`` for who dials, ``server_names`` for who answers.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Final

from sidecar.errors import MalformedValue
from sidecar.preface.printable import printable
from sidecar.spiffe import SpiffeId

MAX_DETAIL: Final = 256  # what an answer takes (docs/wire.md, "The answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Presented:
    """A certificate whose chain was verified. Nothing has a default: what wasn't read can't be taken for absent.

    Attributes:
        uris: Its URI names in order, repeated ones too.
        dns_names: Its DNS names.
        signs: Whether it may sign others: a CA's, or one with keyCertSign or cRLSign.
        not_after: When it ceases to be valid, in seconds since 1970.
        revocable: How revocation lists name it and those above it; of no meaning here.
        trust_domains: Those whose own roots its chain ends at. None: a root that belongs to no trust domain by name.
    """

    uris: tuple[str, ...]
    dns_names: tuple[str, ...]
    signs: bool
    not_after: float
    revocable: tuple[Hashable, ...]
    trust_domains: frozenset[str]

    def spiffe_id(self) -> SpiffeId | NameFault:
        """The one SPIFFE ID that it carries, or why it carries none that counts."""
        if not self.uris:
            return NameFault(Wrong.NO_SPIFFE_ID)
        if len(self.uris) > 1:
            return NameFault(Wrong.MULTIPLE_URIS)  # none of them is looked at: not the first, not the best
        (uri,) = self.uris
        try:
            spiffe_id = SpiffeId.parse(uri)
        except MalformedValue as error:
            return NameFault(Wrong.MALFORMED_SPIFFE_ID, uri, str(error))
        return NameFault(Wrong.SIGNING_CERTIFICATE, uri) if self.signs else spiffe_id


@unique
class Wrong(StrEnum):
    """What is wrong with a certificate's names: the word that a detail begins with."""

    NO_SPIFFE_ID = "no_spiffe_id"
    MULTIPLE_URIS = "multiple_uris"
    MALFORMED_SPIFFE_ID = "malformed_spiffe_id"
    SIGNING_CERTIFICATE = "signing_certificate"
    SPIFFE_ID_NOT_ALLOWED = "spiffe_id_not_allowed"
    FOREIGN_TRUST_DOMAIN = "foreign_trust_domain"
    NO_DNS_NAME = "no_dns_name"
    TOO_MANY_DNS_NAMES = "too_many_dns_names"
    DNS_NAME_NOT_ALLOWED = "dns_name_not_allowed"


@dataclass(frozen=True, slots=True)
class NameFault:
    """Why a certificate's names won't do.

    Attributes:
        wrong: What it is.
        name: The first name that is at fault, as it stands in the certificate.
        why: What is wrong with it, where the word doesn't say it.
    """

    wrong: Wrong
    name: str = ""
    why: str = ""

    def __str__(self) -> str:
        """It in at most 256 characters of printable ASCII, the name escaped and, if need be, cut."""
        text = f"{self.wrong} ({self.why})" if self.why else str(self.wrong)
        if not self.name:
            return text
        text += ": "
        return text + printable(self.name.encode("utf-8", "surrogatepass"), MAX_DETAIL - len(text))
