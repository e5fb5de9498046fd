"""A trio controller's way to a process: dial, state the claim, and get a stream only once it is admitted.

Owns the awaits of dialling; what to send and what to make of the answer is the dialler's. Called by controllers, which
need nothing else of this package; for mTLS ``tls.client`` besides, and OpenSSL is loaded with that only.
``client_blocking`` is its twin for programs without trio.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, overload

import trio

from sidecar.dialler import (
    ANSWER_WITHIN,
    DialError,
    NoAnswerError,
    TcpTarget,
    TlsRefusedError,
    UnixTarget,
    UnreachableError,
    ended,
    judge,
    opening,
    parse_target,
)
from sidecar.preface.claim import Claim
from sidecar.preface.proxy_v2 import bytes_wanted
from sidecar.sockets import connect_unix, failure_words
from sidecar.tls.errors import TlsError

if TYPE_CHECKING:
    from sidecar.tls.client import ClientTls
    from sidecar.tls.stream import TlsStream


@overload
async def open_connection(
    address: str | tuple[str, int], claim: Claim, *, tls: None = None, answer_within: float = ANSWER_WITHIN
) -> trio.SocketStream: ...


@overload
async def open_connection(
    address: str | tuple[str, int], claim: Claim, *, tls: ClientTls, answer_within: float = ANSWER_WITHIN
) -> TlsStream: ...


@overload
async def open_connection(
    address: str | tuple[str, int], claim: Claim, *, tls: ClientTls | None, answer_within: float = ANSWER_WITHIN
) -> trio.SocketStream | TlsStream: ...


async def open_connection(
    address: str | tuple[str, int], claim: Claim, *, tls: ClientTls | None = None, answer_within: float = ANSWER_WITHIN
) -> trio.SocketStream | TlsStream:
    """A connection to the process that *claim* means: the sidecar said ``admitted`` and named all that was claimed.

    The answer is read to its last byte and not one further, so the stream begins with the process's own bytes.

    Args:
        address: ``host:port``, ``[::1]:port``, ``unix:/path``, or host and port.
        claim: What the dialler believes about the process.
        tls: What to show, whom to trust and what to look for in the sidecar's certificate; None: no TLS.
        answer_within: Seconds for all of it, from looking up the name to the end of the answer, TLS included. It is a
            part of the protocol, not only of this call: a dialler that waits for ever has a fault. Use a cancel scope
            to give up sooner.

    Raises:
        DialError: There is no such connection; nothing is left open. It says why and what to do next.
        MalformedValue: *address* is none, or *claim* lacks what *tls* is to look for. Nothing was dialled.
    """
    target = parse_target(address)
    if tls is not None:
        tls.check(claim)
    connected: trio.SocketStream | None = None
    stream: trio.SocketStream | TlsStream | None = None
    with trio.move_on_after(answer_within):
        connected = await _dial(target)
        try:
            stream = connected if tls is None else await tls.wrap(connected, claim)
            await introduce(stream, claim)
        except BaseException:
            connected.socket.close()  # not aclose(): when cancelled, that would be one more await to cancel
            raise
        return stream
    if connected is None:
        raise UnreachableError(f"no connection within {answer_within:g} seconds")
    raise NoAnswerError(f"{'no TLS handshake' if stream is None else 'no answer'} within {answer_within:g} seconds")


async def introduce(stream: trio.abc.Stream, claim: Claim) -> None:
    """State *claim* on a stream that is open already, and return once it is admitted.

    For streams that the caller makes: the preface goes inside TLS. The caller sets the deadline, and closes the stream
    when this raises.

    A TLS 1.3 client learns here whether its certificate was taken: the sidecar looks at it when the client is through.

    Raises:
        DialError: The claim isn't admitted.
    """
    buffer = bytearray()
    unsent: trio.BrokenResourceError | None = None
    try:
        await stream.send_all(opening(claim))
    except trio.BrokenResourceError as error:
        unsent = error  # the other side may have said why before it closed: an alert, or its answer
    try:
        while judge(claim, buffer) is None:
            received = await stream.receive_some(bytes_wanted(buffer))
            if not received:
                raise ended(buffer)
            buffer += received
    except trio.BrokenResourceError as error:
        raise _broken(error) from error
    if unsent is not None:
        raise _broken(unsent) from unsent


def _broken(error: trio.BrokenResourceError) -> DialError:
    """What a connection that broke before the answer was complete amounts to."""
    failure = error.__cause__
    if isinstance(failure, TlsError):
        return TlsRefusedError(failure.alert) if failure.alert else NoAnswerError(f"TLS broke: {failure}")
    return NoAnswerError("the connection broke before the answer was complete")


async def _dial(target: TcpTarget | UnixTarget) -> trio.SocketStream:
    try:
        if isinstance(target, UnixTarget):
            return await connect_unix(target.path)
        return await trio.open_tcp_stream(target.host, target.port)
    except OSError as error:
        raise UnreachableError(failure_words(error)) from error
    except UnicodeError as error:
        raise UnreachableError("no host can have such a name") from error
