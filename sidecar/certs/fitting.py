"""Whether what several files hold fits together: key and certificate, chain and root, revocation list and issuer.

Owns the comparisons between blocks. Nothing here decides whom a listener admits: OpenSSL does, at the handshake. It
answers the question that comes before: are these the right files? Called by the ``certs`` command.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa

from sidecar.certs.contents import Block, Unusable
from sidecar.certs.report import Line, is_authority, shown

_SIGNING_KEYS: Final = (rsa.RSAPublicKey, ec.EllipticCurvePublicKey, ed25519.Ed25519PublicKey, ed448.Ed448PublicKey)

_Certificates = Sequence[tuple[Block, x509.Certificate]]


def fit(blocks: Sequence[Block]) -> Iterator[Line]:
    """The lines that say how *blocks*, those of all files, fit together."""
    certificates = [(block, block.held) for block in blocks if isinstance(block.held, x509.Certificate)]
    yield from _keys(blocks, certificates)
    yield from _issuers(certificates)
    yield from _order(certificates)
    yield from _revocation_lists(blocks, certificates)


def _keys(blocks: Sequence[Block], certificates: _Certificates) -> Iterator[Line]:
    """Each key against the certificates, where there are any that it could belong to."""
    for block in blocks if certificates else ():
        held = block.held
        if isinstance(held, Unusable | x509.Certificate | x509.CertificateRevocationList):
            continue
        own = held.public_key()
        if fitting := [other for other, certificate in certificates if certificate.public_key() == own]:
            yield Line(f"{block} is the key of {_listed(fitting)}")
        else:
            yield _wrong(f"{block} is the key of no certificate here: these files come from different pairs")


def _issuers(certificates: _Certificates) -> Iterator[Line]:
    """Who signed each certificate. That it isn't here is wrong only where a root is."""
    roots = [block for block, certificate in certificates if _signed(certificate, certificate)]
    for block, certificate in certificates:
        if block in roots:
            continue
        issuers = [other for other, issuer in certificates if is_authority(issuer) and _signed(certificate, issuer)]
        if issuers:
            yield Line(f"{block} is signed by {_listed(issuers)}")
            continue
        missing = f"{block} is signed by none of these: its issuer is {shown(certificate.issuer.rfc4514_string())}"
        yield _wrong(f"{missing}, and {_listed(roots)} isn't it") if roots else Line(missing)


def _order(certificates: _Certificates) -> Iterator[Line]:
    """A file with a certificate that isn't an authority's is a chain: that one first, then each one's issuer."""
    for file in dict.fromkeys(block.file for block, _ in certificates):
        chain = [(block, certificate) for block, certificate in certificates if block.file == file]
        if all(is_authority(certificate) for _, certificate in chain):
            continue
        first, own = chain[0]
        if is_authority(own):
            yield _wrong(f"{first} is a CA's: in a chain the certificate that it is all about comes first")
            continue
        for (_, before), (block, issuer) in pairwise(chain):
            if not _signed(before, issuer):
                yield _wrong(f"{block} didn't sign the one before it: in a chain each one's issuer comes next")


def _revocation_lists(blocks: Sequence[Block], certificates: _Certificates) -> Iterator[Line]:
    for block in blocks:
        crl = block.held
        if not isinstance(crl, x509.CertificateRevocationList):
            continue
        if signers := [other for other, certificate in certificates if _signed_list(crl, certificate)]:
            yield Line(f"{block} is signed by {_listed(signers)}")
        elif certificates:
            yield _wrong(f"{block} is signed by no certificate here: give its issuer's file, or fetch the right list")
        for other, certificate in certificates:
            if certificate.issuer == crl.issuer and (
                crl.get_revoked_certificate_by_serial_number(certificate.serial_number) is not None
            ):
                yield _wrong(f"{other} is revoked by {block}")


def _signed(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def _signed_list(crl: x509.CertificateRevocationList, issuer: x509.Certificate) -> bool:
    key = issuer.public_key()
    if crl.issuer != issuer.subject or not isinstance(key, _SIGNING_KEYS):
        return False
    return crl.is_signature_valid(key)


def _listed(blocks: Sequence[Block]) -> str:
    return ", ".join(map(str, blocks))


def _wrong(text: str) -> Line:
    return Line(text, wrong=True)
