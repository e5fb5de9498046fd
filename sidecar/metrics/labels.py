"""The closed sets that metrics are labelled with, beside those in ``reasons``.

Owns the words; each is a label value that dashboards and alerts depend on, so a member is never renamed. Called by
whoever counts.
"""

from __future__ import annotations

import errno
from enum import StrEnum, unique
from typing import Final


@unique
class Basis(StrEnum):
    """What an admission rests on."""

    AUTHORITY = "authority"
    LAST_KNOWN = "last_known"
    SHADOW = "shadow"


@unique
class Stage(StrEnum):
    """A part of the handshake whose length is the peer's doing."""

    TLS = "tls"
    PREFACE = "preface"


@unique
class Outcome(StrEnum):
    """Which way a decision went."""

    ADMITTED = "admitted"
    REFUSED = "refused"


@unique
class ReadResult(StrEnum):
    """What a read of the authority brought. A read that was given up for its time is ``unavailable``."""

    ASSIGNED = "assigned"
    UNASSIGNED = "unassigned"
    UNAVAILABLE = "unavailable"
    REGRESSED = "regressed"


@unique
class State(StrEnum):
    """What the sidecar as a whole is doing; one at a time."""

    PENDING = "pending"  # no assignment read yet
    NOT_ASSIGNED = "not_assigned"  # the slot has none, or it belongs to another instance
    REGRESSED = "regressed"  # the authority is behind what was seen
    FLOOR_UNAVAILABLE = "floor_unavailable"  # the floor can't be read or written
    CERTIFICATE_UNUSABLE = "certificate_unusable"  # none of this side's own is in date
    UPSTREAM_MISSING = "upstream_missing"  # nobody listens where the local process should, and readiness waits for it
    READY = "ready"
    DRAINING = "draining"  # refuses new claims, ends nothing
    STOPPING = "stopping"  # on its way out


@unique
class CertificateKind(StrEnum):
    """Whose expiry it is."""

    SERVED = "served"
    CA = "ca"


@unique
class TlsReload(StrEnum):
    """What became of certificates, roots or CRLs that have changed."""

    OK = "ok"
    FAILED = "failed"  # what was served before still is


@unique
class AcceptError(StrEnum):
    """Why the kernel gave no connection."""

    EMFILE = "emfile"
    ENFILE = "enfile"
    ENOMEM = "enomem"
    ENOBUFS = "enobufs"
    OTHER = "other"

    @classmethod
    def of(cls, error: OSError) -> AcceptError:
        """The kind of *error*."""
        return _ACCEPT_ERRORS.get(error.errno or 0, cls.OTHER)


_ACCEPT_ERRORS: Final = {
    errno.EMFILE: AcceptError.EMFILE,
    errno.ENFILE: AcceptError.ENFILE,
    errno.ENOMEM: AcceptError.ENOMEM,
    errno.ENOBUFS: AcceptError.ENOBUFS,
}
