"""What the files of a ``tls`` block hold: own credentials, the roots of peers, the lists of revoked certificates.

Each part is refused whole, with file and block number, where anything in it can't be used: what isn't loaded is missed
in the middle of the night. Whether a part is in date is its user's question, since it depends on when it is asked.

Owns that judgement, over ``cryptography``, whose errors end here. Reads no file and knows no clock: bytes come from
``files``, seconds since 1970 from the caller. Values are frozen and may be shared between threads.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import load_der_private_key

from sidecar.errors import SidecarError
from sidecar.tls.pem import Block, MalformedPem, read_blocks

Key: TypeAlias = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey
Revocable: TypeAlias = tuple[bytes, int]  # a certificate's issuer (its name in DER) and serial number

# What the library raises for what it can't parse, some of it only when a part is first looked at.
UNREADABLE: Final = (
    *(ValueError, TypeError, UnsupportedAlgorithm),
    *(x509.DuplicateExtension, x509.InvalidVersion, x509.UnsupportedGeneralNameType),
)

ANY_DOMAIN: Final = ""  # the key of roots that belong to no trust domain by name

_CERTIFICATE, _CRL = "CERTIFICATE", "X509 CRL"
_KEYS = frozenset({"PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"})
_BESIDE_A_KEY = frozenset({_CERTIFICATE, "EC PARAMETERS"})  # the latter is what `openssl ecparam -genkey` writes first

Parsed = TypeVar("Parsed")


class TlsFilesError(SidecarError):
    """A file of a ``tls`` block can't be used. The message begins with its path."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path


@dataclass(frozen=True, slots=True)
class File:
    """What was read from *path*."""

    path: Path
    content: bytes

    def blocks(self) -> tuple[Block, ...]:
        """Its PEM blocks. Raises TlsFilesError."""
        try:
            return read_blocks(self.content)
        except MalformedPem as error:
            raise TlsFilesError(self.path, f"{error}: write it again, whole") from error


@dataclass(frozen=True, slots=True)
class Credentials:
    """What this side shows: its certificate, with all that stand between it and a root, and the key that fits.

    Attributes:
        chain: the certificate of this side first, then each one's issuer.
        key: the private key of the first.
    """

    chain: tuple[x509.Certificate, ...]
    key: Key = field(compare=False, repr=False)  # it fits the chain, so that says it all

    @property
    def not_before(self) -> float:
        """When the whole chain has begun to be valid, in seconds since 1970."""
        return max(each.not_valid_before_utc.timestamp() for each in self.chain)

    @property
    def not_after(self) -> float:
        """When the first of the chain ceases to be valid, in seconds since 1970."""
        return min(each.not_valid_after_utc.timestamp() for each in self.chain)


@dataclass(frozen=True)
class Roots:
    """The certificates that peers' chains may end at.

    Attributes:
        by_domain: for each trust domain its own; under ``ANY_DOMAIN`` those that belong to none by name.
    """

    by_domain: Mapping[str, tuple[x509.Certificate, ...]]

    @cached_property
    def certificates(self) -> tuple[x509.Certificate, ...]:
        """All of them, each once."""
        return tuple(dict.fromkeys(root for roots in self.by_domain.values() for root in roots))

    @cached_property
    def _domains(self) -> Mapping[x509.Certificate, frozenset[str]]:
        return {
            root: frozenset(domain for domain, roots in self.by_domain.items() if domain and root in roots)
            for root in self.certificates
        }

    def domains_of(self, chain: Iterable[x509.Certificate]) -> frozenset[str]:
        """The trust domains, by name, for which any certificate of a verified *chain* is listed."""
        return frozenset().union(*(self._domains.get(each, frozenset()) for each in chain))

    @property
    def has_intermediate_without_root(self) -> bool:
        """Whether a chain may have to end at one of them that another CA has issued."""
        names = {root.subject for root in self.certificates}
        return any(root.issuer not in names for root in self.certificates)

    @property
    def not_after(self) -> float:
        """When the first of them ceases to be valid, in seconds since 1970."""
        return min(each.not_valid_after_utc.timestamp() for each in self.certificates)


@dataclass(frozen=True)
class Crls:
    """The lists of revoked certificates; without any, nothing is looked up."""

    lists: tuple[x509.CertificateRevocationList, ...] = ()

    @cached_property
    def _revoked(self) -> frozenset[Revocable]:
        return frozenset(
            (issuer, each.serial_number)
            for revoked in self.lists
            for issuer in [revoked.issuer.public_bytes()]
            for each in revoked
        )

    def revoke(self, *certificates: Hashable) -> bool:
        """Whether any of *certificates*, a peer's and those above it, is listed."""
        return not self._revoked.isdisjoint(certificates)


@dataclass(frozen=True, slots=True)
class Material:
    """All that a context is made of."""

    own: Credentials
    roots: Roots
    crls: Crls


