"""A small maker of certificates, keys and CRLs, with every fault that a test needs.

Keys are ECDSA P-256 unless a test asks for another kind; nothing is written anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH
SERVER = ExtendedKeyUsageOID.SERVER_AUTH
CONTROLLER = "spiffe://example.org/prod-eu/controller/c1"
HOUR = 3600.0


def now():
    """The wall clock, in whole seconds, as certificates have them."""
    return float(int(datetime.now(UTC).timestamp()))


def name(common):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def moment(offset):
    return datetime.fromtimestamp(now() + offset, UTC)


def pem(*objects):
    """PEM of certificates, CRLs and keys (PKCS 8), one after the other."""
    return b"".join(
        each.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        if hasattr(each, "private_bytes")
        else each.public_bytes(Encoding.PEM)
        for each in objects
    )


def ec_key():
    return ec.generate_private_key(ec.SECP256R1())


def _digest(key):
    return None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()


@dataclass(frozen=True)
class Leaf:
    """An end's certificate with its key, and the intermediates below the root, lowest first."""

    certificate: x509.Certificate
    key: object
    intermediates: tuple[x509.Certificate, ...] = ()

    @property
    def chain(self):
        return (self.certificate, *self.intermediates)

    @property
    def chain_pem(self):
        return pem(*self.chain)

    @property
    def key_pem(self):
        return pem(self.key)


class CA:
    """A certificate authority: a root, or with *parent* an intermediate one.

    Args:
        common: its name; two of the same name are a case of its own.
        parent: who signs it; itself where there is none.
        start: the offset of its validity from now, in seconds; ``end`` the same.
        path_length: how many CAs may stand below it.
    """

    def __init__(self, common="root", *, parent=None, start=-HOUR, end=24 * HOUR, key=None, path_length=None):
        self.parent = parent
        self.name = name(common)
        self.key = key or ec_key()
        signer = parent or self
        self.certificate = (
            x509.CertificateBuilder()
            .subject_name(self.name)
            .issuer_name(signer.name)
            .public_key(self.key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(moment(start))
            .not_valid_after(moment(end))
            .add_extension(x509.BasicConstraints(ca=True, path_length=path_length), critical=True)
            .add_extension(_ca_usage(), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self.key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.key.public_key()), critical=False)
            .sign(signer.key, _digest(signer.key))
        )

    @property
    def pem(self):
        return pem(self.certificate)

    @property
    def above(self):
        """The intermediates from this CA upwards, without the root."""
        return () if self.parent is None else (self.certificate, *self.parent.above)

    def issue(
        self,
        *,
        uris: Iterable[str] = (CONTROLLER,),
        dns: Iterable[str] = (),
        start=-HOUR,
        end=HOUR,
        usages=(CLIENT, SERVER),
        key=None,
        common="leaf",
        extensions=(),
    ):
        """A certificate of an end, with its names, validity (offsets from now) and extended key usages."""
        key = key or ec_key()
        names = [*map(x509.UniformResourceIdentifier, uris), *map(x509.DNSName, dns)]
        builder = (
            x509.CertificateBuilder()
            .subject_name(name(common))
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(moment(start))
            .not_valid_after(moment(end))
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key()), critical=False)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        if usages:
            builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        return Leaf(builder.sign(self.key, _digest(self.key)), key, self.above)

    def crl(self, *revoked, start=-HOUR, end=HOUR, signer=None, number=1):
        """This CA's list of the revoked: leaves, or CAs below it."""
        key = (signer or self).key
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.name)
            .last_update(moment(start))
            .next_update(moment(end))
            .add_extension(x509.CRLNumber(number), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        )
        for each in revoked:
            builder = builder.add_revoked_certificate(
                x509.RevokedCertificateBuilder()
                .serial_number(each.certificate.serial_number)
                .revocation_date(moment(-timedelta(minutes=1).total_seconds()))
                .build()
            )
        return builder.sign(key, _digest(key))


def _ca_usage():
    return x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
