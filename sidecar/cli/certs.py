"""``sidecar certs``: certificates for development, and a look into what files hold.

Owns the arguments and the words around them. Making, keeping and judging is the business of `sidecar.certs`, which is
loaded only when the command runs. Called by the command line's root.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sidecar.certs.naming import ReplicaSet, dns_name, meaning, parse_controller, spiffe_id
from sidecar.cli.argument import parsed
from sidecar.errors import MalformedValue
from sidecar.identity import Generation, Identity
from sidecar.spiffe import NamedSlot, parse_trust_domain

if TYPE_CHECKING:
    from sidecar.certs.contents import Block


WHERE: Final = Path("certs")
MAX_BYTES: Final = 1024 * 1024  # of a file to look into: a bundle with the roots of every browser has 250 KiB
_CA_DAYS: Final = 3650
_DAYS: Final = 90
_MOST_DAYS: Final = 36_500


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to *subparsers*."""
    parser = subparsers.add_parser(
        "certs",
        help="make certificates for development, and look into any",
        description="Make a CA and certificates for development, and say what stands in certificate and key files.",
        epilog="certs/README.md in the repository says how certificates are made in production.",
    )
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    _add_init(actions)
    _add_issue(actions)
    _add_inspect(actions)


def run_init(options: argparse.Namespace) -> int:
    """Make a CA. Raises CertsError."""
    from sidecar.certs.authority import Authority
    from sidecar.certs.store import CA, CA_KEY, keep_authority

    authority = Authority.create(options.trust_domain, now=datetime.now(UTC), days=options.days)
    keep_authority(options.directory, authority)
    sys.stdout.write(
        f"{options.directory / CA}: the CA of {options.trust_domain}, for development; trusted by tls.client_ca.\n"
        f"{options.directory / CA_KEY}: its key. Whoever reads it can be anybody.\n"
        f"Next: sidecar certs issue server CLUSTER/REPLICA/ORDINAL{_ca_option(options.directory)}\n"
    )
    return 0


def run_issue(options: argparse.Namespace) -> int:
    """Issue a certificate. Raises CertsError, MalformedValue."""
    from sidecar.certs.store import CA, CERTIFICATE, KEY, keep_pair, read_authority

    subject = options.name
    if options.generation is not None:
        if not isinstance(subject, NamedSlot):
            options.fail("--generation is a slot's: give <cluster>/<replica>/<ordinal>")
        subject = replace(subject, generation=options.generation)
    authority = read_authority(options.ca)
    name = spiffe_id(authority.trust_domain, subject)
    pair = authority.issue(options.kind, str(name), dns=options.dns, now=datetime.now(UTC), days=options.days)
    directory = (
        options.out or options.ca.joinpath(options.kind, *name.segments)
    ).absolute()  # the configuration takes no other
    keep_pair(directory, pair, authority, replace=options.replace)
    sys.stdout.write(
        f"{name}, until {pair.expires:%Y-%m-%d}\n"
        f"tls.certificate: {directory / CERTIFICATE}\n"
        f"tls.key: {directory / KEY}\n"
        f"tls.client_ca: {directory / CA}\n"
    )
    return 0


def run_inspect(options: argparse.Namespace) -> int:
    """Say what files hold: 0 where nothing is wrong with them, 1 where something is."""
    from sidecar.certs.fitting import fit
    from sidecar.certs.report import Line, describe

    now = datetime.now(UTC)
    files = {file: list(_blocks(file)) for file in dict.fromkeys(options.files)}

    def lines() -> Iterator[Line]:
        for file, blocks in files.items():
            yield Line(file)
            for block in blocks:
                yield from describe(block, now=now, naming=meaning)
        if together := list(fit([block for blocks in files.values() for block in blocks])):
            yield Line("together")
            yield from together

    wrong = 0
    for line in lines():
        wrong += line.wrong
        sys.stdout.write(f"{'! ' if line.wrong else '  '}{line.text}\n")
    sys.stdout.write(f"{wrong} of these lines, marked with !, must be put right.\n" if wrong else "Nothing is wrong.\n")
    return 1 if wrong else 0


