"""``sidecar shutdown``: a running sidecar begins its orderly end."""

from __future__ import annotations

import argparse
import sys

from sidecar.cli.admin_option import add_admin_option


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to *subparsers*."""
    parser = subparsers.add_parser(
        "shutdown",
        help="begin the orderly end of a sidecar",
        description="Begin the orderly end of a sidecar, as SIGTERM does. This returns at once; the sidecar exits once "
        "its connections have ended or drain.timeout is over.",
    )
    add_admin_option(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Ask for it. Raises NoAdminError."""
    from sidecar.cli.admin_client import Admin

    sys.stdout.write(f"{Admin.parse(options.admin).do('POST', '/shutdown')}\n")
    return 0
