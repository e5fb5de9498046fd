"""The HTTP server of our own pages: what it answers, and whom it doesn't let get in the way."""

from __future__ import annotations

import errno
import io
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPResponse
from typing import cast

import pytest
import trio
import trio.testing

from sidecar.http_server import MAX_BODY, MAX_HEAD, Bounds, Request, Response, Routes, serve, text

LARGE = b"x" * (8 << 20)  # more than both ends' socket buffers hold


@dataclass
class Log:
    """A logger that remembers."""

    lines: list[tuple[str, dict[str, object]]] = field(default_factory=list)

    def warning(self, event: str, **fields: object) -> None:
        self.lines.append((event, fields))

    exception = warning


class MemoryListener(trio.abc.Listener[trio.abc.HalfCloseableStream]):
    """Connections without sockets, for tests that make time pass by itself."""

    def __init__(self, *waiting: trio.abc.HalfCloseableStream) -> None:
        self._send, self._receive = trio.open_memory_channel[trio.abc.HalfCloseableStream](100)
        for stream in waiting:
            self._send.send_nowait(stream)

    def connect(self) -> trio.abc.HalfCloseableStream:
        ours, theirs = trio.testing.memory_stream_pair()
        self._send.send_nowait(theirs)
        return ours

    async def accept(self) -> trio.abc.HalfCloseableStream:
        return await self._receive.receive()

    async def aclose(self) -> None:
        await self._send.aclose()


class Unread(trio.abc.HalfCloseableStream):
    """A connection whose other end sends a request and then does nothing more."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self.closed = trio.Event()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        request, self._request = self._request, b""
        return request or await trio.sleep_forever()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await trio.sleep_forever()

    async def wait_send_all_might_not_block(self) -> None:
        await trio.sleep_forever()

    async def send_eof(self) -> None:
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        self.closed.set()


class ScriptedListener(MemoryListener):
    """A listener whose first accepts fail."""

    def __init__(self, *failures: Exception) -> None:
        super().__init__()
        self._failures = list(failures)

    async def accept(self) -> trio.abc.HalfCloseableStream:
        await trio.lowlevel.checkpoint()
        if self._failures:
            raise self._failures.pop(0)
        return await super().accept()


@dataclass
class Served:
    """A server that runs, and what it said to whom."""

    log: Log
    accept_errors: list[OSError]
    nursery: trio.Nursery


@asynccontextmanager
async def serving(
    listener: trio.abc.Listener[trio.abc.HalfCloseableStream], routes: Routes, bounds: Bounds | None = None
) -> AsyncIterator[Served]:
    log, errors = Log(), list[OSError]()
    async with trio.open_nursery() as nursery:

        async def run() -> None:
            await serve([listener], routes, log=log, on_accept_error=errors.append, bounds=bounds or Bounds())

        nursery.start_soon(run)
        yield Served(log, errors, nursery)
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def on_a_real_socket(routes: Routes, bounds: Bounds | None = None) -> AsyncIterator[int]:
    """The port on which *routes* are served."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener, serving(listener, routes, bounds):
        yield listener.socket.getsockname()[1]


def echo(request: Request) -> Response:
    return text(f"{request.method} {request.path} {request.headers.get('accept')}")


def fail(_request: Request) -> Response:
    raise RuntimeError("no idea")


ROUTES: Routes = {
    ("GET", "/echo"): echo,
    ("POST", "/echo"): echo,
    ("GET", "/fail"): fail,
    ("GET", "/large"): lambda _: Response(LARGE),
    ("POST", "/press"): lambda _: text("pressed"),
}


class _Raw:
    """Bytes, as the standard library's parser wants to have them."""

    def __init__(self, file: io.BytesIO) -> None:
        self._file = file

    def makefile(self, *_args: object) -> io.BytesIO:
        self._file.close = lambda: None  # type: ignore[method-assign]  # more responses may follow in it
        return self._file


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes


