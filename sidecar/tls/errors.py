"""What becomes of OpenSSL's errors: one of the package's own, in words that a person can act on.

Owns the words. Which cause of ``tls_failed`` an error amounts to is not its business. Called by the modules beside it,
and by a dialler, who tells an alert from a connection that broke. Loads no OpenSSL by itself: a dialler may have none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sidecar.errors import SidecarError

if TYPE_CHECKING:
    from OpenSSL import SSL

_ALERT: Final = " alert "  # in OpenSSL's reasons: "tlsv1 alert unknown ca", "ssl/tls alert bad certificate"

ENDED: Final = "the peer closed the connection without close_notify: what came before may not be all"


class TlsError(SidecarError):
    """TLS with a peer failed. ``__cause__`` is OpenSSL's own error, with its numbers where it has any.

    Attributes:
        alert: The one that the peer ended it with, in OpenSSL's words: ``unknown ca``; None: this side found the fault.
    """

    def __init__(self, message: str, alert: str | None = None) -> None:
        super().__init__(message)
        self.alert = alert

    @classmethod
    def of(cls, error: SSL.Error, *, ended: str = ENDED) -> TlsError:
        """The error that OpenSSL's *error* amounts to; *ended*: what to say where the peer just went away.

        An alert is the other side's word, and said to be: it is there that somebody has to look.
        """
        failure = cls(*_words(error, ended))
        failure.__cause__ = error
        return failure


def _words(error: SSL.Error, ended: str) -> tuple[str, str | None]:
    """The message, and the alert where there is one."""
    from OpenSSL import SSL

    if isinstance(error, SSL.SysCallError | SSL.ZeroReturnError):
        return ended, None
    queue = error.args[0] if error.args else []
    reasons = [reason for _library, _function, reason in queue if reason]
    alert = next((reason for reason in reasons if _ALERT in reason), None)
    if alert is not None:
        return f"the peer refused: {alert}", alert.partition(_ALERT)[2]
    return "; ".join(dict.fromkeys(reasons)) or "OpenSSL gives no reason", None
