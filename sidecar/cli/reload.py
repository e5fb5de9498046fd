"""``sidecar reload``: a running sidecar reads its configuration again."""

from __future__ import annotations

import argparse
import sys
from http import HTTPStatus
from typing import Final

from sidecar.cli.admin_option import add_admin_option
from sidecar.preface.printable import printable

_LINE: Final = 1000  # characters of a problem


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to *subparsers*."""
    parser = subparsers.add_parser(
        "reload",
        help="have a sidecar read its configuration again",
        description="Have a running sidecar validate its whole configuration file again and put it into effect, as "
        "SIGHUP does. Where that takes a new process nothing is changed, and this says what does.",
    )
    add_admin_option(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Ask for it, and say everything that is wrong where it is refused. Raises NoAdminError."""
    from sidecar.cli.admin_client import Admin

    admin = Admin.parse(options.admin)
    reply = admin.ask("POST", "/reload")
    if reply.status == HTTPStatus.UNPROCESSABLE_ENTITY:  # an admin server's own words: a line for each problem
        sys.stderr.writelines(f"{printable(line.encode(), _LINE)}\n" for line in reply.text.splitlines())
        return 1
    sys.stdout.write(f"{admin.granted(reply, 'POST', '/reload')}\n")
    return 0
