"""A small HTTP/1.1 server for the sidecar's own pages.

Owns the exchange of requests and responses, over ``h11``, and every bound that keeps strangers from holding it: total
deadlines for reading a request and for writing a response (never one for each read), limits on sizes, and a limit on
connections at which the oldest gives way, so that whoever sends or reads a byte a second never keeps others out.

Knows no page: a table of routes is passed in, and handlers are functions that run on trio's loop; one that has to wait
for something is asynchronous, and bounds that itself. Called by ``app``, once for each of the two servers.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from http import HTTPStatus
from typing import Final, Protocol
from urllib.parse import urlsplit

import h11
import trio

MAX_HEAD: Final = 16 * 1024  # request line and headers; browsers send 1 or 2 KiB
MAX_BODY: Final = 4 * 1024  # no page reads one; it is only taken so that the connection can go on
ACCEPT_BACKOFF_SECONDS: Final = 0.1  # descriptors come back only when others close some
ACCEPT_COMPLAINT_SECONDS: Final = 10.0  # a line about it this often

_CHUNK: Final = 4096
_LINGER_SECONDS: Final = 1.0
_LINGER_CHUNKS: Final = 16


@dataclass(frozen=True, slots=True)
class Request:
    """What a handler gets to know. Header names are in lower case; a repeated header's values are joined by commas."""

    method: str
    path: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Response:
    """What a handler answers."""

    body: bytes
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = "text/plain; charset=utf-8"
    allow: str = ""  # the methods that would have been allowed


Handler = Callable[[Request], Response | Awaitable[Response]]
Routes = Mapping[tuple[str, str], Handler]  # by method and path; HEAD is answered wherever GET is


@dataclass(frozen=True, slots=True)
class Bounds:
    """How long, in seconds, and how many."""

    read: float = 5.0  # for a whole request; the first one's time runs from accept
    write: float = 30.0  # for a whole response
    idle: float = 30.0  # between two requests on one connection
    connections: int = 64


DEFAULT_BOUNDS: Final = Bounds()


class Log(Protocol):
    """What the server needs of a logger."""

    def warning(self, event: str, **fields: object) -> object:
        """Something is wrong outside."""

    def exception(self, event: str, **fields: object) -> object:
        """A fault of ours, whose traceback goes with it."""


async def serve(
    listeners: Sequence[trio.abc.Listener[trio.abc.HalfCloseableStream]],
    routes: Routes,
    *,
    log: Log,
    on_accept_error: Callable[[OSError], None],
    bounds: Bounds = DEFAULT_BOUNDS,
) -> None:
    """Serve until cancelled, which ends every connection, or until the listeners are closed and the last has ended.

    Args:
        listeners: where from; they stay open, and belong to whoever opened them.
        routes: what is answered. A handler may set off the end of the server by waking another task: its answer, if
            the socket's buffer takes it whole, is out before that task runs.
        log: for faults of handlers and for accept errors.
        on_accept_error: called for each failure to take a connection from the kernel, which is then tried again.
        bounds: what keeps one client out of the way of another.
    """
    server = _Server(routes, log, on_accept_error, bounds)
    async with trio.open_nursery() as nursery:
        for listener in listeners:
            nursery.start_soon(server.accept, listener, nursery)


def text(body: str, status: HTTPStatus = HTTPStatus.OK) -> Response:
    """A response of plain text."""
    return Response(f"{body}\n".encode(), status)


class _Server:
    """What one server's connections have in common."""

    def __init__(self, routes: Routes, log: Log, on_accept_error: Callable[[OSError], None], bounds: Bounds) -> None:
        self._routes = routes
        self._log = log
        self._on_accept_error = on_accept_error
        self._bounds = bounds
        self._live: dict[trio.CancelScope, None] = {}  # oldest first
        self._quiet_until = 0.0

    async def accept(self, listener: trio.abc.Listener[trio.abc.HalfCloseableStream], nursery: trio.Nursery) -> None:
        while True:
            try:
                stream = await listener.accept()
            except trio.ClosedResourceError:
                return
            except OSError as error:
                self._on_accept_error(error)
                self._complain(error)
                await trio.sleep(ACCEPT_BACKOFF_SECONDS)
            else:
                self._make_room()
                scope = trio.CancelScope()
                self._live[scope] = None
                nursery.start_soon(self._converse, stream, scope)

    def _make_room(self) -> None:
        if len(self._live) >= self._bounds.connections:
            oldest = next(iter(self._live))
            del self._live[oldest]
            oldest.cancel()

    def _complain(self, error: OSError) -> None:
        if trio.current_time() >= self._quiet_until:
            self._quiet_until = trio.current_time() + ACCEPT_COMPLAINT_SECONDS
            self._log.warning("http_accept_failed", error=str(error))

    async def _converse(self, stream: trio.abc.HalfCloseableStream, scope: trio.CancelScope) -> None:
        """One connection's life. A fault in it is this connection's alone."""
        try:
            with scope:
                async with stream:
                    await _Conversation(stream, self._answer, self._bounds).run()
        except trio.BrokenResourceError:
            pass  # the client has gone: nobody to tell
        except Exception:  # noqa: BLE001  the boundary
            self._log.exception("http_connection_failed")
        finally:
            self._live.pop(scope, None)

    async def _answer(self, request: Request) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        handler = self._routes.get((method, request.path))
        if handler is None:
            return self._no_route(request.path)
        try:
            answer = handler(request)
            return answer if isinstance(answer, Response) else await answer
        except Exception:  # noqa: BLE001  the server outlives its handlers
            self._log.exception("http_handler_failed", method=request.method, path=request.path)
            return text("internal error: the log has the traceback", HTTPStatus.INTERNAL_SERVER_ERROR)

    def _no_route(self, path: str) -> Response:
        methods = [method for method, known in self._routes if known == path]
        if not methods:
            pages = ", ".join(sorted({known for _, known in self._routes}))
            return text(f"no such page; there are {pages}", HTTPStatus.NOT_FOUND)
        allow = ", ".join(methods + ["HEAD"] * ("GET" in methods))
        return Response(f"use {allow}\n".encode(), HTTPStatus.METHOD_NOT_ALLOWED, allow=allow)


