"""``sidecar status``: what a running sidecar is doing, for people.

Owns the summary's form; what it says comes from the admin server's ``/status``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sidecar.cli.admin_option import add_admin_option


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to *subparsers*."""
    parser = subparsers.add_parser(
        "status", help="say what a running sidecar is doing", description="Say what a running sidecar is doing."
    )
    add_admin_option(parser)
    parser.add_argument("--json", action="store_true", help="as the admin server says it")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Ask and print. Raises NoAdminError."""
    from sidecar.cli.admin_client import Admin, NoAdminError

    answer = Admin.parse(options.admin).do("GET", "/status")
    if options.json:
        sys.stdout.write(f"{answer}\n")
        return 0
    try:
        summary = "\n".join(describe(json.loads(answer)))
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise NoAdminError(f"{options.admin} answered, but not as a sidecar of this version: see --json") from error
    sys.stdout.write(f"{summary}\n")
    return 0


def describe(status: Mapping[str, Any]) -> Iterator[str]:
    """The lines of the summary of *status*, which is the JSON of ``admin.Status``."""
    incarnation = [f"{part} {status[part]}" for part in ("generation", "instance") if status[part] is not None]
    yield "  ".join([status["identity"], *incarnation])
    not_ready = status["not_ready"]
    yield status["state"] + (f"; not ready: {'; '.join(not_ready)}" if not_ready else "")
    for listener in status["listeners"]:
        yield from _listener(listener)
    if connections := status["connections"]:
        yield ""
        yield from _table(
            ("id", "listener", "state", "peer", "seconds", "up", "down", "claim"),
            [_row(connection) for connection in connections],
        )


def _listener(listener: Mapping[str, Any]) -> Iterator[str]:
    counts = listener["counts"]
    yield ""
    yield f"{listener['name']}  {' '.join(listener['addresses'])}"
    plain = {name: count for name, count in counts.items() if not isinstance(count, dict)}
    yield f"  {_counts(plain)}"
    for name, by_kind in counts.items():
        if isinstance(by_kind, dict) and by_kind:
            yield f"  {name}: {_counts(by_kind)}"


def _counts(counts: Mapping[str, int]) -> str:
    return "  ".join(f"{name} {count}" for name, count in counts.items())


def _row(connection: Mapping[str, Any]) -> tuple[str, ...]:
    claim = " ".join(f"{name}={value}" for name, value in connection["claim"].items())
    plain = (connection[key] for key in ("id", "listener", "state", "peer"))
    numbers = (f"{connection['seconds']:.1f}", str(connection["bytes_up"]), str(connection["bytes_down"]))
    return (*map(str, plain), *numbers, _harmless(claim))


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _harmless(text: str) -> str:
    """*text* from the wire, so that it can't move a terminal's cursor."""
    return "".join(c if c.isascii() and c.isprintable() else c.encode("unicode_escape").decode() for c in text)
