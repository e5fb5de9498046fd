"""The root of the command line.

Owns which commands there are and what becomes of an error that one of them raises: a message that says what to do, and
an exit code (0 clean, 2 bad configuration or usage, 1 anything else). Each command is a module with ``add_parser`` and
loads what it needs when it runs.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Final

from sidecar.cli import check, connect, demo, drain, floor, reload, run, schema, shutdown, status, wait
from sidecar.errors import SidecarError

BAD_CONFIGURATION: Final = 2
COMMANDS: Final = (run, check, schema, connect, status, wait, drain, reload, shutdown, floor, demo)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that *arguments* (default: the process's) name. The exit code."""
    parser = argparse.ArgumentParser(
        prog="sidecar",
        description="Checks, before the first byte, which replica and which life of it a connection means.",
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {metadata.version('identity-sidecar')}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        command.add_parser(subparsers)
    if sys.stdout is None:  # it was closed
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115  for the life of the process
    options = parser.parse_args(arguments)
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # who reads has gone: nothing to say, and nobody to say it to
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the interpreter's last flush fails too
        return 1
    except SidecarError as error:
        # Problems of a configuration begin with file, line and column, which editors find where nothing is before them.
        text = str(error) if error.exit_code == BAD_CONFIGURATION else f"sidecar: {error}"
        print(text, file=sys.stderr)  # noqa: T201  a command's own output
        return error.exit_code
    return code
