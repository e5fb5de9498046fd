"""What one block of a PEM file says, in words: whose it is, how long it holds, and what our rules make of it.

Owns the words about a single certificate, key or revocation list. What a SPIFFE ID names is not its business: it is
told how to find out. Text from a certificate is escaped: anybody may have made it. Called by the ``certs`` command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from sidecar.certs.contents import Block, Unusable
from sidecar.errors import MalformedValue

Naming = Callable[[str], str]  # what a SPIFFE ID names, in words; raises MalformedValue where it is none

_WIDTH: Final = 10
_MOST_SHOWN: Final = 1024
_PURPOSES: Final = {ExtendedKeyUsageOID.SERVER_AUTH: "server", ExtendedKeyUsageOID.CLIENT_AUTH: "client"}


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a report. ``wrong``: something has to be done about it."""

    text: str
    wrong: bool = False


def describe(block: Block, *, now: datetime, naming: Naming) -> Iterator[Line]:
    """The lines that say what *block* holds; *now* is aware."""
    held = block.held
    place = f"{block.number}: " if block.number else ""
    if isinstance(held, Unusable):
        yield Line(f"{place}{shown(held.why)}", wrong=True)
    elif isinstance(held, x509.Certificate):
        yield Line(f"{place}{'CA ' if is_authority(held) else ''}certificate")
        yield from _certificate(held, now, naming)
    elif isinstance(held, x509.CertificateRevocationList):
        yield Line(f"{place}revocation list")
        yield from _revocations(held, now)
    else:
        yield Line(f"{place}private key, {_kind_of_key(held.public_key())}")


def is_authority(certificate: x509.Certificate) -> bool:
    """Whether *certificate* may sign others."""
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def shown(text: str) -> str:
    """*text*, so that it can't move a terminal's cursor."""
    harmless = "".join(c if " " <= c <= "~" else c.encode("unicode_escape").decode() for c in text)
    return harmless if len(harmless) <= _MOST_SHOWN else f"{harmless[:_MOST_SHOWN]}..."


def _certificate(certificate: x509.Certificate, now: datetime, naming: Naming) -> Iterator[Line]:
    yield from _names(certificate, naming)
    yield _field("subject", certificate.subject.rfc4514_string() or "empty")
    yield _field("issuer", "itself" if _self_signed(certificate) else certificate.issuer.rfc4514_string())
    yield _validity(certificate.not_valid_before_utc, certificate.not_valid_after_utc, now)
    yield _field("serial", f"{certificate.serial_number:x}")
    yield _field("key", _kind_of_key(certificate.public_key()))
    if not is_authority(certificate):
        yield from _purposes(certificate)
    yield _field("sha256", certificate.fingerprint(hashes.SHA256()).hex(":"))


def _names(certificate: x509.Certificate, naming: Naming) -> Iterator[Line]:
    """The names, and what a listener with ``tls`` makes of them: of an authority's own it makes nothing."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        names = x509.SubjectAlternativeName([])
    uris = names.get_values_for_type(x509.UniformResourceIdentifier)
    if is_authority(certificate):
        yield from (_field("URI name", uri) for uri in uris)
    elif len(uris) == 1:
        try:
            yield _field("URI name", f"{uris[0]}: names {naming(uris[0])}")
        except MalformedValue as error:
            yield _field("URI name", f"{uris[0]} is no SPIFFE ID, so no listener takes it: {error}", wrong=True)
    elif uris:
        text = f"{len(uris)}, and no listener takes a certificate with more than one: {', '.join(uris)}"
        yield _field("URI names", text, wrong=True)
    else:
        yield _field("URI name", "none: names no slot and no controller, and passes by tls.allow_dns alone")
    yield from (_field("DNS name", name) for name in names.get_values_for_type(x509.DNSName))


def _purposes(certificate: x509.Certificate) -> Iterator[Line]:
    try:
        listed = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except x509.ExtensionNotFound:
        return
    purposes = [word for purpose, word in _PURPOSES.items() if purpose in listed]
    yield _field("usable as", " and ".join(purposes) or "neither client nor server", wrong=not purposes)


def _revocations(crl: x509.CertificateRevocationList, now: datetime) -> Iterator[Line]:
    yield _field("issuer", crl.issuer.rfc4514_string())
    yield _field("revokes", f"{len(crl)} certificate{'' if len(crl) == 1 else 's'}")
    if crl.next_update_utc is None:
        yield _field("valid", f"from {_moment(crl.last_update_utc)}, without an end")
    else:
        yield _validity(crl.last_update_utc, crl.next_update_utc, now)


def _validity(start: datetime, end: datetime, now: datetime) -> Line:
    span = f"{_moment(start)} to {_moment(end)}"
    if now < start:
        return _field("valid", f"{span}: not yet", wrong=True)
    if now > end:
        return _field("valid", f"{span}: expired", wrong=True)
    left = end - now
    return _field("valid", f"{span}: {left.days} days left" if left.days else f"{span}: less than a day left")


def _moment(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _kind_of_key(key: object) -> str:
    if isinstance(key, ec.EllipticCurvePublicKey):
        return f"EC {key.curve.name}"
    if isinstance(key, rsa.RSAPublicKey):
        return f"RSA {key.key_size}"
    return type(key).__name__.removesuffix("PublicKey")


def _self_signed(certificate: x509.Certificate) -> bool:
    return certificate.issuer == certificate.subject


def _field(name: str, text: str, *, wrong: bool = False) -> Line:
    return Line(f"   {name:<{_WIDTH}}{shown(text)}", wrong)
