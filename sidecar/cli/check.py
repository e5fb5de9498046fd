"""``sidecar check``: validate a configuration, and say what it stops and what it doesn't.

Owns the words around `explain`. Starts, opens and connects nothing, so that it can run anywhere, a build included. Its
answer holds for the environment that it runs in, where the file has variables.
"""

from __future__ import annotations

import argparse
import sys


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to *subparsers*."""
    parser = subparsers.add_parser(
        "check",
        help="validate a configuration and say what it stops",
        description="Validate a configuration without starting anything, and say what it stops and what it doesn't. "
        "Lists everything that is wrong at once; exit code 2.",
    )
    parser.add_argument("config", metavar="CONFIG", help="the YAML file")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print what the configuration means. Raises ConfigurationError."""
    from sidecar.cli.configuration import read_config
    from sidecar.config.explain import explain

    config = read_config(options.config)
    sys.stdout.write(f"{options.config}: ok\n")
    sys.stdout.writelines(f"{remark}\n" for remark in explain(config))
    return 0
