"""``sidecar connect``: dial a process with a claim, by hand or from a script.

Owns the command's arguments, what it says and its exit codes. Dialling is the client's, copying the pipe's: both are
loaded only when the command runs. Called by the command line's root.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from typing import Final, TypeVar

from sidecar.dialler import ANSWER_WITHIN, DialError, RefusedError, WrongPeerError, parse_target
from sidecar.errors import MalformedValue
from sidecar.identity import ControllerName, Epoch, Generation, Identity, Instance
from sidecar.preface.claim import Claim
from sidecar.reasons import Advice

_Value = TypeVar("_Value")

NO_ANSWER: Final = 1
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
        "process that wasn't meant says admitted), 13 fix, 14 stop; 1 no answer: no connection, no sidecar, or a "
        "connection that broke; 2 wrong arguments; 130 interrupted",
    )
    parser.add_argument(
        "address", type=_parsed(_address), metavar="ADDRESS", help="host:port, [::1]:port or unix:/path"
    )
    parser.add_argument(
        "--identity", type=_parsed(Identity.parse), required=True, help="the slot: <cluster>/<replica>/<ordinal>"
    )
    parser.add_argument("--generation", type=_parsed(Generation.parse), metavar="N", help="which launch of the slot")
    parser.add_argument("--instance", type=_parsed(Instance.parse), help="which pod runs it: its UID")
    parser.add_argument("--epoch", type=_parsed(Epoch.parse), metavar="N", help="this controller's fencing token")
    parser.add_argument("--controller", type=_parsed(ControllerName.parse), metavar="NAME", help="who dials")
    parser.add_argument(
        "--probe",
        action="store_true",
        help="print the verdict and close; if admitted, the local process sees a connection: in a single-client "
        "protocol that evicts the live one",
    )
    parser.add_argument(
        "--answer-within",
        type=_parsed(_seconds),
        default=ANSWER_WITHIN,
        metavar="SECONDS",
        help="for dialling and the answer together (default: %(default)g)",
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Do the command; its exit code."""
    import trio

    code = INTERRUPTED
    try:
        code = trio.run(_connect, args)
    except* KeyboardInterrupt:
        pass  # nothing to say: whoever typed it knows
    return code


async def _connect(args: argparse.Namespace) -> int:
    import trio

    from sidecar.cli.pipe import pipe
    from sidecar.client import open_connection

    claim = Claim(args.identity, args.generation, args.instance, args.epoch, args.controller)
    try:
        stream = await open_connection(args.address, claim, answer_within=args.answer_within)
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


def _parsed(parse: Callable[[str], _Value]) -> Callable[[str], _Value]:
    """*parse* for argparse, which shows the message of one kind of exception only, and names the option with it."""

    def parsed(text: str) -> _Value:
        try:
            return parse(text)
        except MalformedValue as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return parsed


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
