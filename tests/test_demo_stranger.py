from functools import partial

import pytest
import trio

from sidecar.demo import stranger
from sidecar.demo.difference import DiffersError
from sidecar.demo.stranger import REQUEST, connect_and_close, speak_http


async def serve(nursery, handle):
    (listener,) = await nursery.start(partial(trio.serve_tcp, handle, 0, host="127.0.0.1"))
    return listener.socket.getsockname()[1]


async def test_an_http_client_gives_back_all_that_it_got(nursery):
    got = []

    async def handle(stream):
        got.append(bytes(await stream.receive_some()))
        await stream.send_all(b"HTTP/1.1 400 No\r\n")
        await stream.send_all(b"\r\n")

    port = await serve(nursery, handle)
    assert await speak_http("127.0.0.1", port) == b"HTTP/1.1 400 No\r\n\r\n"
    assert got == [REQUEST]
    nursery.cancel_scope.cancel()


async def test_a_server_that_never_closes_is_a_difference(nursery, monkeypatch):
    monkeypatch.setattr(stranger, "CLOSED_SECONDS", 0.05)

    async def handle(stream):
        await trio.sleep_forever()

    port = await serve(nursery, handle)
    with pytest.raises(DiffersError, match=r"it took more than 0\.05 seconds"):
        await speak_http("127.0.0.1", port)
    nursery.cancel_scope.cancel()


async def test_a_reset_is_a_difference(nursery):
    async def handle(stream):
        stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        stream.socket.close()

    port = await serve(nursery, handle)
    with pytest.raises(DiffersError):
        await speak_http("127.0.0.1", port)
    nursery.cancel_scope.cancel()


async def test_a_health_check_says_nothing(nursery):
    heard = trio.Event()
    got = []

    async def handle(stream):
        got.append(await stream.receive_some())
        heard.set()

    await connect_and_close("127.0.0.1", await serve(nursery, handle))
    await heard.wait()
    assert got == [b""]
    nursery.cancel_scope.cancel()


async def test_nobody_to_check_is_a_difference():
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    await listener.aclose()
    with pytest.raises(DiffersError, match=f"a health check of 127.0.0.1:{port}"):
        await connect_and_close("127.0.0.1", port)
