"""Certificates and lists that the development CA would never make, for what has to judge them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sidecar.certs.authority import Authority

NOW = datetime.now(UTC).replace(microsecond=0)
NAME = "spiffe://example.org/prod-eu/replica-a/2"


def authority():
    return Authority.create("example.org", now=NOW, days=30)


def certificate(signer, *, uris=(NAME,), starts=-1, ends=30, is_ca=False, key=None, purposes=None, subject="odd"):
    """One signed by *signer*; *starts* and *ends* are days from now. As an object."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    names = [x509.UniformResourceIdentifier(uri) for uri in uris]
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(signer.certificate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW + timedelta(days=starts))
        .not_valid_after(NOW + timedelta(days=ends))
    )
    if is_ca:
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    if purposes is not None:
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    return builder.sign(signer.key, hashes.SHA256())


def intermediate(root):
    """An authority whose certificate *root* signed."""
    key = ec.generate_private_key(ec.SECP256R1())
    return Authority(certificate(root, uris=(), is_ca=True, key=key, subject="intermediate"), key, "example.org")


def revocations(signer, *revoked, ends=30):
    """A revocation list of *signer* that holds the certificates *revoked*."""
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(signer.certificate.subject)
        .last_update(NOW - timedelta(days=1))
        .next_update(NOW + timedelta(days=ends) if ends else NOW - timedelta(hours=1))
    )
    for one in revoked:
        entry = x509.RevokedCertificateBuilder().serial_number(one.serial_number).revocation_date(NOW).build()
        builder = builder.add_revoked_certificate(entry)
    return builder.sign(signer.key, hashes.SHA256())


def pem(thing):
    """It in PEM: a certificate, a list, or a key."""
    if isinstance(thing, ec.EllipticCurvePrivateKey):
        form = serialization.PrivateFormat.PKCS8
        return thing.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())
    return thing.public_bytes(serialization.Encoding.PEM)
