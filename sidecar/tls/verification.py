"""Why a handshake failed, as one of a closed set of causes.

Theory of operation. OpenSSL's error after a refused certificate says no more than "certificate verify failed"; the
number and depth that tell an expired certificate from a revoked one are known to the verify callback alone. So that
callback puts them beside the connection, as its app data, and leaves the verdict to OpenSSL: it never overrules, and
raises nothing. Only where no such fault was recorded do OpenSSL's error reasons count. pyOpenSSL hands those on as
text; the few that matter are compared whole, and the tests provoke each.

Owns the callback, the app data of every connection made with ``contexts``, and the mapping. Called after a failure, by
whoever drives the handshake.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from cryptography import x509
from OpenSSL import SSL, crypto

from sidecar.reasons import TlsFailure
from sidecar.tls.material import UNREADABLE

# X509_V_ERR_* of openssl/x509_vfy.h. Every other number is the certificate's fault.
_CAUSES: Final = {
    2: TlsFailure.UNKNOWN_CA,  # UNABLE_TO_GET_ISSUER_CERT
    3: TlsFailure.CRL_UNUSABLE,  # UNABLE_TO_GET_CRL
    5: TlsFailure.CRL_UNUSABLE,  # UNABLE_TO_DECRYPT_CRL_SIGNATURE
    8: TlsFailure.CRL_UNUSABLE,  # CRL_SIGNATURE_FAILURE
    9: TlsFailure.CERT_NOT_YET_VALID,
    10: TlsFailure.CERT_EXPIRED,  # CERT_HAS_EXPIRED
    11: TlsFailure.CRL_UNUSABLE,  # CRL_NOT_YET_VALID
    12: TlsFailure.CRL_UNUSABLE,  # CRL_HAS_EXPIRED
    15: TlsFailure.CRL_UNUSABLE,  # ERROR_IN_CRL_LAST_UPDATE_FIELD
    16: TlsFailure.CRL_UNUSABLE,  # ERROR_IN_CRL_NEXT_UPDATE_FIELD
    18: TlsFailure.UNKNOWN_CA,  # DEPTH_ZERO_SELF_SIGNED_CERT
    19: TlsFailure.UNKNOWN_CA,  # SELF_SIGNED_CERT_IN_CHAIN
    20: TlsFailure.UNKNOWN_CA,  # UNABLE_TO_GET_ISSUER_CERT_LOCALLY
    21: TlsFailure.UNKNOWN_CA,  # UNABLE_TO_VERIFY_LEAF_SIGNATURE
    23: TlsFailure.CERT_REVOKED,
    27: TlsFailure.UNKNOWN_CA,  # CERT_UNTRUSTED
    33: TlsFailure.CRL_UNUSABLE,  # UNABLE_TO_GET_CRL_ISSUER
    35: TlsFailure.CRL_UNUSABLE,  # KEYUSAGE_NO_CRL_SIGN
    36: TlsFailure.CRL_UNUSABLE,  # UNHANDLED_CRITICAL_CRL_EXTENSION
    44: TlsFailure.CRL_UNUSABLE,  # DIFFERENT_CRL_SCOPE
    54: TlsFailure.CRL_UNUSABLE,  # CRL_PATH_VALIDATION_ERROR
}

_LONGEST_NAME: Final = 256  # characters in the log: anybody may present a certificate of his own making
_NO_CERTIFICATE: Final = "peer did not return a certificate"
_ENDED: Final = "unexpected eof while reading"


@dataclass(frozen=True, slots=True)
class ChainFault:
    """Why OpenSSL refused a peer's chain.

    Attributes:
        number: the error, one of X509_V_ERR_*.
        depth: which certificate: 0 is the peer's own, 1 its issuer's, ...
        certificate: that certificate; it may be such that nothing but OpenSSL parses it.
    """

    number: int
    depth: int
    certificate: crypto.X509

    @property
    def cause(self) -> TlsFailure:
        """What it amounts to."""
        return _CAUSES.get(self.number, TlsFailure.BAD_CERTIFICATE)

    def describe(self, now: float) -> str:
        """What is wrong with which certificate, for the log. *now*: seconds since 1970."""
        whose = "the peer's certificate" if self.depth == 0 else f"the CA's certificate {self.depth} above the peer's"
        try:
            certificate = self.certificate.to_cryptography()
            return f"{whose}, {_name(certificate.subject)}: {self._what(certificate, now)}"
        except UNREADABLE as error:
            return f"{whose}: OpenSSL's verify error {self.number}; and it can't be parsed: {error}"

    def _what(self, certificate: x509.Certificate, now: float) -> str:
        issuer = _name(certificate.issuer)
        match self.cause:
            case TlsFailure.CERT_NOT_YET_VALID:
                return f"valid from {_time(certificate.not_valid_before_utc)}, and it is {_moment(now)} here"
            case TlsFailure.CERT_EXPIRED:
                return f"valid until {_time(certificate.not_valid_after_utc)}, and it is {_moment(now)} here"
            case TlsFailure.CERT_REVOKED:
                return f"revoked by {issuer}, serial number {certificate.serial_number:x}"
            case TlsFailure.UNKNOWN_CA:
                return f"its issuer {issuer} is neither among the roots nor among the certificates that were sent"
            case TlsFailure.CRL_UNUSABLE:
                return f"there is no usable CRL of {issuer} (verify error {self.number})"
            case _:
                return f"OpenSSL's verify error {self.number}"


def record_fault(connection: SSL.Connection, certificate: crypto.X509, number: int, depth: int, ok: int) -> bool:
    """OpenSSL's verify callback: keep the fault, if it is one, and agree with OpenSSL."""
    if not ok:
        connection.set_app_data(ChainFault(number, depth, certificate))
    return bool(ok)


def chain_fault(connection: SSL.Connection) -> ChainFault | None:
    """Why the peer's chain was refused; None where it wasn't."""
    fault = connection.get_app_data()
    return fault if isinstance(fault, ChainFault) else None


def cause_of(connection: SSL.Connection, error: SSL.Error) -> TlsFailure:
    """What *error*, raised by the handshake of *connection*, amounts to."""
    if fault := chain_fault(connection):
        return fault.cause
    if isinstance(error, SSL.ZeroReturnError | SSL.SysCallError):  # close_notify, end or reset in mid-handshake
        return TlsFailure.EOF
    reasons = {reason for _library, _function, reason in (error.args[0] if error.args else ())}
    if _NO_CERTIFICATE in reasons:
        return TlsFailure.NO_CERT
    if _ENDED in reasons:
        return TlsFailure.EOF
    return TlsFailure.PROTOCOL


def describe(connection: SSL.Connection, error: SSL.Error, now: float) -> str:
    """What went wrong, for the log. *now*: seconds since 1970."""
    if fault := chain_fault(connection):
        return fault.describe(now)
    if isinstance(error, SSL.ZeroReturnError | SSL.SysCallError):
        return "the peer ended the connection in mid-handshake"
    reasons = [reason for _library, _function, reason in (error.args[0] if error.args else ()) if reason]
    if alert := next((reason for reason in reasons if " alert " in reason), None):
        return f"the peer refused this side: {alert}"
    return "; ".join(dict.fromkeys(reasons)) or "OpenSSL gives no reason"


def _name(name: x509.Name) -> str:
    text = name.rfc4514_string()
    return repr(text if len(text) <= _LONGEST_NAME else text[:_LONGEST_NAME] + "...")


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def _moment(seconds: float) -> str:
    return _time(datetime.fromtimestamp(seconds, UTC))