class _Conversation:
    """The requests and responses of one connection."""

    def __init__(
        self, stream: trio.abc.HalfCloseableStream, answer: Callable[[Request], Awaitable[Response]], bounds: Bounds
    ) -> None:
        self._stream = stream
        self._answer = answer
        self._bounds = bounds
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MAX_HEAD)

    async def run(self) -> None:
        """Answer requests until one side has had enough."""
        begun = True  # the first request's time runs from accept
        while await self._one(begun=begun):
            begun = bool(self._http.trailing_data[0])  # pipelined
        # Closing with unread input makes the kernel send an RST, which would eat the answer to a bad request.
        await self._stream.send_eof()
        with trio.move_on_after(_LINGER_SECONDS):
            for _ in range(_LINGER_CHUNKS):
                if not await self._stream.receive_some(_CHUNK):
                    break

    async def _one(self, *, begun: bool) -> bool:
        """Answer one request, which has *begun* or is waited for. Whether another may follow."""
        request: Request | None = None
        try:
            with trio.move_on_after(self._bounds.read if begun else self._bounds.idle) as scope:
                request = await self._read(scope, begun=begun)
            if request is None:
                return False
            response = await self._answer(request)
        except h11.RemoteProtocolError as error:
            if self._http.our_state not in {h11.IDLE, h11.SEND_RESPONSE}:
                return False
            response = text(str(error), HTTPStatus(error.error_status_hint))
        with trio.move_on_after(self._bounds.write) as scope:
            await self._write(
                response, last=request is None, head_only=request is not None and request.method == "HEAD"
            )
        if scope.cancelled_caught or self._http.states != {h11.CLIENT: h11.DONE, h11.SERVER: h11.DONE}:
            return False
        self._http.start_next_cycle()
        return True

    async def _read(self, scope: trio.CancelScope, *, begun: bool) -> Request | None:
        """The next request, whose body is taken and thrown away; None where the client is done.

        A request that is waited for has, from its first byte on, the time of a whole one: *scope* gets it.
        """
        head: h11.Request | None = None
        body_left = MAX_BODY
        while True:
            match self._http.next_event():
                case h11.NEED_DATA:
                    if self._http.they_are_waiting_for_100_continue:
                        await self._send([h11.InformationalResponse(status_code=HTTPStatus.CONTINUE, headers=[])])
                    self._http.receive_data(bytes(await self._stream.receive_some(_CHUNK)))
                    if not begun:
                        begun, scope.deadline = True, trio.current_time() + self._bounds.read
                case h11.Request() as head:
                    pass
                case h11.Data(data=data):
                    body_left -= len(data)
                    if body_left < 0:
                        raise h11.RemoteProtocolError("body too large", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
                case h11.EndOfMessage() if head is not None:
                    return _request(head)
                case _:
                    return None

    async def _write(self, response: Response, *, last: bool, head_only: bool) -> None:
        headers = [
            ("Date", formatdate(usegmt=True)),
            ("Content-Type", response.content_type),
            ("Content-Length", str(len(response.body))),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
        ]
        if response.allow:
            headers.append(("Allow", response.allow))
        if last:
            headers.append(("Connection", "close"))
        events: list[h11.Event] = [
            h11.Response(status_code=response.status, reason=response.status.phrase, headers=headers)
        ]
        if not head_only:
            events.append(h11.Data(data=response.body))
        events.append(h11.EndOfMessage())
        await self._send(events)

    async def _send(self, events: Iterable[h11.Event]) -> None:
        """Send *events* in one piece: what fits into the socket's buffer is out before anything else can happen."""
        await self._stream.send_all(b"".join(self._http.send(event) or b"" for event in events))


def _request(head: h11.Request) -> Request:
    try:
        path = urlsplit(head.target.decode("ascii")).path  # the target may be a whole URL: RFC 9112, 3.2.2
    except ValueError as error:
        raise h11.RemoteProtocolError("bad request target") from error
    headers: dict[str, str] = {}
    for raw_name, raw_value in head.headers:
        name, value = raw_name.decode("ascii"), raw_value.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return Request(head.method.decode("ascii"), path, headers)
