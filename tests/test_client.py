import socket
from contextlib import asynccontextmanager, suppress

import pytest
import trio
import trio.testing

from sidecar.client import introduce, open_connection
from sidecar.dialler import (
    NoAnswerError,
    NotASidecarError,
    RefusedError,
    UnreachableError,
    WrongPeerError,
    opening,
)
from sidecar.errors import MalformedValue
from sidecar.identity import Generation, Identity
from sidecar.preface.answer import Answer, write_answer
from sidecar.preface.claim import Claim
from sidecar.reasons import Advice

CLAIM = Claim(Identity("prod-eu", "replica-a", 2), Generation(7))
ADMITTED = write_answer(Answer("admitted", None, "", CLAIM.identity, CLAIM.generation), dialler=None, sidecar=None)
OTHER = write_answer(Answer("admitted", None, "", CLAIM.identity, Generation(8)), dialler=None, sidecar=None)
REFUSED = write_answer(Answer("generation_stale", Advice.REFRESH), dialler=None, sidecar=None)


async def read_exactly(stream, length):
    data = b""
    while len(data) < length:
        chunk = await stream.receive_some(length - len(data))
        assert chunk, "ended too early"
        data += chunk
    return data


class FakeSidecar:
    """Takes one connection, reads the whole preface, sends *reply*, then does what *then* says."""

    def __init__(self, reply, then):
        self.reply = reply
        self.then = then
        self.preface = None
        self.got_preface = trio.Event()
        self.saw_end = trio.Event()

    async def __call__(self, stream):
        self.preface = await read_exactly(stream, len(opening(CLAIM)))
        self.got_preface.set()
        await stream.send_all(self.reply)
        if self.then == "end":
            return
        if self.then == "echo":
            async for data in stream:
                await stream.send_all(data)
        elif self.then == "wait":
            with suppress(trio.BrokenResourceError):  # a reset, where the dialler left bytes of the reply unread
                assert await stream.receive_some() == b""  # nothing of the application
        self.saw_end.set()


@asynccontextmanager
async def serving(reply=b"", *, then="wait"):
    sidecar = FakeSidecar(reply, then)
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, sidecar, [listener])
        yield sidecar, listener.socket.getsockname()
        nursery.cancel_scope.cancel()


async def test_an_admitted_claim_gives_a_stream():
    async with serving(ADMITTED, then="echo") as (sidecar, address), await open_connection(address, CLAIM) as stream:
        await stream.send_all(b"hello")
        assert await read_exactly(stream, 5) == b"hello"
        await stream.send_eof()
        assert await stream.receive_some() == b""
        assert sidecar.preface == opening(CLAIM)


async def test_what_the_process_sends_straight_after_the_answer_comes_first():
    async with (
        serving(ADMITTED + b"server speaks first", then="end") as (_, address),
        await open_connection(address, CLAIM) as stream,
    ):
        assert await read_exactly(stream, 19) == b"server speaks first"
        assert await stream.receive_some() == b""


@pytest.mark.parametrize(
    ("reply", "error"),
    [(REFUSED, RefusedError), (OTHER, WrongPeerError), (b"HTTP/1.1 400 Bad Request\r\n\r\n", NotASidecarError)],
)
async def test_a_claim_that_is_not_admitted_leaves_no_connection_and_nothing_sent(reply, error):
    async with serving(reply) as (sidecar, address):
        with pytest.raises(error):
            await open_connection(address, CLAIM)
        await sidecar.saw_end.wait()


@pytest.mark.parametrize("reply", [b"", ADMITTED[:20]])
async def test_an_end_without_an_answer_is_an_error(reply):
    async with serving(reply, then="end") as (_, address):
        with pytest.raises(NoAnswerError, match="without an answer" if not reply else "after 20 bytes"):
            await open_connection(address, CLAIM)


@pytest.mark.parametrize("reply", [b"", ADMITTED[:-1]])
async def test_a_dialler_does_not_wait_for_ever(reply):
    async with serving(reply) as (sidecar, address):
        with pytest.raises(NoAnswerError, match=r"within 0\.2 seconds"):
            await open_connection(address, CLAIM, answer_within=0.2)
        await sidecar.saw_end.wait()


async def test_a_cancelled_dial_leaves_no_connection():
    async with serving() as (sidecar, address):
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(open_connection, address, CLAIM)
                await sidecar.got_preface.wait()
                scope.cancel()
        await sidecar.saw_end.wait()


async def test_a_reset_is_no_answer():
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")

        async def reset(stream):
            await read_exactly(stream, len(opening(CLAIM)))
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

        nursery.start_soon(trio.serve_listeners, reset, [listener])
        with pytest.raises(NoAnswerError, match="broke"):
            await open_connection(listener.socket.getsockname(), CLAIM)
        nursery.cancel_scope.cancel()


async def test_an_address_where_nobody_listens_is_unreachable(tmp_path):
    unused = trio.socket.socket()
    await unused.bind(("127.0.0.1", 0))  # bound and not listening: nobody else can take the port meanwhile
    with unused, pytest.raises(UnreachableError, match=r"^unreachable: Connection refused$") as caught:
        await open_connection(unused.getsockname(), CLAIM)
    assert caught.value.advice is Advice.RE_RESOLVE
    with pytest.raises(UnreachableError, match=r"^unreachable: No such file or directory$"):
        await open_connection(f"unix:{tmp_path}/nobody", CLAIM)
    with pytest.raises(UnreachableError, match=r"^unreachable: no host can have such a name$"):
        await open_connection("a..b:1", CLAIM)


async def test_text_that_is_no_address_is_refused_before_anything_is_dialled():
    with pytest.raises(MalformedValue, match="host:port"):
        await open_connection("7101", CLAIM)


async def test_a_unix_socket_can_be_dialled(tmp_path):
    listening = trio.socket.socket(socket.AF_UNIX)
    await listening.bind(str(tmp_path / "ctl.sock"))
    listening.listen()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, FakeSidecar(ADMITTED, "echo"), [trio.SocketListener(listening)])
        async with await open_connection(f"unix:{tmp_path}/ctl.sock", CLAIM) as stream:
            await stream.send_all(b"hello")
            assert await read_exactly(stream, 5) == b"hello"
        nursery.cancel_scope.cancel()


# On a stream that the caller made


async def test_an_answer_in_pieces_is_read_to_its_last_byte_and_not_further():
    ours, theirs = trio.testing.lockstep_stream_pair()

    async def answer():
        await read_exactly(theirs, len(opening(CLAIM)))
        for byte in ADMITTED:
            await theirs.send_all(bytes([byte]))
        await theirs.send_all(b"x")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer)
        await introduce(ours, CLAIM)
        assert await ours.receive_some() == b"x"


async def test_introducing_leaves_the_stream_to_its_maker():
    ours, theirs = trio.testing.memory_stream_pair()
    await theirs.send_all(REFUSED)
    with pytest.raises(RefusedError):
        await introduce(ours, CLAIM)
    await ours.send_all(b"still open")