def _add_init(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    init = actions.add_parser(
        "init",
        help="make a CA",
        description="Make a CA for development: ca.crt, ca.key and a .gitignore that keeps keys out. An existing CA is "
        "never overwritten.",
    )
    init.add_argument("directory", metavar="DIR", nargs="?", type=Path, default=WHERE, help="default: %(default)s")
    init.add_argument(
        "--trust-domain",
        type=parsed(parse_trust_domain),
        default="example.org",
        metavar="NAME",
        help="what stands before the path in every SPIFFE ID (default: %(default)s)",
    )
    init.add_argument("--days", type=parsed(_days), default=_CA_DAYS, metavar="N", help="default: %(default)s")
    init.set_defaults(run=run_init)


def _add_issue(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    issue = actions.add_parser(
        "issue",
        help="make a key and its certificate",
        description="Make tls.key and tls.crt, and put the CA's ca.crt beside them.",
    )
    kinds = issue.add_subparsers(title="kinds", metavar="KIND", required=True, dest="kind")
    server = kinds.add_parser(
        "server",
        help="what a sidecar serves",
        description="What a sidecar serves: it names its slot, or a replica set and none of its slots.",
    )
    server.add_argument(
        "name",
        metavar="NAME",
        type=parsed(_server),
        help="<cluster>/<replica>/<ordinal>; or <cluster>/<replica>, one certificate for a whole StatefulSet",
    )
    slot = kinds.add_parser(
        "slot",
        help="what a slot's process dials with",
        description="What a slot's process dials others with: their sidecars hold its claims against it.",
    )
    slot.add_argument("name", metavar="IDENTITY", type=parsed(_slot), help="<cluster>/<replica>/<ordinal>")
    controller = kinds.add_parser("controller", help="what a controller dials with")
    controller.add_argument("name", metavar="NAME", type=parsed(parse_controller), help="<cluster>/<name>")
    controller.set_defaults(generation=None)
    for kind in (server, slot):
        kind.add_argument(
            "--generation", metavar="N", type=parsed(Generation.parse), help="which launch of the slot it is good for"
        )
    for kind in (server, slot, controller):
        kind.add_argument(
            "--dns",
            metavar="NAME",
            type=parsed(dns_name),
            action="append",
            default=[],
            help="a DNS name beside the SPIFFE ID; may be given again",
        )
        kind.add_argument(
            "--ca", metavar="DIR", type=Path, default=WHERE, help="where the CA is (default: %(default)s)"
        )
        kind.add_argument("--out", metavar="DIR", type=Path, help="where they go (default: a folder in the CA's)")
        kind.add_argument("--days", type=parsed(_days), default=_DAYS, metavar="N", help="default: %(default)s")
        kind.add_argument("--replace", action="store_true", help="put the new ones in the place of those already there")
        kind.set_defaults(run=run_issue, fail=kind.error)


def _add_inspect(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    inspect = actions.add_parser(
        "inspect",
        help="say what certificate and key files hold",
        description="Say what stands in each file, whether they fit together, and what a listener makes of the names. "
        "Give all that belongs together at once: certificate, key, CA, revocation list.",
        epilog="exit codes: 0 nothing is wrong, 1 something is",
    )
    inspect.add_argument("files", metavar="FILE", nargs="+", help="a file in PEM")
    inspect.set_defaults(run=run_inspect)


def _blocks(file: str) -> list[Block]:
    """The blocks of *file*; where it can't be read, one that says so."""
    from sidecar.certs.contents import Block, Unusable, read_blocks

    path = Path(file)
    if path.exists() and not path.is_file():  # a pipe might never end
        return [Block(file, 0, Unusable("no regular file"))]
    try:
        with path.open("rb") as opened:
            content = opened.read(MAX_BYTES + 1)
    except OSError as error:
        return [Block(file, 0, Unusable(f"can't be read: {error.strerror}"))]
    if len(content) > MAX_BYTES:
        return [Block(file, 0, Unusable(f"longer than {MAX_BYTES >> 20} MiB: is it the right file?"))]
    return read_blocks(file, content)


def _server(text: str) -> NamedSlot | ReplicaSet:
    return _slot(text) if text.count("/") > 1 else ReplicaSet.parse(text)


def _slot(text: str) -> NamedSlot:
    return NamedSlot(Identity.parse(text))


def _days(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or not 1 <= int(text) <= _MOST_DAYS:
        raise MalformedValue(f"must be a number of days, 1 to {_MOST_DAYS}")
    return int(text)


def _ca_option(directory: Path) -> str:
    return "" if directory == WHERE else f" --ca {directory}"
