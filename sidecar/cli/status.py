"""``sidecar status``: what a running sidecar is doing, for people.

Owns the summary's form; what it says comes from the admin server's ``/status`` and ``/refusals``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from sidecar.cli.admin_option import add_admin_option

_REFUSALS: Final = 5  # the last few; the admin server has more


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to *subparsers*."""
    parser = subparsers.add_parser(
        "status",
        help="say what a running sidecar is doing",
        description="Say what a running sidecar is doing: who is connected, and who was refused last. GET /refusals of "
        "the admin server has the last 64 refusals.",
    )
    add_admin_option(parser)
    parser.add_argument("--json", action="store_true", help="the admin server's GET /status as it is, without refusals")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Ask and print. Raises NoAdminError."""
    from sidecar.cli.admin_client import Admin, NoAdminError

    admin = Admin.parse(options.admin)
    answer = admin.do("GET", "/status")
    if options.json:
        sys.stdout.write(f"{answer}\n")
        return 0
    refusals = admin.do("GET", "/refusals")
    try:
        summary = "\n".join(describe(json.loads(answer), json.loads(refusals)))
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        raise NoAdminError(f"{options.admin} answered, but not as a sidecar of this version: see --json") from error
    sys.stdout.write(f"{summary}\n")
    return 0


def describe(status: Mapping[str, Any], refusals: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The lines of the summary of *status*, the JSON of ``admin.Status``, and of the last of *refusals*."""
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
    if refusals:
        yield ""
        yield from _table(
            ("refused", "listener", "peer", "claim", "reason", "detail"),
            [_refusal(refusal) for refusal in refusals[-_REFUSALS:]],
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
    plain = (connection[key] for key in ("id", "listener", "state", "peer"))
    numbers = (f"{connection['seconds']:.1f}", str(connection["bytes_up"]), str(connection["bytes_down"]))
    return (*map(str, plain), *numbers, _pairs(connection["claim"]))


def _refusal(refusal: Mapping[str, Any]) -> tuple[str, ...]:
    """*refusal* as a row; its fields are those of the log's line, which leaves out what is absent."""
    who = {key: refusal[key] for key in ("controller", "epoch") if key in refusal}
    claim = _pairs({**refusal.get("claim", {}), **who})
    return (
        f"{refusal['seconds_ago']:.0f}s ago",
        refusal["listener"],
        refusal.get("peer", "unix"),
        claim or "-",
        refusal["reason"],
        _harmless(refusal.get("detail", "")),
    )


def _pairs(claim: Mapping[str, str]) -> str:
    return _harmless(" ".join(f"{name}={value}" for name, value in claim.items()))


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    for row in (head, *rows):
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _harmless(text: str) -> str:
    """*text* from the wire, so that it can't move a terminal's cursor."""
    return "".join(c if c.isascii() and c.isprintable() else c.encode("unicode_escape").decode() for c in text)
