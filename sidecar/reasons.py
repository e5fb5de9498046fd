"""The closed sets of words that say what became of a connection.

Owns the words that users depend on: each is a log field, a metric label and wire text at once, so a member is never
renamed (tests/test_reasons.py holds the list). Knows nothing of how any of them is decided.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Final


@unique
class Advice(StrEnum):
    """What a refused dialler does next."""

    RETRY = "retry"  # the same address and claim, after a pause
    REFRESH = "refresh"  # read the claim again from the registry: it is out of date
    RE_RESOLVE = "re-resolve"  # find the slot's address again: this isn't it
    FIX = "fix"  # a person must change something
    STOP = "stop"  # this controller has been replaced


@unique
class Reason(StrEnum):
    """Why a connection was refused, in the order in which they are looked for."""

    SOURCE_NOT_ALLOWED = "source_not_allowed"
    OVER_CAPACITY = "over_capacity"
    TLS_FAILED = "tls_failed"
    PREFACE_TIMEOUT = "preface_timeout"
    PREFACE_MISSING = "preface_missing"
    PREFACE_MALFORMED = "preface_malformed"
    PEER_NOT_ALLOWED = "peer_not_allowed"
    DRAINING = "draining"
    CONTROLLER_MALFORMED = "controller_malformed"
    IDENTITY_MISSING = "identity_missing"
    IDENTITY_MALFORMED = "identity_malformed"
    INCARNATION_MISSING = "incarnation_missing"
    INCARNATION_MALFORMED = "incarnation_malformed"
    IDENTITY_CONFLICT = "identity_conflict"
    IDENTITY_MISMATCH = "identity_mismatch"
    LEASE_PENDING = "lease_pending"
    FENCED = "fenced"
    FLOOR_UNAVAILABLE = "floor_unavailable"
    AUTHORITY_UNAVAILABLE = "authority_unavailable"
    AUTHORITY_REGRESSED = "authority_regressed"
    NOT_ASSIGNED = "not_assigned"
    CONTROLLER_STALE = "controller_stale"
    CONTROLLER_AHEAD = "controller_ahead"
    GENERATION_STALE = "generation_stale"
    GENERATION_AHEAD = "generation_ahead"
    INSTANCE_MISMATCH = "instance_mismatch"
    EXCLUSIVE_CONFLICT = "exclusive_conflict"
    UPSTREAM_UNAVAILABLE = "upstream_unavailable"
    INTERNAL_ERROR = "internal_error"


ADVICE: Final = {
    Reason.SOURCE_NOT_ALLOWED: Advice.FIX,
    Reason.OVER_CAPACITY: Advice.RETRY,
    Reason.TLS_FAILED: Advice.FIX,
    Reason.PREFACE_TIMEOUT: Advice.FIX,
    Reason.PREFACE_MISSING: Advice.FIX,
    Reason.PREFACE_MALFORMED: Advice.FIX,
    Reason.PEER_NOT_ALLOWED: Advice.FIX,
    Reason.DRAINING: Advice.RETRY,
    Reason.CONTROLLER_MALFORMED: Advice.FIX,
    Reason.IDENTITY_MISSING: Advice.FIX,
    Reason.IDENTITY_MALFORMED: Advice.FIX,
    Reason.INCARNATION_MISSING: Advice.FIX,
    Reason.INCARNATION_MALFORMED: Advice.FIX,
    Reason.IDENTITY_CONFLICT: Advice.FIX,
    Reason.IDENTITY_MISMATCH: Advice.RE_RESOLVE,
    Reason.LEASE_PENDING: Advice.RETRY,
    Reason.FENCED: Advice.RE_RESOLVE,
    Reason.FLOOR_UNAVAILABLE: Advice.RETRY,
    Reason.AUTHORITY_UNAVAILABLE: Advice.RETRY,
    Reason.AUTHORITY_REGRESSED: Advice.RETRY,
    Reason.NOT_ASSIGNED: Advice.RE_RESOLVE,
    Reason.CONTROLLER_STALE: Advice.STOP,
    Reason.CONTROLLER_AHEAD: Advice.FIX,
    Reason.GENERATION_STALE: Advice.REFRESH,
    Reason.GENERATION_AHEAD: Advice.RE_RESOLVE,
    Reason.INSTANCE_MISMATCH: Advice.RE_RESOLVE,
    Reason.EXCLUSIVE_CONFLICT: Advice.RETRY,
    Reason.UPSTREAM_UNAVAILABLE: Advice.RETRY,
    Reason.INTERNAL_ERROR: Advice.RETRY,
}


@unique
class TlsFailure(StrEnum):
    """Why a TLS handshake failed: the detail of ``tls_failed`` and the label of the failures' counter."""

    CERT_EXPIRED = "cert_expired"
    CERT_NOT_YET_VALID = "cert_not_yet_valid"
    CERT_REVOKED = "cert_revoked"
    UNKNOWN_CA = "unknown_ca"
    NO_CERT = "no_cert"
    BAD_CERTIFICATE = "bad_certificate"
    CRL_UNUSABLE = "crl_unusable"
    PROTOCOL = "protocol"
    EOF = "eof"
    TIMEOUT = "timeout"  # nobody but the owner of the time limit can tell


@unique
class End(StrEnum):
    """Why an admitted connection ended."""

    CLIENT_CLOSED = "client_closed"
    UPSTREAM_CLOSED = "upstream_closed"
    CLIENT_RESET = "client_reset"
    UPSTREAM_RESET = "upstream_reset"
    IDLE = "idle"
    HALF_CLOSE = "half_close"
    LIFETIME = "lifetime"
    DRAIN_TIMEOUT = "drain_timeout"
    SUPERSEDED = "superseded"
    AUTHORITY_STALE = "authority_stale"
    CERTIFICATE_EXPIRED = "certificate_expired"
    CERTIFICATE_REVOKED = "certificate_revoked"
    ABORTED = "aborted"
    INTERNAL_ERROR = "internal_error"
    FENCED = "fenced"
    NOT_ASSIGNED = "not_assigned"
    GENERATION_STALE = "generation_stale"
    INSTANCE_MISMATCH = "instance_mismatch"
    CONTROLLER_STALE = "controller_stale"
    CONTROLLER_AHEAD = "controller_ahead"


@unique
class Probe(StrEnum):
    """A connection that asked for nothing: counted apart, never a refusal."""

    LOCAL = "local_probe"
    CLOSED_BEFORE_PREFACE = "closed_before_preface"


@dataclass(frozen=True, slots=True)
class Refused:
    """A verdict: no, and why.

    ``detail`` is for people and logs: a fixed word where the design names one, else a short sentence in printable
    ASCII. ``advice_override`` is set in the few cases in which the reason alone doesn't settle what to do next.
    """

    reason: Reason
    detail: str = ""
    advice_override: Advice | None = None

    @property
    def advice(self) -> Advice:
        """What the dialler does next."""
        return self.advice_override or ADVICE[self.reason]
