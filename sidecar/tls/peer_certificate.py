"""What a verified peer has shown, as plain values.

Owns the way from OpenSSL's chain to them, and nothing of what they are worth: which names may connect is decided above,
by pure code. Reading a chain costs more than a tenth of a handshake, and a controller comes back with the same one, so
the last ones are remembered.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Final

from cryptography import x509
from OpenSSL import SSL

from sidecar.errors import SidecarError
from sidecar.presented import Presented
from sidecar.tls.material import UNREADABLE, Roots, revocable

REMEMBERED: Final = 64  # chains; OpenSSL takes none beyond 100 KiB

_Chain = tuple[x509.Certificate, ...]


class UnreadableCertificate(SidecarError):
    """A peer's certificate was verified, and its names can't be read: refuse it."""


class PeerCertificates:
    """Reads the certificates of peers that were verified against *roots*."""

    def __init__(self, roots: Roots) -> None:
        def read(chain: _Chain) -> Presented:
            return read_chain(chain, roots)

        self._read: Callable[[_Chain], Presented] = lru_cache(maxsize=REMEMBERED)(read)

    def of(self, connection: SSL.Connection) -> Presented:
        """What the peer has shown in a handshake that has succeeded. Raises UnreadableCertificate."""
        try:
            chain = connection.get_verified_chain(as_cryptography=True)
        except UNREADABLE as error:
            raise UnreadableCertificate(f"the peer's chain can't be parsed: {error}") from error
        if not chain:
            raise UnreadableCertificate("the peer has shown no certificate that was verified")
        return self._read(tuple(chain))


def read_chain(chain: _Chain, roots: Roots) -> Presented:
    """What a verified chain says, the peer's own certificate first. Raises UnreadableCertificate."""
    own = chain[0]
    try:
        uris, dns_names = _names(own)
        return Presented(
            uris=uris,
            dns_names=dns_names,
            signs=_signs(own),
            not_after=own.not_valid_after_utc.timestamp(),
            revocable=tuple(map(revocable, chain)),
            trust_domains=roots.domains_of(chain),
        )
    except UNREADABLE as error:
        raise UnreadableCertificate(f"the peer's certificate can't be parsed: {error}") from error


def _names(certificate: x509.Certificate) -> tuple[tuple[str, ...], tuple[str, ...]]:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return (), ()
    return (
        tuple(names.get_values_for_type(x509.UniformResourceIdentifier)),
        tuple(names.get_values_for_type(x509.DNSName)),
    )


def _signs(certificate: x509.Certificate) -> bool:
    """Whether it is made for issuing others, or their revocations (X509-SVID, section 5.2)."""
    extensions = certificate.extensions
    with suppress(x509.ExtensionNotFound):
        if extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
            return True
    with suppress(x509.ExtensionNotFound):
        usage = extensions.get_extension_for_class(x509.KeyUsage).value
        return usage.key_cert_sign or usage.crl_sign
    return False
