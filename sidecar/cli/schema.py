"""``sidecar schema``: the JSON Schema of the configuration file, for editors.

Owns nothing but the command; the schema is made from the configuration's own types.
"""

from __future__ import annotations

import argparse
import sys


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to *subparsers*."""
    parser = subparsers.add_parser(
        "schema",
        help="print the JSON Schema of the configuration file",
        description="Print the JSON Schema of the configuration file, for editors that complete and check YAML.",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:  # noqa: ARG001  every command gets them
    """Print the schema."""
    from sidecar.config.schema import json_schema_text

    sys.stdout.write(json_schema_text())
    return 0
