"""``sidecar connect``: dial a process with a claim, by hand or from a script.

Owns the command's arguments, what it says and its exit codes. Dialling is the client's, copying the pipe's: both are
loaded only when the command runs. Called by the command line's root.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NoReturn

from sidecar.cli.argument import parsed
from sidecar.dialler import ANSWER_WITHIN, DialError, RefusedError, WrongPeerError, parse_target
from sidecar.errors import MalformedValue, SidecarError
from sidecar.identity import ControllerName, Epoch, Generation, Identity, Instance
from sidecar.preface.claim import Claim
from sidecar.reasons import Advice
from sidecar.server_names import Depth, ServerRule

if TYPE_CHECKING:
    from sidecar.tls.client import ClientTls


NO_ANSWER: Final = 1
DEFAULT_DEPTH: Final = Depth.TRUST_DOMAIN
INTERRUPTED: Final = 130  # what shells give for SIGINT
EXIT_CODE: Final = {
    Advice.RETRY: 10,
    Advice.REFRESH: 11,
    Advice.RE_RESOLVE: 12,
    Advice.FIX: 13,
    Advice.STOP: 14,
}
_WHAT_TO_DO: Final = {
    Advice.RETRY: "try the same address and claim again after a pause; after a few tries look up the address again",
    Advice.REFRESH: "the claim is out of date: read it again from the registry",
    Advice.RE_RESOLVE: "look up the slot's address again",
    Advice.FIX: "trying again won't help: a person must change something",
    Advice.STOP: "this controller has been replaced: it must stop dialling",
}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to the root's."""
    parser = subparsers.add_parser(
        "connect",
        help="dial a process with a claim",
        description="Dial ADDRESS, state what is expected there, and pipe stdin and stdout once that is admitted. On a "
        "terminal it ends with the peer; a pipe is copied to its end.",
        epilog="exit codes: 0 admitted; the advice of a verdict: 10 retry, 11 refresh, 12 re-resolve (also where a "
        "process that wasn't meant says admitted, or shows its certificate), 13 fix, 14 stop; 1 no answer: no "
        "connection, TLS that failed, no sidecar, or a connection that broke; 2 wrong arguments or files; 130 "
        "interrupted",
    )
    parser.add_argument("address", type=parsed(_address), metavar="ADDRESS", help="host:port, [::1]:port or unix:/path")
    parser.add_argument(
        "--identity", type=parsed(Identity.parse), required=True, help="the slot: <cluster>/<replica>/<ordinal>"
    )
    parser.add_argument("--generation", type=parsed(Generation.parse), metavar="N", help="which launch of the slot")
    parser.add_argument("--instance", type=parsed(Instance.parse), help="which pod runs it: its UID")
    parser.add_argument("--epoch", type=parsed(Epoch.parse), metavar="N", help="this controller's fencing token")
    parser.add_argument("--controller", type=parsed(ControllerName.parse), metavar="NAME", help="who dials")
    parser.add_argument(
        "--probe",
        action="store_true",
        help="print the verdict and close; if admitted, the local process sees a connection: in a single-client "
        "protocol that evicts the live one",
    )
    parser.add_argument(
        "--answer-within",
        type=parsed(_seconds),
        default=ANSWER_WITHIN,
        metavar="SECONDS",
        help="for dialling, TLS and the answer together (default: %(default)g)",
    )
    _add_tls_options(parser)
    parser.set_defaults(run=run, usage_error=parser.error)


def _add_tls_options(parser: argparse.ArgumentParser) -> None:
    tls = parser.add_argument_group("TLS", "for a listener that speaks it; the files are PEM")
    tls.add_argument("--certificate", metavar="FILE", help="this side's, followed by those between it and a root")
    tls.add_argument("--key", metavar="FILE", help="its private key")
    tls.add_argument("--ca", metavar="FILE", help="the roots of the sidecars' certificates")
    tls.add_argument("--crl", metavar="FILE", help="revoked certificates: a list of each CA")
    tls.add_argument(
        "--verify",
        metavar="DEPTH",
        help=f"what to compare in the sidecar's certificate: {', '.join(reversed(Depth))} or dns:PATTERN "
        f"(default: {DEFAULT_DEPTH})",
    )
    tls.add_argument(
        "--trust-domain", metavar="NAME", help="the one of its SPIFFE ID (default: any for which the roots vouch)"
    )