def parse(raw: bytes, *methods: str) -> list[Answer]:
    """The responses in *raw*, read by a parser that isn't ours; *methods* are those of the requests (default: GET)."""
    file, answers = io.BytesIO(raw), []
    while file.tell() < len(raw):
        method = methods[len(answers)] if len(answers) < len(methods) else "GET"
        response = HTTPResponse(cast("socket.socket", _Raw(file)), method=method)
        response.begin()
        headers = {name.lower(): value for name, value in response.getheaders()}
        answers.append(Answer(response.status, headers, response.read()))
    return answers


async def ask(stream: trio.abc.HalfCloseableStream, *requests: bytes) -> bytes:
    """Everything that comes back until the server closes."""
    for request in requests:
        await stream.send_all(request)
    await stream.send_eof()
    return b"".join([bytes(data) async for data in stream])


async def exchange(*requests: bytes, methods: tuple[str, ...] = ()) -> list[Answer]:
    """What the server of ROUTES answers on one connection."""
    listener = MemoryListener()
    async with serving(listener, ROUTES):
        return parse(await ask(listener.connect(), *requests), *methods)


def get(path: str, *headers: str, method: str = "GET") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", "Host: x", *headers, "", ""]).encode()


# --- what it answers


async def test_a_page_is_answered_by_its_handler() -> None:
    (answer,) = await exchange(get("/echo", "Accept: text/plain"))

    assert (answer.status, answer.body) == (200, b"GET /echo text/plain\n")
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["content-length"] == str(len(answer.body))


async def test_a_query_doesnt_change_which_page_it_is() -> None:
    (answer,) = await exchange(get("/echo?verbose=1&x=/fail"))

    assert answer.body == b"GET /echo None\n"


async def test_a_target_that_is_a_whole_url_is_understood() -> None:
    (answer,) = await exchange(get("http://127.0.0.1:9902/echo"))

    assert answer.body == b"GET /echo None\n"


async def test_headers_that_are_repeated_are_joined() -> None:
    (answer,) = await exchange(get("/echo", "Accept: a", "accept: b"))

    assert answer.body == b"GET /echo a, b\n"


async def test_head_is_get_without_the_body() -> None:
    (answer,) = await exchange(get("/echo", method="HEAD"), methods=("HEAD",))

    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["content-length"] == str(len("HEAD /echo None\n"))


async def test_an_unknown_page_is_not_found_and_the_known_ones_are_named() -> None:
    (answer,) = await exchange(get("/secrets"))

    assert answer.status == 404
    assert b"/echo" in answer.body


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [("DELETE", "/echo", "GET, POST, HEAD"), ("POST", "/large", "GET, HEAD"), ("GET", "/press", "POST")],
)
async def test_a_method_that_a_page_doesnt_have_is_answered_with_those_it_has(
    method: str, path: str, allow: str
) -> None:
    (answer,) = await exchange(get(path, method=method))

    assert (answer.status, answer.headers["allow"]) == (405, allow)


async def test_a_handler_that_fails_is_a_500_with_its_traceback_in_the_log_and_nothing_else() -> None:
    listener = MemoryListener()
    async with serving(listener, ROUTES) as served:
        first, second = parse(await ask(listener.connect(), get("/fail"), get("/echo")))

        assert first.status == 500
        assert b"no idea" not in first.body
        assert second.status == 200
        assert served.log.lines == [("http_handler_failed", {"method": "GET", "path": "/fail"})]


async def test_a_handler_that_waits_holds_up_its_own_connection_alone() -> None:
    may_answer = trio.Event()

    async def wait(_request: Request) -> Response:
        await may_answer.wait()
        return text("at last")

    listener = MemoryListener()
    async with serving(listener, {**ROUTES, ("GET", "/wait"): wait}), trio.open_nursery() as nursery:
        answers: list[Answer] = []

        async def ask_and_wait() -> None:
            answers.extend(parse(await ask(listener.connect(), get("/wait"), get("/echo"))))

        nursery.start_soon(ask_and_wait)
        await trio.testing.wait_all_tasks_blocked()
        (other,) = parse(await ask(listener.connect(), get("/echo")))
        assert (other.status, answers) == (200, [])
        may_answer.set()
    assert [answer.body for answer in answers] == [b"at last\n", b"GET /echo None\n"]


