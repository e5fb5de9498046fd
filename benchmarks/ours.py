"""The sidecar as it is measured: everything that it checks, counts and bounds is switched on.

Each role has a listener with every deadline set; the claim has identity, generation and instance; floors are kept on
disk; both HTTP servers are up.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks.certificates import ALLOW, Certificates
from benchmarks.programs import GENERATION, IDENTITY, INSTANCE, Proxy, Wiring, first_line


def config(wiring: Wiring) -> str:
    """Assigned by values, which the authority gives without waiting."""
    cluster, replica, ordinal = IDENTITY.split("/")
    telemetry, admin = wiring.spare_ports
    state_dir = wiring.folder / "state"
    roles = zip(wiring.listen._fields, wiring.listen, wiring.upstream, strict=True)
    tls = "none" if wiring.certificates is None else _tls(wiring.certificates)
    return json.dumps(  # which is YAML too
        {
            "identity": {"cluster": cluster, "replica": replica, "ordinal": int(ordinal)},
            "assignment": {"instance": INSTANCE, "generation": int(GENERATION), "max_staleness": "1m"},
            "state_dir": str(state_dir),
            "listeners": [
                {"name": role, "listen": listen, "upstream": upstream, "tls": tls, "sources": ["127.0.0.0/8"]}
                for role, listen, upstream in roles
            ],
            "limits": {"connections": 11_000},
            "timeouts": {"idle": "1h", "lifetime": "12h"},
            "telemetry": {"listen": f"127.0.0.1:{telemetry}"},
            "admin": {"listen": f"127.0.0.1:{admin}"},
            "log": {"format": "json"},
        },
        indent=2,
    )


def _tls(files: Certificates) -> dict[str, object]:
    paths = {"certificate": files.certificate("server"), "key": files.key("server"), "client_ca": files.ca}
    return {**{key: str(path) for key, path in paths.items()}, "allow": [ALLOW]}


def arguments(file: Path) -> list[str]:
    """By this Python."""
    return [sys.executable, "-m", "sidecar", "run", str(file)]


def version() -> str:
    """Its number, and that of the Python that runs it."""
    number = first_line(sys.executable, "-m", "sidecar", "--version").split()[-1]
    return f"{number}, with Python {sys.version.split()[0]}"


def sidecar(checkout: Path | None = None) -> Proxy:
    """The one that is installed, or that of another *checkout*."""
    environment = {} if checkout is None else {"PYTHONPATH": str(checkout.resolve())}
    return Proxy(config, arguments, version, environment=environment)
