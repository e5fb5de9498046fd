"""A TLS connection as a trio stream: what trio asks of one, ends told apart, alerts, half-close, back-pressure."""

from __future__ import annotations

import random
from functools import partial

import pytest
import trio
import trustme
from OpenSSL import SSL
from trio.testing import (
    check_half_closeable_stream,
    lockstep_stream_pair,
    memory_stream_pair,
    wait_all_tasks_blocked,
)

from sidecar.tls.errors import TlsError
from sidecar.tls.stream import RECORD, TlsStream
from tests.wires import receive_all, tcp_pair

OURS, THEIRS = trustme.CA(), trustme.CA()
SIDECAR = OURS.issue_cert("sidecar.example")
CONTROLLER = OURS.issue_cert("controller.example")
STRANGER = THEIRS.issue_cert("stranger.example")

PAIRS = {"memory": memory_stream_pair, "lockstep": lockstep_stream_pair, "sockets": tcp_pair}
VERSIONS = [SSL.TLS1_2_VERSION, SSL.TLS1_3_VERSION]


def context(certificate=None, *, trusted=OURS, version=SSL.TLS1_3_VERSION, tickets=True):
    """A context that demands the peer's certificate. Tickets are on unless said otherwise: they are what may block."""
    made = SSL.Context(SSL.TLS_METHOD)
    made.set_min_proto_version(version)
    made.set_max_proto_version(version)
    if not tickets:
        made.set_options(SSL.OP_NO_TICKET)
    made.set_verify(SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT)
    made.set_session_id(b"test")
    trusted.configure_trust(made)
    if certificate is not None:
        certificate.configure_cert(made)
    return made


async def pair_over(make_transports, *, client=CONTROLLER, client_trusts=OURS, **options):
    """A client and a server that haven't shaken hands."""
    transports = make_transports()
    near, far = transports if isinstance(transports, tuple) else await transports
    dialler = context(client, trusted=client_trusts, **options)
    server = context(SIDECAR, **options)
    return (
        TlsStream(near, SSL.Connection(dialler)),
        TlsStream(far, SSL.Connection(server), server_side=True),
    )


async def established(make_transports=memory_stream_pair, **options):
    """A client and a server that have."""
    client, server = await pair_over(make_transports, **options)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.do_handshake)
        nursery.start_soon(server.do_handshake)
    return client, server


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("tickets", [True, False])
@pytest.mark.parametrize("transport", ["memory", "sockets"])
async def test_it_is_a_stream_as_trio_defines_one(transport, version, tickets):
    """Where a stream that is clogged is asked for, a lockstep pair is: it has no buffer at all."""
    maker = partial(established, PAIRS[transport], version=version, tickets=tickets)
    clogged_maker = partial(established, lockstep_stream_pair, version=version, tickets=tickets)
    await check_half_closeable_stream(maker, clogged_maker)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("transport", PAIRS)
async def test_ten_megabytes_each_way_at_once_arrive_exactly(transport, version):
    size = 10_000_000
    there, back = random.Random(1).randbytes(size), random.Random(2).randbytes(size)
    client, server = await established(PAIRS[transport], version=version)

    async def send(stream, data, seed):
        sizes = random.Random(seed)
        rest = memoryview(data)
        while rest:
            count = sizes.choice([1, 100, 16_384, 16_385, 200_000, 1_000_000])
            await stream.send_all(rest[:count])
            rest = rest[count:]
        await stream.send_eof()

    async def receive(stream, expected, seed):
        sizes = random.Random(seed)
        got = bytearray()
        while data := await stream.receive_some(sizes.choice([1, 50, 16_384, 1_000_000])):
            got += data
            if sizes.random() < 0.01:  # slowly: the others get their turn first
                await wait_all_tasks_blocked()
        assert got == expected

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send, client, there, 3)
        nursery.start_soon(send, server, back, 4)
        nursery.start_soon(receive, server, there, 5)
        nursery.start_soon(receive, client, back, 6)
    for stream in (client, server):
        await stream.aclose()


class CountingTransport(trio.abc.Stream):
    """Passes everything on and remembers the largest piece that it was asked to send."""

    def __init__(self, transport):
        self.transport = transport
        self.largest = self.sent = 0

    async def send_all(self, data):
        self.largest = max(self.largest, len(data))
        await self.transport.send_all(data)
        self.sent += len(data)

    async def wait_send_all_might_not_block(self):
        await self.transport.wait_send_all_might_not_block()

    async def receive_some(self, max_bytes=None):
        return await self.transport.receive_some(max_bytes)

    async def aclose(self):
        await self.transport.aclose()


