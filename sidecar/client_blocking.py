"""The trio client's twin for any Python program: dial, state the claim, and get a socket only once it is admitted.

Owns the blocking calls of dialling and needs the standard library alone, so that a controller can use it whatever it
is built on. It speaks no TLS: for a listener that does, use ``client``. What to send and what to make of the answer is
the dialler's. Called by controllers.
"""

from __future__ import annotations

import socket
import time

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


def open_connection(
    address: str | tuple[str, int], claim: Claim, *, answer_within: float = ANSWER_WITHIN
) -> socket.socket:
    """A connection to the process that *claim* means: the sidecar said ``admitted`` and named all that was claimed.

    The answer is read to its last byte and not one further, so the socket begins with the process's own bytes. It
    blocks without a time-out; set one for what follows.

    Args:
        address: ``host:port``, ``[::1]:port``, ``unix:/path``, or host and port.
        claim: What the dialler believes about the process.
        answer_within: Seconds for all of it, from the first dial to the end of the answer, not for each read. Looking
            up a name isn't in it: the resolver has its own limits.

    Raises:
        DialError: There is no such connection; nothing is left open. It says why and what to do next.
        MalformedValue: *address* is none.
    """
    target = parse_target(address)
    deadline = _Deadline(answer_within)
    connection = _dial(target, deadline)
    try:
        _introduce(connection, claim, deadline)
        connection.settimeout(None)
    except BaseException:
        connection.close()
        raise
    return connection


class _Deadline:
    """A moment by which all must be done, however many calls it takes."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._at = time.monotonic() + seconds

    def remaining(self) -> float:
        """Seconds left. Raises TimeoutError when there are none: to a socket 0 would mean never to wait."""
        left = self._at - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


def _introduce(connection: socket.socket, claim: Claim, deadline: _Deadline) -> None:
    buffer = bytearray()
    try:
        connection.settimeout(deadline.remaining())
        connection.sendall(opening(claim))
        while judge(claim, buffer) is None:
            connection.settimeout(deadline.remaining())
            received = connection.recv(bytes_wanted(buffer))
            if not received:
                raise ended(buffer)
            buffer += received
    except TimeoutError as error:
        raise NoAnswerError(f"no answer within {deadline.seconds:g} seconds") from error
    except OSError as error:
        raise NoAnswerError(f"the connection broke before the answer was complete: {error}") from error


def _dial(target: TcpTarget | UnixTarget, deadline: _Deadline) -> socket.socket:
    try:
        if isinstance(target, UnixTarget):
            return _connect(socket.AF_UNIX, target.path, deadline.remaining())
        return _dial_tcp(target, deadline)
    except OSError as error:
        raise UnreachableError(_words(error, deadline)) from error
    except UnicodeError as error:
        raise UnreachableError("no host can have such a name") from error


def _dial_tcp(target: TcpTarget, deadline: _Deadline) -> socket.socket:
    """Dial the addresses of a name one after the other, so that a silent one leaves the others their share of time."""
    candidates = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    failures: list[OSError] = []
    for family, _, _, _, endpoint in candidates:
        try:
            connection = _connect(family, endpoint, deadline.remaining() / (len(candidates) - len(failures)))
        except OSError as error:
            failures.append(error)
        else:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as trio does
            return connection
    raise UnreachableError("; ".join(dict.fromkeys(_words(error, deadline) for error in failures))) from failures[-1]


def _words(error: OSError, deadline: _Deadline) -> str:
    if error.strerror is None and isinstance(error, TimeoutError):  # ours; the kernel's own has its words
        return f"no connection within {deadline.seconds:g} seconds"
    return error.strerror or str(error)


def _connect(family: int, endpoint: tuple[object, ...] | str, timeout: float) -> socket.socket:
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout)
        connection.connect(endpoint)
    except BaseException:
        connection.close()
        raise
    return connection
