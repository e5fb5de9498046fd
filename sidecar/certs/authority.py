"""A certificate authority for development: it signs what it is told to.

Owns what its certificates look like: ECDSA P-256, the name as the one URI name (the SPIFFE X.509-SVID document,
section 2), usable on both sides of a connection. Its own certificate names the trust domain, so that nobody has to say
it again. Knows no files, and nothing of what names mean: who calls chooses them. Called by the ``certs`` command.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sidecar.certs.errors import CertsError
from sidecar.certs.naming import dns_name
from sidecar.spiffe import SCHEME

CLOCKS_DIFFER: Final = timedelta(minutes=5)  # a certificate starts so long ago, for peers whose clocks are behind


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, in PEM."""

    certificate: bytes
    key: bytes
    expires: datetime


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate that signs others, and its key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    trust_domain: str

    @classmethod
    def create(cls, trust_domain: str, *, now: datetime, days: int) -> Authority:
        """A new one for *trust_domain*, valid for *days* from *now*, which is aware. Raises CertsError."""
        key = ec.generate_private_key(ec.SECP256R1())
        own_name = _subject(f"development CA {secrets.token_hex(4)}")  # two of them can be told apart
        builder = _builder(own_name, key, now, _end(now, days)).issuer_name(own_name)
        certificate = (
            builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(signs_others=True), critical=True)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
            .add_extension(_names(f"{SCHEME}{trust_domain}"), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key, trust_domain)

    @classmethod
    def from_pem(cls, certificate: bytes, key: bytes) -> Authority:
        """The one that was made before. Raises CertsError."""
        try:
            own = x509.load_pem_x509_certificate(certificate)
            private = serialization.load_pem_private_key(key, password=None)
            (name,) = own.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(
                x509.UniformResourceIdentifier
            )
            issuing = own.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
        except (ValueError, TypeError, x509.ExtensionNotFound) as error:
            raise CertsError(f"is no CA of `sidecar certs init`: {error}") from error
        if not isinstance(private, ec.EllipticCurvePrivateKey) or not issuing or not name.startswith(SCHEME):
            raise CertsError("is no CA of `sidecar certs init`")
        if private.public_key() != own.public_key():
            raise CertsError("holds a key and a certificate that don't belong together: make the CA anew")
        return cls(own, private, name.removeprefix(SCHEME))

    def pair(self) -> Pair:
        """Its own certificate and key."""
        return _pair(self.certificate, self.key)

    def issue(self, kind: str, name: str | None, *, dns: Sequence[str] = (), now: datetime, days: int) -> Pair:
        """A new key and its certificate.

        Args:
            kind: What it is for, in a word: its subject, for people only.
            name: The one URI name; None: there is none.
            dns: DNS names beside it.
            now: The present, aware.
            days: How long it is valid.

        Raises:
            CertsError: There is no name in it, or it would outlive the authority.
            MalformedValue: A DNS name is none.
        """
        if name is None and not dns:
            raise CertsError("a certificate needs a name: give a DNS name or a SPIFFE ID")
        dns = [dns_name(text) for text in dns]
        end, last = _end(now, days), self.certificate.not_valid_after_utc
        if end > last:
            left = (last - now).days
            advice = f"give --days {left} at most, or make" if left > 0 else "make"
            raise CertsError(f"the CA ends at {last:%Y-%m-%d %H:%M} UTC: {advice} a new CA in another directory")
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            _builder(_subject(kind), key, now, end)
            .issuer_name(self.certificate.subject)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_others=False), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
                critical=False,
            )
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
            .add_extension(_names(name, dns), critical=False)
            .sign(self.key, hashes.SHA256())
        )
        return _pair(certificate, key)


def _builder(
    subject: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS_DIFFER)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _end(now: datetime, days: int) -> datetime:
    if days < 1:
        raise CertsError("a certificate is valid for a day at least")
    try:
        return now + timedelta(days=days)
    except OverflowError:
        raise CertsError(f"{days} days are more than a certificate can say") from None


def _subject(name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "identity-sidecar"),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )


def _names(uri: str | None, dns: Sequence[str] = ()) -> x509.SubjectAlternativeName:
    uris = [x509.UniformResourceIdentifier(uri)] if uri is not None else []
    return x509.SubjectAlternativeName([*uris, *map(x509.DNSName, dns)])


def _key_usage(*, signs_others: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_others,
        key_cert_sign=signs_others,
        crl_sign=signs_others,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    return Pair(
        certificate.public_bytes(serialization.Encoding.PEM),
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
        certificate.not_valid_after_utc,
    )