async def test_a_handler_that_fails_after_it_has_waited_is_a_500_too() -> None:
    async def fail(_request: Request) -> Response:
        await trio.lowlevel.checkpoint()
        raise LookupError("no idea")

    listener = MemoryListener()
    async with serving(listener, {("GET", "/fail"): fail}) as served:
        (answer,) = parse(await ask(listener.connect(), get("/fail")))
        assert answer.status == 500
        assert [event for event, _ in served.log.lines] == ["http_handler_failed"]


# --- connections


async def test_pipelined_requests_are_answered_in_their_order() -> None:
    answers = await exchange(b"".join(get("/echo", f"Accept: {n}") for n in range(20)))

    assert [answer.body for answer in answers] == [f"GET /echo {n}\n".encode() for n in range(20)]


async def test_a_request_in_pieces_of_one_byte_is_one_request() -> None:
    listener = MemoryListener()
    async with serving(listener, ROUTES):
        raw = await ask(listener.connect(), *(bytes([byte]) for byte in get("/echo") + get("/echo")))

    assert [answer.status for answer in parse(raw)] == [200, 200]


@pytest.mark.parametrize("request_", [get("/echo", "Connection: close"), b"GET /echo HTTP/1.0\r\n\r\n"])
async def test_who_wants_the_connection_closed_gets_it_closed(request_: bytes) -> None:
    listener = MemoryListener()
    async with serving(listener, ROUTES):
        stream = listener.connect()
        await stream.send_all(request_)
        answers = parse(b"".join([bytes(data) async for data in stream]))

    assert [answer.status for answer in answers] == [200]


async def test_a_body_is_taken_and_thrown_away() -> None:
    post = get("/press", "Content-Length: 5", method="POST") + b"hello"

    assert [answer.status for answer in await exchange(post, post)] == [200, 200]


async def test_a_client_that_asks_before_it_sends_its_body_is_told_to_go_on() -> None:
    listener = MemoryListener()
    async with serving(listener, ROUTES):
        stream = listener.connect()
        await stream.send_all(get("/press", "Expect: 100-continue", "Content-Length: 2", method="POST"))
        assert bytes(await stream.receive_some()).startswith(b"HTTP/1.1 100 ")

        (answer,) = parse(await ask(stream, b"ok"))

    assert answer.status == 200


async def test_a_connection_that_closes_without_a_word_is_no_error() -> None:
    listener = MemoryListener()
    async with serving(listener, ROUTES) as served:
        assert await ask(listener.connect()) == b""

    assert served.log.lines == []


# --- bad requests


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
        b"\x0d\x0a\x0d\x0a\x00\x0d\x0a\x51\x55\x49\x54\x0a" + bytes(50),
        b"GET /echo\r\n\r\n",
        b"GET /echo HTTP/1.1\r\n\r\n",
        b"GET /echo HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
        b"GET /echo HTTP/1.1\r\nHost x\r\n\r\n",
        b"GET http://[::1/echo HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /echo HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /press HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nhalf",
    ],
)
async def test_what_is_no_request_is_answered_once_and_the_connection_closed(garbage: bytes) -> None:
    listener = MemoryListener()
    async with serving(listener, ROUTES) as served:
        (answer,) = parse(await ask(listener.connect(), garbage))

    assert answer.status == 400
    assert answer.headers["connection"] == "close"
    assert served.log.lines == []


async def test_headers_without_end_are_refused() -> None:
    (answer,) = await exchange(b"GET /echo HTTP/1.1\r\nHost: x\r\nX: " + b"a" * (MAX_HEAD + 1))

    assert answer.status == 431


