"""``sidecar wait``: return once a sidecar is ready.

Owns the waiting, and when it is in vain: a sidecar that drains or stops never becomes ready again. What readiness is,
the sidecar says.
"""

from __future__ import annotations

import argparse
import math
import time
from http import HTTPStatus
from typing import Final

from sidecar.cli.admin_option import add_admin_option
from sidecar.errors import SidecarError
from sidecar.preface.printable import printable

_PAUSE_SECONDS: Final = 0.2
_SHOWN: Final = 400  # characters of a reply, which may be a stranger's
_FOR_GOOD: Final = frozenset({"draining", "stopping"})  # lines of /readyz from which there is no way back


class NotReadyError(SidecarError):
    """The time is over, or it never will be."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to *subparsers*."""
    parser = subparsers.add_parser(
        "wait",
        help="wait until a sidecar is ready",
        description="Return once the sidecar is ready, whether it is already running or not.",
        epilog="exit codes: 0 ready; 1 not ready in time, or draining or stopping, which ends the waiting at once",
    )
    add_admin_option(parser)
    parser.add_argument(
        "--timeout", type=_seconds, metavar="SECONDS", default=math.inf, help="give up after that (default: never)"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Wait. Raises NotReadyError when the time is over, or the sidecar is on its way out."""
    from sidecar.cli.admin_client import Admin, NoAdminError

    admin = Admin.parse(options.admin)
    give_up_at = time.monotonic() + options.timeout
    while True:
        try:
            reply = admin.ask("GET", "/readyz")
        except NoAdminError as error:
            why = str(error)
        else:
            if reply.status == HTTPStatus.OK:
                return 0
            lacks = reply.text.splitlines()
            for state in _FOR_GOOD.intersection(lacks):
                raise NotReadyError(f"it is {state}, and won't be ready again until it is restarted")
            why = printable("; ".join(lacks).encode(), _SHOWN)
        left = give_up_at - time.monotonic()
        if left <= 0:
            raise NotReadyError(f"not ready after {options.timeout:g} seconds: {why}")
        time.sleep(min(left, _PAUSE_SECONDS))  # noqa: TID251  there is no loop in this process


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not seconds >= 0:
        raise argparse.ArgumentTypeError("must be a number of seconds, 0 or more")
    return seconds
