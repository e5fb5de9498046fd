"""``sidecar demo``: watch sidecars admit and refuse, without root and without a configuration.

Owns the command's arguments and where it writes; the demo is a package of its own, loaded when it runs.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Final

_INTERRUPTED: Final = 130  # what shells give for SIGINT


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to *subparsers*."""
    parser = subparsers.add_parser(
        "demo",
        help="watch three sidecars admit and refuse",
        description="Start three replicas with real sidecars on loopback, let happen to them what happens to pods, and "
        "show what a controller is told. Needs neither root nor a configuration, and leaves nothing behind.",
        epilog="exit codes: 0 all came out as told; 1 something didn't, and its logs are kept",
    )
    parser.add_argument(
        "--serve", action="store_true", help="keep everything running after the story, with commands to paste"
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Tell the story. The exit code."""
    code = _INTERRUPTED
    try:
        import trio

        from sidecar.demo.screen import Screen
        from sidecar.demo.stage import Stage

        stage = Stage(Screen.on(sys.stdout, os.environ), sys.stderr, serve=options.serve)
        code = trio.run(stage.perform)
    except* KeyboardInterrupt:
        pass  # before the stage was set: there is nothing to clear
    return code
