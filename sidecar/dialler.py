"""The dialler's side of the preface: where it dials, what it says first, and what it makes of the answer.

Owns the rules that keep a dialler off the wrong process (docs/wire.md, "Rules for diallers"): an admission counts only
where the sidecar names everything that was claimed, and nothing that it names is ever handed on as the next claim.
Bytes in, bytes out: no sockets, no clock; stdlib only, so that a controller can vendor it. Called by the two clients.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from sidecar.errors import MalformedValue, SidecarError
from sidecar.preface.answer import Answer, AnswerError, read_answer
from sidecar.preface.claim import Claim, write_claim
from sidecar.preface.proxy_v2 import PrefaceError, read_header, write_header
from sidecar.reasons import Advice

# What an alert most likely means, by OpenSSL's name for it. A refused side is told no more, and causes share alerts.
_MEANING: Final = {
    "bad certificate": "this side's certificate isn't valid yet, or can't be verified",
    "certificate expired": "by the sidecar's clock this side's certificate, or its CA's CRL, has expired",
    "certificate required": "this side has shown no certificate",
    "certificate revoked": "this side's certificate is revoked",
    "unknown ca": "the sidecar doesn't know the CA of this side's certificate, or has no usable CRL of it",
    "unsupported certificate": "this side's certificate isn't made for clients",
}

ANSWER_WITHIN: Final = 7.0  # seconds: a sidecar's default time for preface and decision, and for dialling the upstream

_PORT = re.compile(r"[1-9][0-9]{0,4}")


class DialError(SidecarError):
    """There is no connection to the process that was meant. Nothing of the application was sent.

    Attributes:
        reason: A word for programs: the sidecar's reason, or this side's where there is no verdict to speak of.
        advice: What to do next.
        detail: For people. What a sidecar says of itself stands in here only, and only as text: a dialler reads its
            next claim from the registry or the resolver, never from an answer.
    """

    def __init__(self, reason: str, advice: Advice, detail: str) -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.advice = advice
        self.detail = detail


class RefusedError(DialError):
    """The sidecar refused, with this reason and advice. The reason may be one that this version doesn't know."""


class WrongPeerError(DialError):
    """It isn't the process that was claimed, or doesn't say that it is: in its ``admitted``, or by its certificate."""

    def __init__(self, detail: str) -> None:
        super().__init__("wrong_peer", Advice.RE_RESOLVE, detail)


class NotASidecarError(DialError):
    """What came back is no answer: something else listens there."""

    def __init__(self, detail: str) -> None:
        super().__init__("not_a_sidecar", Advice.RE_RESOLVE, detail)


class NoAnswerError(DialError):
    """The connection was made, and ended or fell silent before the answer was complete.

    The advice is re-resolve: a sidecar may have refused before it could answer, but so closes any other process that
    doesn't know what to make of a preface.
    """

    def __init__(self, detail: str) -> None:
        super().__init__("no_answer", Advice.RE_RESOLVE, detail)


class TlsRefusedError(DialError):
    """A sidecar that has shown a good certificate ended TLS with an alert: it doesn't take this side's.

    No answer can come then, since no preface was read; the sidecar's log has the reason, ``tls_failed``, in full.
    """

    def __init__(self, alert: str) -> None:
        meaning = f": {_MEANING[alert]}" if alert in _MEANING else ""
        super().__init__("tls_refused", Advice.FIX, f"the sidecar ended TLS with the alert {alert!r}{meaning}")


class UnprovenPeerError(DialError):
    """Who answers couldn't be verified: its certificate doesn't pass, or TLS failed before it had shown a good one.

    The advice is re-resolve: it may be a sidecar with bad files, but also whoever has the address now.
    """

    def __init__(self, detail: str) -> None:
        super().__init__("peer_unproven", Advice.RE_RESOLVE, detail)