@pytest.mark.parametrize(
    "body",
    [
        b"Content-Length: %d\r\n\r\n" % (MAX_BODY + 1) + b"a" * (MAX_BODY + 1),
        b"Transfer-Encoding: chunked\r\n\r\n" + (b"400\r\n" + b"a" * 0x400 + b"\r\n") * 5,
    ],
)
async def test_a_body_that_is_too_large_is_refused(body: bytes) -> None:
    (answer,) = await exchange(b"POST /press HTTP/1.1\r\nHost: x\r\n" + body)

    assert (answer.status, answer.headers["connection"]) == (413, "close")


async def test_the_answer_to_a_bad_request_reaches_a_client_that_is_still_sending() -> None:
    """Closing at once would reset the connection under the client's hands, and a reset can eat the answer."""
    async with on_a_real_socket(ROUTES) as port, await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(b"bad\r\n\r\n")
        for _ in range(3):
            await trio.testing.wait_all_tasks_blocked(0.01)
            await stream.send_all(bytes(10_000))

        assert [answer.status for answer in parse(await ask(stream))] == [400]


# --- deadlines: time passes by itself, so nothing here really waits


async def seconds_until_closed(stream: trio.abc.ReceiveStream) -> float:
    started = trio.current_time()
    while await stream.receive_some():
        pass
    return trio.current_time() - started


async def test_a_client_that_says_nothing_is_let_go(autojump_clock: trio.testing.MockClock) -> None:
    listener = MemoryListener()
    async with serving(listener, ROUTES, Bounds(read=5)):
        assert await seconds_until_closed(listener.connect()) == pytest.approx(5)


async def test_the_deadline_for_a_request_is_for_all_of_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    listener = MemoryListener()
    async with serving(listener, ROUTES, Bounds(read=5)) as served:
        stream = listener.connect()

        async def drip() -> None:
            with suppress(trio.BrokenResourceError):
                for byte in get("/echo"):
                    await stream.send_all(bytes([byte]))
                    await trio.sleep(1)

        served.nursery.start_soon(drip)
        assert await seconds_until_closed(stream) == pytest.approx(5)


async def test_a_connection_may_rest_between_requests_and_then_has_time_for_a_whole_one(
    autojump_clock: trio.testing.MockClock,
) -> None:
    listener = MemoryListener()
    async with serving(listener, ROUTES, Bounds(read=5, idle=30)):
        stream = listener.connect()
        await stream.send_all(get("/echo"))
        await stream.receive_some()
        await trio.sleep(29)
        await stream.send_all(get("/echo"))
        assert parse(bytes(await stream.receive_some()))[0].status == 200

        await trio.sleep(29)
        await stream.send_all(b"GET")

        assert await seconds_until_closed(stream) == pytest.approx(5)


async def test_a_connection_that_rests_too_long_is_let_go(autojump_clock: trio.testing.MockClock) -> None:
    listener = MemoryListener()
    async with serving(listener, ROUTES, Bounds(read=5, idle=30)):
        stream = listener.connect()
        await stream.send_all(get("/echo"))
        await stream.receive_some()

        assert await seconds_until_closed(stream) == pytest.approx(30)


# --- many at once


async def test_a_good_client_is_served_among_fifty_that_send_and_fifty_that_read_a_byte_at_a_time() -> None:
    async def send_slowly(port: int) -> None:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream:
            with suppress(trio.BrokenResourceError):  # made room
                for byte in get("/echo"):
                    await stream.send_all(bytes([byte]))
                    await trio.sleep(1)

    async def read_slowly(port: int) -> None:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream:
            with suppress(trio.BrokenResourceError):
                await stream.send_all(get("/large"))
                for _ in LARGE:
                    await stream.receive_some(1)
                    await trio.sleep(1)

    async with on_a_real_socket(ROUTES) as port, trio.open_nursery() as nursery:
        for _ in range(50):
            nursery.start_soon(send_slowly, port)
            nursery.start_soon(read_slowly, port)
        await trio.testing.wait_all_tasks_blocked(0.05)

        with trio.fail_after(1):
            for _ in range(3):
                stream = await trio.open_tcp_stream("127.0.0.1", port)
                async with stream:
                    (answer,) = parse(await ask(stream, get("/echo", "Connection: close")))
                    assert answer.status == 200
        nursery.cancel_scope.cancel()


