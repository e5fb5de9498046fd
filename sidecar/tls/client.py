"""The dialler's TLS: what it shows, whom it trusts, and what it looks for in the certificate of who answers.

Owns the order of a dialler's checks and what their failures are called. OpenSSL verifies the sidecar's chain; the name
in it is looked at as soon as the handshake is done, before anything is said inside; the preface and its answer, which
prove the life, are the client's. Whether the sidecar took this side's certificate isn't known yet, then: in TLS 1.3
its alert comes with the first bytes received. Made once by a controller, for many dials, and by ``sidecar connect``.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final, Self

import trio
from OpenSSL import SSL

from sidecar.dialler import DialError, NoAnswerError, TlsRefusedError, UnprovenPeerError, WrongPeerError
from sidecar.errors import MalformedValue
from sidecar.preface.claim import Claim
from sidecar.server_names import ServerRule
from sidecar.tls.contexts import (
    ContextRefused,
    TlsVersion,
    check_credentials,
    check_crls,
    check_roots,
    client_context,
)
from sidecar.tls.errors import TlsError
from sidecar.tls.files import TlsFiles, load
from sidecar.tls.material import Material, TlsFilesError
from sidecar.tls.peer_certificate import PeerCertificates, UnreadableCertificate
from sidecar.tls.stream import TlsStream
from sidecar.tls.verification import chain_fault

_DEFAULT_RULE: Final = ServerRule()


@dataclass(frozen=True, slots=True)
class ClientTls:
    """How a controller speaks TLS, for as many dials as it likes.

    Certificates are renewed: ``load`` again when the files have changed, for the dials that follow. What is open stays.

    Attributes:
        material: What this side shows, the roots of sidecars, and the lists of revoked certificates.
        rule: What to look for in the sidecar's certificate.
        min_version: The lowest protocol version that is spoken.

    Raises ContextRefused where OpenSSL doesn't take *material*.
    """

    material: Material
    rule: ServerRule = _DEFAULT_RULE
    min_version: TlsVersion = TlsVersion.TLS_1_3
    _context: SSL.Context = field(init=False, repr=False, compare=False)
    _certificates: PeerCertificates = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_context", client_context(self.material, self.min_version))
        object.__setattr__(self, "_certificates", PeerCertificates(self.material.roots))

    @classmethod
    def load(
        cls,
        *,
        certificate: str | os.PathLike[str],
        key: str | os.PathLike[str],
        ca: str | os.PathLike[str],
        crl: str | os.PathLike[str] | None = None,
        rule: ServerRule = _DEFAULT_RULE,
        min_version: TlsVersion = TlsVersion.TLS_1_3,
    ) -> Self:
        """What stands in these PEM files now. It blocks, for some milliseconds.

        Args:
            certificate: This side's, followed by those between it and a root.
            key: Its private key.
            ca: The roots that the sidecars' certificates are verified against.
            crl: The revoked ones, a list of each CA; None: nothing is looked up.
            rule: What to look for in the sidecar's certificate.
            min_version: The lowest protocol version that is spoken.

        Raises:
            TlsFilesError: One of them can't be used; it says which, where and why.
        """
        files = TlsFiles(Path(certificate), Path(key), Path(ca), crl=None if crl is None else Path(crl))
        material = load(files)
        for path, check in (
            (files.certificate, partial(check_credentials, material.own)),
            (files.client_ca, partial(check_roots, material.roots)),
            (files.crl, partial(check_crls, material.crls)),
        ):
            try:
                check()
            except ContextRefused as error:
                raise TlsFilesError(path or files.certificate, str(error)) from error
        return cls(material, rule, min_version)

    def check(self, claim: Claim) -> None:
        """Raise MalformedValue where *claim* lacks what the rule compares: no certificate could ever pass."""
        if why := self.rule.lacking(claim):
            raise MalformedValue(why)

    async def wrap(self, transport: trio.abc.Stream, claim: Claim) -> TlsStream:
        """Shake hands on *transport* and look at who answers: a stream to state *claim* on.

        The caller sets the deadline, and closes *transport* when this raises.

        Raises:
            DialError: There is no TLS with whoever answers, or it isn't who is meant. Nothing was said inside.
        """
        stream = TlsStream(transport, SSL.Connection(self._context))
        try:
            await stream.do_handshake()
            presented = self._certificates.of(stream.connection)
        except TlsError as error:
            raise _failed(stream.connection, error) from error
        except trio.BrokenResourceError as error:
            raise NoAnswerError("the connection broke in the TLS handshake") from error
        except UnreadableCertificate as error:
            raise UnprovenPeerError(str(error)) from error
        if difference := self.rule.difference(presented, claim):
            raise WrongPeerError(difference)
        return stream


def _failed(connection: SSL.Connection, error: TlsError) -> DialError:
    """What a handshake that failed amounts to: who refused whom, and why."""
    if fault := chain_fault(connection):
        now = time.time()  # noqa: TID251  OpenSSL has decided; this is to be read beside a certificate's dates
        return UnprovenPeerError(f"its certificate doesn't pass, {fault.cause}: {fault.describe(now)}")
    if error.alert is None:
        if isinstance(error.__cause__, SSL.SysCallError | SSL.ZeroReturnError):
            return NoAnswerError("the connection was closed in the TLS handshake, without an alert that says why")
        return UnprovenPeerError(f"there is no TLS with it: {error}")
    if connection.get_verified_chain():  # TLS 1.2: it has shown a good certificate, and looks at this side's
        return TlsRefusedError(error.alert)
    return UnprovenPeerError(f"it ended TLS with the alert {error.alert!r}, before it had shown a certificate")
