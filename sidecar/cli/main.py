"""The root of the command line.

Owns which commands there are and what becomes of an error that one of them raises: a message that says what to do, and
an exit code (0 clean, 2 bad configuration or usage, 1 anything else). Each command is a module with ``add_parser`` and
loads what it needs when it runs.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Final

from sidecar.cli import certs, check, connect, demo, drain, floor, reload, run, schema, shutdown, status, wait
from sidecar.errors import SidecarError

BAD_CONFIGURATION: Final = 2
_NO_ROOM: Final = {errno.ENOSPC, errno.EDQUOT}
COMMANDS: Final = (run, check, schema, connect, status, wait, drain, reload, shutdown, floor, certs, demo)


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
    _open_standard_streams()
    options = parser.parse_args(arguments)
    try:
        code: int = options.run(options)
        sys.stdout.flush()
    except BrokenPipeError:  # who reads has gone: nothing to say, and nobody to say it to
        _give_up_output()
        return 1
    except SidecarError as error:
        # Problems of a configuration begin with file, line and column, which editors find where nothing is before them.
        text = str(error) if error.exit_code == BAD_CONFIGURATION else f"sidecar: {error}"
        print(text, file=sys.stderr)  # noqa: T201  a command's own output
        return error.exit_code
    except OSError as error:
        if error.errno not in _NO_ROOM:
            raise
        _give_up_output()
        print(f"sidecar: standard output can't be written: {error.strerror}", file=sys.stderr)  # noqa: T201  as above
        return 1
    return code


def _open_standard_streams() -> None:
    """Open those that were closed: the next socket would get their descriptor, and a stray write with it."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode))  # noqa: SIM115  for the life of the process


def _give_up_output() -> None:
    """Let what is left of it go nowhere: else the interpreter's own last flush fails too, with a traceback."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
