import socket
from contextlib import asynccontextmanager, suppress

import pytest
import trio
import trio.testing
from OpenSSL import SSL

from sidecar.client import introduce, open_connection
from sidecar.dialler import (
    NoAnswerError,
    NotASidecarError,
    RefusedError,
    TlsRefusedError,
    UnprovenPeerError,
    UnreachableError,
    WrongPeerError,
    opening,
)
from sidecar.errors import MalformedValue
from sidecar.identity import Generation, Identity
from sidecar.preface.answer import Answer, write_answer
from sidecar.preface.claim import Claim
from sidecar.reasons import Advice
from sidecar.server_names import ServerRule
from sidecar.tls.client import ClientTls
from sidecar.tls.contexts import TlsVersion, server_context
from sidecar.tls.errors import TlsError
from sidecar.tls.stream import TlsStream
from tests.certificates import CA, HOUR
from tests.tls_handshakes import material

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


async def test_an_answer_that_came_before_a_send_broke_is_read():
    """A sidecar may refuse and close while the preface is still on its way."""
    ours, theirs = trio.testing.memory_stream_pair()
    await theirs.send_all(REFUSED)
    await theirs.aclose()
    with pytest.raises(RefusedError):
        await introduce(ours, CLAIM)


async def test_an_admission_of_what_was_not_sent_counts_for_nothing():
    ours, theirs = trio.testing.memory_stream_pair()
    await theirs.send_all(ADMITTED)
    await theirs.aclose()
    with pytest.raises(NoAnswerError, match="broke"):
        await introduce(ours, CLAIM)


# Inside TLS

ROOT, NOBODYS = CA("root"), CA("nobody's")
SLOT = "spiffe://example.org/prod-eu/replica-a/2/7"
SIDECAR = ROOT.issue(uris=[SLOT])
DIALLER = ROOT.issue()
VERSIONS = list(TlsVersion)


def client_tls(leaf=DIALLER, root=ROOT, rule="slot+generation"):
    return ClientTls(material(leaf, root), ServerRule.parse(rule), TlsVersion.TLS_1_2)


class TlsSidecar:
    """The fake one behind a handshake, of one version of TLS; keeps why that failed."""

    def __init__(self, plain, version):
        self.plain = plain
        self.context = server_context(material(SIDECAR, ROOT), version)
        self.context.set_max_proto_version(version.value)
        self.failure = None
        self.done = trio.Event()

    async def __call__(self, transport):
        stream = TlsStream(transport, SSL.Connection(self.context), server_side=True)
        try:
            await stream.do_handshake()
            await self.plain(stream)
        except (TlsError, trio.BrokenResourceError, AssertionError) as error:
            self.failure = error
        finally:
            self.done.set()
            await stream.aclose()


@asynccontextmanager
async def serving_tls(reply=b"", *, then="wait", version=TlsVersion.TLS_1_3):
    sidecar = TlsSidecar(FakeSidecar(reply, then), version)
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, sidecar, [listener])
        yield sidecar, listener.socket.getsockname()
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_claim_is_stated_and_admitted_inside_tls(version):
    async with (
        serving_tls(ADMITTED, then="echo", version=version) as (sidecar, address),
        await open_connection(address, CLAIM, tls=client_tls()) as stream,
    ):
        await stream.send_all(b"hello")
        assert await read_exactly(stream, 5) == b"hello"
        assert sidecar.plain.preface == opening(CLAIM)


async def test_inside_tls_too_what_the_process_sends_straight_after_the_answer_comes_first():
    async with (
        serving_tls(ADMITTED + b"server speaks first", then="end") as (_, address),
        await open_connection(address, CLAIM, tls=client_tls()) as stream,
    ):
        assert await read_exactly(stream, 19) == b"server speaks first"
        assert await stream.receive_some() == b""


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("leaf", "alert"),
    [
        (NOBODYS.issue(), "unknown ca"),
        (ROOT.issue(start=-HOUR, end=-1), "certificate expired"),
        (ROOT.issue(start=2 * HOUR, end=3 * HOUR), "bad certificate"),
    ],
)
async def test_a_sidecar_that_refuses_the_diallers_certificate_is_quoted(leaf, alert, version):
    """In TLS 1.3 its alert comes when the dialler's part is over and its preface is on the way: no RST eats it."""
    async with serving_tls(version=version) as (_, address):
        for _ in range(5):
            with pytest.raises(TlsRefusedError, match=f"the sidecar ended TLS with the alert '{alert}'") as caught:
                await open_connection(address, CLAIM, tls=client_tls(leaf))
            assert caught.value.advice is Advice.FIX


@pytest.mark.parametrize(
    ("tls", "claim", "error", "says"),
    [
        (client_tls(root=NOBODYS), CLAIM, UnprovenPeerError, "unknown_ca"),
        (client_tls(rule="dns:elsewhere"), CLAIM, WrongPeerError, "expected DNS name elsewhere"),
        (client_tls(), Claim(CLAIM.identity, Generation(8)), WrongPeerError, "expected slot .* at generation 8"),
    ],
)
async def test_a_sidecar_that_does_not_prove_itself_gets_no_preface(tls, claim, error, says):
    async with serving_tls(ADMITTED) as (sidecar, address):
        with pytest.raises(error, match=says):
            await open_connection(address, claim, tls=tls)
        await sidecar.done.wait()
        assert sidecar.plain.preface is None


@pytest.mark.parametrize(("reply", "error"), [(REFUSED, RefusedError), (OTHER, WrongPeerError)])
async def test_the_answer_counts_whatever_the_certificate_proves(reply, error):
    async with serving_tls(reply) as (_, address):
        with pytest.raises(error):
            await open_connection(address, CLAIM, tls=client_tls())


async def test_one_time_limit_holds_for_tls_and_the_answer():
    async with serving_tls() as (_, address):
        with pytest.raises(NoAnswerError, match=r"no answer within 0\.2 seconds"):
            await open_connection(address, CLAIM, tls=client_tls(), answer_within=0.2)


async def test_a_peer_that_is_silent_in_the_handshake_is_given_up():
    listening = trio.socket.socket()
    await listening.bind(("127.0.0.1", 0))
    listening.listen()
    with listening, pytest.raises(NoAnswerError, match=r"no TLS handshake within 0\.2 seconds"):
        await open_connection(listening.getsockname(), CLAIM, tls=client_tls(), answer_within=0.2)


async def test_an_end_without_close_notify_in_place_of_an_answer_is_a_break():
    async def cut(stream):
        await read_exactly(stream, len(opening(CLAIM)))
        await stream.transport.aclose()

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, TlsSidecar(cut, TlsVersion.TLS_1_3), [listener])
        with pytest.raises(NoAnswerError, match=r"TLS broke: .* without close_notify"):
            await open_connection(listener.socket.getsockname(), CLAIM, tls=client_tls())
        nursery.cancel_scope.cancel()


async def test_a_claim_that_cant_be_compared_is_refused_before_anything_is_dialled():
    with pytest.raises(MalformedValue, match="no generation to check"):
        await open_connection(("127.0.0.1", 9), Claim(CLAIM.identity), tls=client_tls())