def run(args: argparse.Namespace) -> int:
    """Do the command; its exit code."""
    import trio

    claim = Claim(args.identity, args.generation, args.instance, args.epoch, args.controller)
    tls = _tls(args, claim)
    code = INTERRUPTED
    try:
        code = trio.run(_connect, args, claim, tls)
    except* KeyboardInterrupt:
        pass  # nothing to say: whoever typed it knows
    return code


def _tls(args: argparse.Namespace, claim: Claim) -> ClientTls | None:
    """What the options make of TLS; None: none of them is there. What is wrong with them ends the program."""
    usage_error: Callable[[str], NoReturn] = args.usage_error
    needed = {"--certificate": args.certificate, "--key": args.key, "--ca": args.ca}
    others = {"--crl": args.crl, "--verify": args.verify, "--trust-domain": args.trust_domain}
    given = [option for option, value in (needed | others).items() if value is not None]
    if not given:
        return None
    if missing := [option for option, value in needed.items() if value is None]:
        usage_error(f"{given[0]} is for TLS, which needs {', '.join(missing)} too")
    try:
        rule = ServerRule.parse(DEFAULT_DEPTH if args.verify is None else args.verify, args.trust_domain)
    except MalformedValue as error:
        usage_error(f"argument --verify{'' if args.trust_domain is None else ' or --trust-domain'}: {error}")
    if why := rule.lacking(claim):
        usage_error(f"argument --verify: {why}")

    from sidecar.tls.client import ClientTls

    try:
        return ClientTls.load(certificate=args.certificate, key=args.key, ca=args.ca, crl=args.crl, rule=rule)
    except SidecarError as error:  # it names the file
        usage_error(str(error))


async def _connect(args: argparse.Namespace, claim: Claim, tls: ClientTls | None) -> int:
    import trio

    from sidecar.cli.pipe import pipe
    from sidecar.client import open_connection

    try:
        stream = await open_connection(args.address, claim, tls=tls, answer_within=args.answer_within)
    except DialError as error:
        return _tell(args.address, error, probe=args.probe)
    broken: BaseExceptionGroup[BaseException] | None = None
    async with stream:
        if args.probe:
            sys.stdout.write("admitted\n")
            return 0
        somebody_types = sys.stdin.isatty()
        if somebody_types:
            sys.stderr.write("admitted: type, Ctrl-D ends\n")
        try:
            await pipe(stream, source=sys.stdin.fileno(), sink=sys.stdout.fileno(), leave_with_peer=somebody_types)
        except* (trio.BrokenResourceError, OSError) as group:
            broken = group
    if broken is None:
        return 0
    sys.stderr.write(f"sidecar connect: {args.address}: the connection broke: {broken.exceptions[0]}\n")
    return NO_ANSWER


def _tell(address: str, error: DialError, *, probe: bool) -> int:
    """Say in one line why there is no connection and what to do; the exit code that says the same.

    A verdict is what a probe asked for, so it stands on standard output; anything else is a complaint.
    """
    refused = isinstance(error, RefusedError)
    next_step = f"{error.advice}: {_WHAT_TO_DO[error.advice]}"
    if probe and refused:
        sys.stdout.write(f"refused: {error} [{next_step}]\n")
    else:
        sys.stderr.write(f"sidecar connect: {address}: {'refused: ' if refused else ''}{error} [{next_step}]\n")
    return EXIT_CODE[error.advice] if isinstance(error, RefusedError | WrongPeerError) else NO_ANSWER


def _address(text: str) -> str:
    parse_target(text)
    return text


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise MalformedValue("must be a number of seconds above 0")
    return seconds
