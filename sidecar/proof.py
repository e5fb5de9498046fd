"""What a TLS handshake proves of who dials, and for how long that counts.

A handshake that fails is ``tls_failed`` with its cause, and the peer has got OpenSSL's alert; names that aren't allowed
are no failure of TLS, so that the peer can still be told: they are found in the decision (``peer_not_allowed``).

Owns what a listener makes of a verified certificate. The handshake itself is ``tls``'s, its place in time is
``arrival``'s, and which names may connect ``peer_names``'s. Called by ``arrival``; asked again by ``gate`` whether a
certificate still counts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from sidecar.admission import Peer
from sidecar.peer_names import Rule, peer_of
from sidecar.presented import Presented
from sidecar.reasons import End, TlsFailure
from sidecar.tls.peer_certificate import UnreadableCertificate
from sidecar.tls.rotation import Served
from sidecar.tls.session import Session, ShakeFailed

_REMEMBERED: Final = 128  # certificates; a controller comes again and again with one


class Prover:
    """One listener's TLS.

    Args:
        served: what new connections are made with; None: nothing is in date.
        rule: which names may connect.
        wall_clock: seconds since 1970: what certificates go by.
        ends_with_certificate: whether a connection ends when its certificate does.
    """

    def __init__(
        self,
        served: Callable[[], Served | None],
        rule: Rule,
        wall_clock: Callable[[], float],
        *,
        ends_with_certificate: bool,
    ) -> None:
        self._served = served
        self._ends_with_certificate = ends_with_certificate
        self._peer_of: Callable[[Presented], Peer] = lru_cache(_REMEMBERED)(lambda presented: peer_of(presented, rule))
        self.wall_clock = wall_clock

    @property
    def served(self) -> Served | None:
        """What new connections are made with."""
        return self._served()

    def proved(self, session: Session, served: Served) -> tuple[Presented, Peer]:
        """What the peer of a finished handshake has shown, and what that proves. Raises ShakeFailed."""
        try:
            presented = served.peers.of(session.connection)
        except UnreadableCertificate as error:
            raise ShakeFailed(TlsFailure.BAD_CERTIFICATE, str(error)) from error
        return presented, self._peer_of(presented)

    def outdated(self, presented: Presented) -> End | None:
        """Why a connection with this certificate has to end; None: it counts."""
        served = self._served()
        if served is not None and served.material.crls.revoke(*presented.revocable):
            return End.CERTIFICATE_REVOKED
        if self._ends_with_certificate and presented.not_after <= self.wall_clock():
            return End.CERTIFICATE_EXPIRED
        return None
