"""Which of what the files hold is served.

Theory of operation. Own credentials, roots and CRLs are judged each for itself: a pair that doesn't fit is no reason to
go on admitting the revoked. Of each part the last good one is kept. Own credentials have their time besides: a peer
refuses those that start in the future, so they wait while the old ones are served, and expired ones never take the
place of any that are valid for longer.

Owns this decision. Pure: the time is the caller's, in seconds since 1970. Called by ``rotation``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sidecar.tls.material import Credentials, Crls, Material, Roots


@dataclass(frozen=True, slots=True)
class Found:
    """What the files hold at the moment.

    Attributes:
        own: this side's credentials; None where they can't be used.
        roots: the roots of peers; None likewise.
        crls: the lists of revoked certificates; None likewise, and empty where none are configured.
        problems: why there is a None, each with file and place.
    """

    own: Credentials | None
    roots: Roots | None
    crls: Crls | None
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Choice:
    """What is served.

    Attributes:
        own: this side's credentials; None before there were any that could be served.
        waiting: newer ones that start in the future.
        roots: the roots of peers; None before the first good ones.
        crls: the lists of revoked certificates; None likewise.
    """

    own: Credentials | None = None
    waiting: Credentials | None = None
    roots: Roots | None = None
    crls: Crls | None = None

    @property
    def material(self) -> Material | None:
        """All that a context is made of; None while any part is missing."""
        if self.own is None or self.roots is None or self.crls is None:
            return None
        return Material(self.own, self.roots, self.crls)

    @property
    def complete(self) -> bool:
        """Whether nothing is missing, but that the own credentials may have to wait for their start."""
        return (self.own or self.waiting) is not None and self.roots is not None and self.crls is not None

    def after(self, found: Found, now: float) -> tuple[Choice, tuple[str, ...]]:
        """The choice once *found* was read, and what is wrong with what was found."""
        chosen = replace(self, roots=found.roots or self.roots, crls=self.crls if found.crls is None else found.crls)
        if found.own is None:
            return chosen, found.problems
        if found.own.not_before > now:
            return replace(chosen, waiting=found.own), found.problems
        if self.own is not None and found.own.not_after <= now and found.own.not_after < self.own.not_after:
            expired = f"the certificate expired at {_time(found.own.not_after)}: the one before it is kept"
            return chosen, (*found.problems, expired)
        return replace(chosen, own=found.own, waiting=None), found.problems

    def at(self, now: float) -> Choice:
        """The choice at this moment: credentials that waited are taken when they start."""
        if self.waiting is None or self.waiting.not_before > now:
            return self
        return replace(self, own=self.waiting, waiting=None)


def _time(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