def revocable(certificate: x509.Certificate) -> Revocable:
    """How a list of revoked certificates names *certificate* (RFC 5280, section 5)."""
    return certificate.issuer.public_bytes(), certificate.serial_number


def read_credentials(certificate: File, key: File) -> Credentials:
    """The pair in two files, or in one that holds both. Raises TlsFilesError."""
    blocks = [block for block in certificate.blocks() if block.label not in _KEYS]
    chain = tuple(_each(certificate, blocks, _CERTIFICATE, x509.load_der_x509_certificate))
    if not chain:
        raise TlsFilesError(certificate.path, "holds no certificate: write the own one, then each one's issuer")
    for number, (below, above) in enumerate(pairwise(chain), start=2):
        if not _issued(below, by=above):
            raise TlsFilesError(
                certificate.path,
                f"certificate {number} didn't issue the one before: write the own one first, then each one's issuer",
            )
    private = _read_key(key)
    try:
        fits = chain[0].public_key() == private.public_key()
    except UNREADABLE as error:
        raise TlsFilesError(certificate.path, f"the certificate's public key can't be used: {error}") from error
    if not fits:
        raise TlsFilesError(key.path, f"isn't the key of the certificate in {certificate.path}")
    return Credentials(chain, private)


def read_roots(files: Mapping[str, File]) -> Roots:
    """The bundle of each trust domain (the key). Raises TlsFilesError."""
    return Roots({domain: _read_bundle(file) for domain, file in files.items()})


def read_crls(file: File) -> Crls:
    """The lists in *file*: without one it would switch the look-up off. Raises TlsFilesError."""
    lists = tuple(_each(file, file.blocks(), _CRL, _load_crl))
    if not lists:
        raise TlsFilesError(file.path, "holds no CRL: write one of each CA, which may be empty")
    crls = Crls(lists)
    crls.revoke()  # a long list takes its time: now, in the thread that reads it
    return crls


def _read_key(file: File) -> Key:
    blocks = file.blocks()
    for block in blocks:
        if block.label == "ENCRYPTED PRIVATE KEY":
            raise TlsFilesError(file.path, f"{block} is encrypted: nobody could type its passphrase; decrypt it")
        if block.label not in _KEYS | _BESIDE_A_KEY:
            raise TlsFilesError(file.path, f"{block} isn't a private key")
    keys = list(_each(file, [block for block in blocks if block.label in _KEYS], None, _load_key))
    if len(keys) != 1:
        raise TlsFilesError(file.path, f"holds {len(keys) or 'no'} private keys: there has to be exactly one")
    if not isinstance(keys[0], Key):
        raise TlsFilesError(file.path, "the key is of a kind that isn't served: use ECDSA, RSA or Ed25519")
    return keys[0]


def _load_key(der: bytes) -> object:
    # The full check of an RSA key takes seconds, and that it fits the certificate is checked anyway.
    return load_der_private_key(der, password=None, unsafe_skip_rsa_key_validation=True)


def _load_crl(der: bytes) -> x509.CertificateRevocationList:
    crl = x509.load_der_x509_crl(der)
    Crls((crl,)).revoke()  # its issuer and entries are parsed only now
    return crl


def _read_bundle(file: File) -> tuple[x509.Certificate, ...]:
    blocks = file.blocks()
    roots = tuple(_each(file, blocks, _CERTIFICATE, x509.load_der_x509_certificate))
    if not roots:
        raise TlsFilesError(file.path, "holds no certificate: write the roots of the peers that may connect")
    for block, root in zip(blocks, roots, strict=True):
        try:  # its parts are parsed when they are first looked at
            is_ca = root.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
            own_signature_is_wrong = root.issuer == root.subject and not _issued(root, by=root)
        except x509.ExtensionNotFound:
            is_ca = own_signature_is_wrong = False
        except UNREADABLE as error:
            raise TlsFilesError(file.path, f"{block} is damaged: {error}") from error
        if not is_ca:
            raise TlsFilesError(file.path, f"{block} isn't a CA's certificate: write the one that issues the peers'")
        if own_signature_is_wrong:
            raise TlsFilesError(file.path, f"{block} is damaged: its signature isn't its own")
    return roots


def _issued(certificate: x509.Certificate, *, by: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(by)
    except (*UNREADABLE, InvalidSignature):
        return False
    return True


def _each(
    file: File, blocks: list[Block] | tuple[Block, ...], label: str | None, load: Callable[[bytes], Parsed]
) -> Iterator[Parsed]:
    """What *load* makes of each block, all of which have to be of this *label*. Raises TlsFilesError."""
    for block in blocks:
        if label is not None and block.label != label:
            raise TlsFilesError(file.path, f"{block} has no place here: only blocks of kind {label} do")
        try:
            yield load(block.der)
        except UNREADABLE as error:
            raise TlsFilesError(file.path, f"{block} is damaged, or of a kind that can't be read: {error}") from error
