"""A trio controller's way to a process: dial, state the claim, and get a stream only once it is admitted.

Owns the awaits of dialling; what to send and what to make of the answer is the dialler's. Called by controllers, which
need nothing else of this package. ``client_blocking`` is its twin for programs without trio.
"""

from __future__ import annotations

import trio

from sidecar.dialler import (
    ANSWER_WITHIN,
    NoAnswerError,
    TcpTarget,
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


async def open_connection(
    address: str | tuple[str, int], claim: Claim, *, answer_within: float = ANSWER_WITHIN
) -> trio.SocketStream:
    """A connection to the process that *claim* means: the sidecar said ``admitted`` and named all that was claimed.

    The answer is read to its last byte and not one further, so the stream begins with the process's own bytes.

    Args:
        address: ``host:port``, ``[::1]:port``, ``unix:/path``, or host and port.
        claim: What the dialler believes about the process.
        answer_within: Seconds for all of it, from looking up the name to the end of the answer. It is a part of the
            protocol, not only of this call: a dialler that waits for ever has a fault. Use a cancel scope to give up
            sooner.

    Raises:
        DialError: There is no such connection; nothing is left open. It says why and what to do next.
        MalformedValue: *address* is none.
    """
    target = parse_target(address)
    stream: trio.SocketStream | None = None
    with trio.move_on_after(answer_within):
        stream = await _dial(target)
        try:
            await introduce(stream, claim)
        except BaseException:
            stream.socket.close()  # not aclose(): when cancelled, that would be one more await to cancel
            raise
        return stream
    if stream is None:
        raise UnreachableError(f"no connection within {answer_within:g} seconds")
    raise NoAnswerError(f"no answer within {answer_within:g} seconds")


async def introduce(stream: trio.abc.Stream, claim: Claim) -> None:
    """State *claim* on a stream that is open already, and return once it is admitted.

    For streams that the caller makes: the preface goes inside TLS. The caller sets the deadline, and closes the stream
    when this raises.

    Raises:
        DialError: The claim isn't admitted.
    """
    buffer = bytearray()
    try:
        await stream.send_all(opening(claim))
        while judge(claim, buffer) is None:
            received = await stream.receive_some(bytes_wanted(buffer))
            if not received:
                raise ended(buffer)
            buffer += received
    except trio.BrokenResourceError as error:
        raise NoAnswerError("the connection broke before the answer was complete") from error


async def _dial(target: TcpTarget | UnixTarget) -> trio.SocketStream:
    try:
        if isinstance(target, UnixTarget):
            return await connect_unix(target.path)
        return await trio.open_tcp_stream(target.host, target.port)
    except OSError as error:
        raise UnreachableError(failure_words(error)) from error
    except UnicodeError as error:
        raise UnreachableError("no host can have such a name") from error