class UnreachableError(DialError):
    """No connection could be made.

    The advice is re-resolve: a process that can't be reached for a moment is still there when its address has been
    looked up again, and one that was replaced under another address is found in no other way.
    """

    def __init__(self, detail: str) -> None:
        super().__init__("unreachable", Advice.RE_RESOLVE, detail)


@dataclass(frozen=True, slots=True)
class TcpTarget:
    """Where to dial over TCP."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class UnixTarget:
    """Where to dial a Unix socket."""

    path: str


def parse_target(address: str | tuple[str, int]) -> TcpTarget | UnixTarget:
    """What *address* names: ``host:port``, ``[::1]:port``, ``unix:/path``, or a pair of host and port.

    Raises:
        MalformedValue: It is none of these.
    """
    if isinstance(address, tuple):
        host, port = address[0], str(address[1])
    elif address.startswith("unix:"):
        path = address.removeprefix("unix:")
        if not path or "\0" in path:
            raise MalformedValue("the path after unix: must not be empty or hold NUL")
        return UnixTarget(path)
    else:
        host, _, port = address.rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            raise MalformedValue("must be host:port, unix:/path, or [address]:port with an IPv6 address in brackets")
    if not host or not host.isprintable() or " " in host:
        raise MalformedValue("must be host:port, [address]:port or unix:/path")
    if not _PORT.fullmatch(port) or int(port) > 0xFFFF:
        raise MalformedValue("the port must be between 1 and 65535")
    return TcpTarget(host, int(port))


def opening(claim: Claim, *, ask_answer: bool = True) -> bytes:
    """The first bytes of a connection: the preface that states *claim*.

    It carries no addresses: the sidecar goes by the socket's. With *ask_answer* no application byte may follow before
    ``judge`` has found the claim admitted; without it no verdict ever comes.
    """
    return write_header(source=None, destination=None, tlvs=write_claim(claim, answer=ask_answer))


def judge(claim: Claim, buffer: bytes | bytearray) -> int | None:
    """How long the answer at the start of *buffer* is, if it admits *claim*; None while bytes are missing.

    What stands behind the answer is the process's and is never looked at.

    Raises:
        RefusedError: The verdict is no.
        WrongPeerError: The verdict is yes, from somebody else or from somebody who doesn't say who.
        NotASidecarError: The bytes are no answer.
    """
    try:
        header = read_header(buffer)
        if header is None:
            return None
        answer = read_answer(header)
    except (PrefaceError, AnswerError) as error:
        raise NotASidecarError(f"what came back is no answer: {error}") from error
    if answer.advice is not None:
        raise RefusedError(answer.verdict, answer.advice, _shown(answer))
    _compare(claim, answer)
    return header.length


def ended(buffer: bytes | bytearray) -> NoAnswerError:
    """The error that an end of the connection after *buffer*, an answer that isn't complete, amounts to."""
    if not buffer:
        return NoAnswerError("the connection was closed without an answer")
    return NoAnswerError(f"the connection ended within the answer, after {len(buffer)} bytes")


def _compare(claim: Claim, answer: Answer) -> None:
    """Raise unless *answer* names every part of *claim*, and equally. What wasn't claimed isn't compared."""
    for part, claimed, named in (
        ("identity", claim.identity, answer.identity),
        ("generation", claim.generation, answer.generation),
        ("instance", claim.instance, answer.instance),
    ):
        if claimed is None or claimed == named:
            continue
        says = f"names {named}" if named is not None else "names none"
        raise WrongPeerError(f"it says admitted, but for {part} {claimed} it {says}")


def _shown(answer: Answer) -> str:
    """A refusal's detail, and who the sidecar says it is where it says so."""
    own = (
        ("identity", answer.identity),
        ("generation", answer.generation),
        ("instance", answer.instance),
        ("epoch floor", answer.epoch),
    )
    named = ", ".join(f"{name} {value}" for name, value in own if value is not None)
    return "; ".join(part for part in (answer.detail, f"it is {named}" if named else "") if part)
