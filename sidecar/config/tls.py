"""What the two ``tls`` blocks, the file's and a listener's own, come to.

Owns :class:`Tls` and the order of precedence between the blocks. Called by `effective` and `rules`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sidecar.config.listener_model import ListenerSection, TlsSection
from sidecar.config.model import ConfigurationFile


@dataclass(frozen=True, slots=True)
class Tls:
    """What a listener proves itself with, and what it takes for proof of its peers.

    Attributes:
        certificate: The own chain.
        key: Its private key.
        client_ca: The roots that client certificates are verified against.
        trust_domains: More roots, each with the trust domain that they vouch for.
        crl: Revoked certificates; None: none.
        speaks_1_2: Whether TLS 1.2 is spoken too.
        ends_with_certificate: Whether a connection is cut when its certificate expires.
    """

    certificate: Path
    key: Path
    client_ca: Path
    trust_domains: tuple[tuple[str, Path], ...]
    crl: Path | None
    speaks_1_2: bool
    ends_with_certificate: bool


def tls_of(file: ConfigurationFile, listener: ListenerSection) -> TlsSection | Literal["none"] | None:
    """The listener's own block over the file's, key by key. None: neither says anything."""
    own, common = listener.tls, file.tls
    if isinstance(own, TlsSection) and isinstance(common, TlsSection):
        return common.model_copy(update={key: getattr(own, key) for key in own.model_fields_set})
    return own if own is not None else common


def resolve_tls(section: TlsSection) -> Tls:
    """*section* with nothing left open. It has passed `rules`."""
    if section.certificate is None or section.key is None or section.client_ca is None:
        raise TypeError("TLS with a file missing got past the checks")
    return Tls(
        certificate=Path(section.certificate),
        key=Path(section.key),
        client_ca=Path(section.client_ca),
        trust_domains=tuple((domain, Path(path)) for domain, path in sorted(section.trust_domains.items())),
        crl=Path(section.crl) if section.crl else None,
        speaks_1_2=section.min_version == "1.2",
        ends_with_certificate=section.close_on_certificate_expiry,
    )
