"""A CA for one measurement, and the certificates of both sides.

ECDSA P-256, as the development CA makes them. Called by ``targets``; the proxies' configurations name the files.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sidecar.certs.authority import Authority

ALLOW = "spiffe://bench.example/bench/controller/*"

_DAYS = 1
_SIDES = {"server": "spiffe://bench.example/bench/replica/0", "client": ALLOW.replace("*", "load")}


@dataclass(frozen=True, slots=True)
class Certificates:
    """Where the files are."""

    folder: Path

    @property
    def ca(self) -> Path:
        """Whom both sides trust."""
        return self.folder / "ca.crt"

    def certificate(self, side: str) -> Path:
        """That of ``server`` or ``client``."""
        return self.folder / f"{side}.crt"

    def key(self, side: str) -> Path:
        """Its key."""
        return self.folder / f"{side}.key"

    @property
    def pair(self) -> Path:
        """The server's certificate and key in one file."""
        return self.folder / "server.pem"

    @property
    def load(self) -> tuple[str, ...]:
        """The load generator's arguments."""
        return ("-T", "-C", str(self.ca), "-E", str(self.certificate("client")), "-K", str(self.key("client")))


def made(folder: Path) -> Certificates:
    """New ones in *folder*. The proxies may run as other users, so everybody can read the keys: they guard nothing."""
    now = datetime.now(UTC)
    authority = Authority.create("bench.example", now=now, days=_DAYS + 1)
    files = Certificates(folder)
    files.ca.write_bytes(authority.pair().certificate)
    for side, name in _SIDES.items():
        pair = authority.issue(side, name, now=now, days=_DAYS)
        files.certificate(side).write_bytes(pair.certificate)
        files.key(side).write_bytes(pair.key)
        if side == "server":
            files.pair.write_bytes(pair.certificate + pair.key)
    return files