async def test_a_peer_that_reads_nothing_stops_the_sender_with_one_record_encrypted(nursery):
    near, far = await tcp_pair(buffers=16 * 1024)
    counting = CountingTransport(near)
    client = TlsStream(counting, SSL.Connection(context(CONTROLLER)))
    server = TlsStream(far, SSL.Connection(context(SIDECAR)), server_side=True)
    async with near, far:
        nursery.start_soon(server.do_handshake)
        await client.do_handshake()
        nursery.start_soon(client.send_all, bytes(10_000_000))
        await wait_all_tasks_blocked(0.05)
        assert counting.sent < 1_000_000
        assert counting.largest < RECORD + 300
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("transport", PAIRS)
async def test_two_that_send_first_do_not_wait_for_each_other(transport):
    """A TLS 1.3 server has tickets for the client when the handshake is over; here the client doesn't read them yet."""
    client, server = await established(PAIRS[transport])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.send_all, b"preface")
        assert await server.receive_some() == b"preface"
    async with trio.open_nursery() as nursery:
        nursery.start_soon(server.send_all, b"answer")
        assert await client.receive_some() == b"answer"
    for stream in (client, server):
        await trio.aclose_forcefully(stream)


@pytest.mark.parametrize("version", VERSIONS)
async def test_after_an_end_of_sending_the_peers_bytes_go_on_coming(version):
    client, server = await established(version=version)
    await client.send_all(b"question")
    await client.send_eof()
    assert await receive_all(server) == b"question"
    await server.send_all(b"a long answer")
    await server.aclose()
    assert await receive_all(client) == b"a long answer"


async def test_an_end_of_sending_twice_sends_one_close_notify():
    client, server = await established()
    await client.send_eof()
    await client.send_eof()
    await client.aclose()
    assert await receive_all(server) == b""


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_transport_that_ends_without_close_notify_is_no_clean_end(version):
    client, server = await established(version=version)
    await client.send_all(b"half a mess")
    await client.transport.send_eof()
    assert await server.receive_some() == b"half a mess"
    for _ in range(2):  # it stays so
        with pytest.raises(trio.BrokenResourceError, match="without close_notify") as broken:
            await server.receive_some()
        assert isinstance(broken.value.__cause__, TlsError)
    with pytest.raises(trio.BrokenResourceError, match="without close_notify"):
        await server.send_all(b"answer")


async def test_closing_sends_close_notify_and_does_not_wait_for_one():
    client, server = await established()
    await client.send_all(b"all of it")
    await client.aclose()
    assert await receive_all(server) == b"all of it"


async def test_closing_after_the_peer_has_gone_raises_nothing():
    client, server = await established(tcp_pair)
    await trio.aclose_forcefully(server.transport)
    await client.aclose()
    with pytest.raises(trio.ClosedResourceError):
        await client.receive_some()


async def test_a_send_that_is_cut_short_ends_in_no_close_notify(autojump_clock):
    """A clean end after half of what was meant would be a lie."""
    client, server = await established(lockstep_stream_pair)
    with trio.move_on_after(1) as scope:
        await client.send_all(b"never read")
    assert scope.cancelled_caught
    with pytest.raises(trio.BrokenResourceError, match="cut short"):
        await client.send_all(b"more")
    await client.aclose()
    with pytest.raises(trio.BrokenResourceError, match="without close_notify"):
        await receive_all(server)


async def test_closing_while_another_task_sends_breaks_that_send_off(nursery):
    client, server = await established(lockstep_stream_pair)

    async def send():
        with pytest.raises(trio.ClosedResourceError):
            await client.send_all(b"never read")

    nursery.start_soon(send)
    await wait_all_tasks_blocked()
    await client.aclose()
    with pytest.raises(trio.BrokenResourceError, match="without close_notify"):
        await receive_all(server)


async def test_closing_between_two_records_of_a_send_is_no_clean_end():
    client, server = await established()

    async def send():
        with pytest.raises((trio.BrokenResourceError, trio.ClosedResourceError)):
            await client.send_all(bytes(10 * RECORD))

    async with trio.open_nursery() as nursery, client._order:  # the sender has to wait with its first record
        nursery.start_soon(send)
        await wait_all_tasks_blocked()
        nursery.start_soon(client.aclose)
        await wait_all_tasks_blocked()
    with pytest.raises(trio.BrokenResourceError, match="without close_notify"):
        await receive_all(server)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("transport", PAIRS)
async def test_a_refused_client_reads_why(transport, version):
    client, server = await pair_over(PAIRS[transport], client=STRANGER, version=version)

    async def dial():
        if version == SSL.TLS1_3_VERSION:
            await client.do_handshake()  # it knows nothing yet
            with pytest.raises(trio.BrokenResourceError, match=r"the peer refused: .*alert unknown ca") as refused:
                await client.receive_some()
            assert isinstance(refused.value.__cause__, TlsError)
        else:
            with pytest.raises(TlsError, match=r"the peer refused: .*alert unknown ca"):
                await client.do_handshake()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(dial)
        with pytest.raises(TlsError, match="certificate verify failed") as failed:
            await server.do_handshake()
        assert isinstance(failed.value.__cause__, SSL.Error)
        await server.aclose()
    await client.aclose()


async def test_a_client_without_certificate_reads_that_one_is_required():
    client, server = await pair_over(memory_stream_pair, client=None)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.do_handshake)
        with pytest.raises(TlsError, match="peer did not return a certificate"):
            await server.do_handshake()
    with pytest.raises(trio.BrokenResourceError, match=r"the peer refused: .*certificate required"):
        await client.receive_some()