async def test_in_a_full_house_the_oldest_gives_way() -> None:
    listener = MemoryListener()
    async with serving(listener, ROUTES, Bounds(connections=2)):
        first, second, third = listener.connect(), listener.connect(), listener.connect()
        await trio.testing.wait_all_tasks_blocked()

        assert await first.receive_some() == b""
        for stream in (second, third):
            assert [answer.status for answer in parse(await ask(stream, get("/echo")))] == [200]


async def test_who_has_left_takes_no_place() -> None:
    listener = MemoryListener()
    async with serving(listener, ROUTES, Bounds(connections=2)):
        first = listener.connect()
        for _ in range(5):
            await ask(listener.connect(), get("/echo"))
            await trio.testing.wait_all_tasks_blocked()

        assert [answer.status for answer in parse(await ask(first, get("/echo")))] == [200]


async def test_a_client_that_reads_nothing_is_let_go_in_time(autojump_clock: trio.testing.MockClock) -> None:
    unread = Unread(get("/echo"))
    async with serving(MemoryListener(unread), ROUTES, Bounds(write=30)):
        started = trio.current_time()
        await unread.closed.wait()

    assert 30 <= trio.current_time() - started < 32


# --- the kernel's errors, and the end


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENOBUFS, errno.EPROTO])
async def test_an_accept_error_is_counted_said_once_and_tried_again(
    number: int, autojump_clock: trio.testing.MockClock
) -> None:
    listener = ScriptedListener(*(OSError(number, "not now") for _ in range(50)))
    async with serving(listener, ROUTES) as served:
        answers = parse(await ask(listener.connect(), get("/echo")))

    assert [answer.status for answer in answers] == [200]
    assert len(served.accept_errors) == 50
    assert [event for event, _ in served.log.lines] == ["http_accept_failed"]


async def test_a_listener_that_was_closed_ends_accepting_and_not_the_server() -> None:
    listener = ScriptedListener(trio.ClosedResourceError())

    with trio.fail_after(5):
        await serve([listener], ROUTES, log=Log(), on_accept_error=lambda _: None)


async def test_a_fault_in_one_connection_is_logged_and_ends_that_one() -> None:
    def no_status(_request: Request) -> Response:
        return Response(b"", status=cast("HTTPStatus", 200))  # without a phrase: a fault of ours

    listener = MemoryListener()
    async with serving(listener, {**ROUTES, ("GET", "/wrong"): no_status}) as served:
        assert await ask(listener.connect(), get("/wrong")) == b""
        assert [answer.status for answer in parse(await ask(listener.connect(), get("/echo")))] == [200]

    assert [event for event, _ in served.log.lines] == ["http_connection_failed"]


async def test_cancelling_the_server_ends_its_connections_and_leaves_the_listener_open() -> None:
    listener = MemoryListener()
    async with serving(listener, ROUTES):
        stream = listener.connect()
        await stream.send_all(get("/echo"))
        await stream.receive_some()

    assert await stream.receive_some() == b""
    listener.connect()  # the channel is open


async def test_an_answer_is_out_before_what_its_handler_set_off() -> None:
    """A button that ends the server is still answered."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    pressed = trio.Event()

    def press(_request: Request) -> Response:
        pressed.set()
        return text("ended")

    async def run() -> None:
        await serve([listener], {("POST", "/press"): press}, log=Log(), on_accept_error=lambda _: None)

    stream = await trio.open_tcp_stream("127.0.0.1", listener.socket.getsockname()[1])
    async with listener, trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await stream.send_all(get("/press", method="POST"))
        await pressed.wait()
        nursery.cancel_scope.cancel()

    async with stream:
        answers = parse(b"".join([bytes(data) async for data in stream]))
    assert [answer.body for answer in answers] == [b"ended\n"]
