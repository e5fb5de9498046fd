"""The demo's certificates: a CA that lives as long as the demo, and what it issues.

Owns where they lie. All sidecars have one, as the pods of a StatefulSet often do: it proves whose set it is, and the
answer which life of which slot. Each controller has its own. Called by the fleet and the story.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from sidecar.certs.authority import Authority
from sidecar.certs.store import CA, CERTIFICATE, KEY, keep_pair
from sidecar.tls.client import ClientTls

TRUST_DOMAIN: Final = "demo.example"
ALLOW: Final = f"spiffe://{TRUST_DOMAIN}/demo/controller/*"

_SIDECARS: Final = f"spiffe://{TRUST_DOMAIN}/demo/replica-a"
_DAYS: Final = 1


class Certificates:
    """A CA, and the folders with what it has issued, each as Kubernetes mounts a secret."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._authority = Authority.create(TRUST_DOMAIN, now=datetime.now(UTC), days=_DAYS + 1)

    def of_sidecars(self) -> Path:
        """The folder of the one that all sidecars serve."""
        return self._issued("server", "sidecars", _SIDECARS)

    def of_controller(self, name: str) -> Path:
        """The folder of a controller's."""
        return self._issued("controller", f"controller-{name}", ALLOW.replace("*", name))

    def tls(self, name: str) -> ClientTls:
        """How the controller *name* dials."""
        folder = self.of_controller(name)
        return ClientTls.load(certificate=folder / CERTIFICATE, key=folder / KEY, ca=folder / CA)

    def _issued(self, kind: str, folder: str, name: str) -> Path:
        path = self._directory / folder
        if not path.exists():
            pair = self._authority.issue(kind, name, now=datetime.now(UTC), days=_DAYS)
            keep_pair(path, pair, self._authority, replace=False)
        return path