async def test_a_client_that_trusts_another_authority_says_so_to_the_server():
    client, server = await pair_over(memory_stream_pair, client_trusts=THEIRS)

    async def serve():
        with pytest.raises(TlsError, match=r"the peer refused: .*alert unknown ca"):
            await server.do_handshake()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        with pytest.raises(TlsError, match="certificate verify failed"):
            await client.do_handshake()
        await client.aclose()


async def test_an_alert_that_nobody_reads_holds_the_server_for_a_second(autojump_clock):
    near, far = lockstep_stream_pair()
    client = SSL.Connection(context(STRANGER))
    client.set_connect_state()
    server = TlsStream(far, SSL.Connection(context(SIDECAR)), server_side=True)

    async def shake_hands_and_read_no_more():
        for _ in range(2):
            try:
                client.do_handshake()
            except SSL.WantReadError:
                await near.send_all(client.bio_read(1 << 16))
                client.bio_write(await near.receive_some(1 << 16))
        await near.send_all(client.bio_read(1 << 16))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(shake_hands_and_read_no_more)
        started = trio.current_time()
        with pytest.raises(TlsError, match="certificate verify failed"):
            await server.do_handshake()
        assert trio.current_time() - started == pytest.approx(1)


@pytest.mark.parametrize("said", [b"", b"\x16\x03\x01"])
async def test_a_peer_that_goes_in_mid_handshake_is_named(said):
    near, far = memory_stream_pair()
    server = TlsStream(far, SSL.Connection(context(SIDECAR)), server_side=True)
    await near.send_all(said)
    await near.send_eof()
    with pytest.raises(TlsError, match="closed in mid-handshake"):
        await server.do_handshake()
    with pytest.raises(trio.BrokenResourceError, match="closed in mid-handshake"):
        await server.do_handshake()
    await server.aclose()


@pytest.mark.parametrize("said", [b"GET / HTTP/1.1\r\n\r\n", b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c" + bytes(12)])
async def test_a_peer_that_speaks_no_tls_is_a_failure_at_once(said):
    near, far = memory_stream_pair()
    server = TlsStream(far, SSL.Connection(context(SIDECAR)), server_side=True)
    await near.send_all(said)
    with pytest.raises(TlsError):
        await server.do_handshake()


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_damaged_record_breaks_the_stream_and_the_peer_hears_of_it(version):
    client, server = await established(version=version)
    await client.transport.send_all(b"\x17\x03\x03\x00\x20" + bytes(32))
    with pytest.raises(trio.BrokenResourceError, match="decryption failed or bad record mac"):
        await server.receive_some()
    with pytest.raises(trio.BrokenResourceError, match=r"the peer refused: .*bad record mac"):
        await receive_all(client)
    await server.aclose()


async def test_an_alert_can_still_be_read_after_a_send_that_broke():
    client, server = await pair_over(memory_stream_pair, client=STRANGER)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.do_handshake)
        with pytest.raises(TlsError):
            await server.do_handshake()
    await server.aclose()
    with pytest.raises(trio.BrokenResourceError):
        await client.send_all(b"preface")
    with pytest.raises(trio.BrokenResourceError, match="alert unknown ca"):
        await client.receive_some()


async def test_a_record_cut_into_single_bytes_is_put_together_again():
    near, middle = memory_stream_pair()
    client = TlsStream(near, SSL.Connection(context(CONTROLLER)))
    other, far = memory_stream_pair()
    server = TlsStream(far, SSL.Connection(context(SIDECAR)), server_side=True)

    async def drip(source, sink):
        async for data in source:
            for byte in data:
                await sink.send_all(bytes([byte]))
        await sink.send_eof()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(drip, middle, other)
        nursery.start_soon(drip, other, middle)
        async with trio.open_nursery() as both:
            both.start_soon(server.do_handshake)
            both.start_soon(client.do_handshake)
        await client.send_all(b"question")
        assert await server.receive_some(8) == b"question"
        nursery.cancel_scope.cancel()


async def test_bytes_that_openssl_holds_already_need_no_transport():
    client, server = await established()
    await client.send_all(b"abc")
    assert [await server.receive_some(1) for _ in range(3)] == [b"a", b"b", b"c"]


async def test_a_second_handshake_does_nothing():
    client, _ = await established()
    await client.do_handshake()


async def test_a_stream_before_its_handshake_sends_and_receives_nothing():
    client, server = await pair_over(memory_stream_pair)
    for call in (client.send_all(b"x"), client.receive_some(), client.send_eof()):
        with pytest.raises(RuntimeError, match="do_handshake"):
            await call
    await client.aclose()
    assert await receive_all(server.transport) == b""


async def test_a_cancelled_handshake_closes_without_a_word(autojump_clock):
    client, server = await pair_over(memory_stream_pair)
    with trio.move_on_after(1):
        await server.do_handshake()
    await server.aclose()
    assert await receive_all(client.transport) == b""
