"""The option that says where a running sidecar's admin server is, alike in every command that asks it."""

from __future__ import annotations

import argparse
from typing import Final

from sidecar.dialler import parse_target
from sidecar.errors import MalformedValue

ADMIN: Final = "127.0.0.1:9901"  # admin.listen's default


def add_admin_option(parser: argparse.ArgumentParser) -> None:
    """Add ``--admin`` to *parser*."""
    parser.add_argument(
        "--admin",
        type=_address,
        default=ADMIN,
        metavar="ADDRESS",
        help="the sidecar's admin.listen: host:port or unix:/path (default: %(default)s)",
    )


def _address(text: str) -> str:
    try:
        parse_target(text)
    except MalformedValue as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return text
