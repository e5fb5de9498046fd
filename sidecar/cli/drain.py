"""``sidecar drain``: a running sidecar refuses new claims from now on and ends nothing."""

from __future__ import annotations

import argparse
import sys

from sidecar.cli.admin_option import add_admin_option


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to *subparsers*."""
    parser = subparsers.add_parser(
        "drain",
        help="refuse new claims from now on, and end nothing",
        description="Refuse new claims and turn readiness off from now on; connections that are admitted go on. "
        "In Kubernetes this is the sidecar's preStop hook.",
    )
    add_admin_option(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Ask for it. Raises NoAdminError."""
    from sidecar.cli.admin_client import Admin

    sys.stdout.write(f"{Admin.parse(options.admin).do('POST', '/drain')}\n")
    return 0
