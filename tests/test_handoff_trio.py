"""The trio receiver, with a fake sidecar over real sockets in a thread's place: its calls are short and bounded."""

from __future__ import annotations

import os
import socket
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
from fake_lifeline import FakeSidecar, disconnect, ended, packet, receive, sidecar_at, tcp_pair, unix_pair, was_reset
from trio.testing import check_half_closeable_stream, wait_all_tasks_blocked

from sidecar.handoff.listening import NoLifelineError, WrongUserError
from sidecar.handoff.trio import HandedStream, serve
from sidecar.handoff_format import LifelineError, read_packet
from tests.names import CLAIM

in_thread = trio.to_thread.run_sync


@pytest.fixture
def path(tmp_path):
    return tmp_path / "handoff.sock"


class Handler:
    """Keeps every stream, until the test lets it go."""

    def __init__(self):
        self.arrived, self.streams = trio.open_memory_channel(100)
        self.cancelled = []
        self.may_end = trio.Event()
        self.may_return_when_cancelled = trio.Event()
        self.may_return_when_cancelled.set()

    async def __call__(self, stream):
        await self.arrived.send(stream)
        try:
            await self.may_end.wait()
        except trio.Cancelled:
            self.cancelled.append(stream.about.number)
            with trio.CancelScope(shield=True):
                await self.may_return_when_cancelled.wait()
            raise


@pytest.fixture
def handler():
    return Handler()


@asynccontextmanager
async def serving(path, handler, **options):
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(serve, path, handler, **options))
        yield
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def lifeline(path):
    sidecar = await in_thread(sidecar_at, path)
    try:
        yield sidecar
    finally:
        sidecar.die()


async def test_a_stream_begins_with_the_left_over_bytes_and_goes_on_with_those_that_come(path, handler):
    async with serving(path, handler), lifeline(path) as sidecar:
        client = await in_thread(partial(sidecar.give, 41, answer=b"answer ", first=b"left over"))
        with client:
            stream = await handler.streams.receive()
            assert (stream.about.number, stream.about.identity) == (41, CLAIM.identity)
            client.sendall(b" and new")
            assert await stream.receive_some(4) == b"left"
            assert await stream.receive_some() == b" over"
            assert await stream.receive_some() == b" and new"
            await stream.send_all(b"own bytes")
            assert receive(client, 16) == b"answer own bytes"


async def test_when_the_handler_returns_the_connection_has_ended_for_client_and_sidecar(path, handler):
    async with serving(path, handler), lifeline(path) as sidecar:
        with await in_thread(sidecar.give) as client:
            handler.may_end.set()
            assert await in_thread(ended, sidecar.duplicates[0])
            assert not was_reset(client)


async def test_at_the_lifelines_end_connections_are_reset_and_handlers_cancelled(path, handler):
    async with serving(path, handler), lifeline(path) as sidecar:
        clients = [await in_thread(sidecar.give, number) for number in (1, 2, 3)]
        sidecar.die()
        assert [await in_thread(was_reset, client) for client in clients] == [True] * 3
        async with lifeline(path):
            assert sorted(handler.cancelled) == [1, 2, 3]
        for client in clients:
            client.close()


async def test_a_second_lifeline_waits_until_the_last_handler_of_the_first_has_returned(path, handler):
    handler.may_return_when_cancelled = trio.Event()
    async with serving(path, handler), lifeline(path) as first:
        with await in_thread(first.give) as client, FakeSidecar(path) as second:
            await handler.streams.receive()
            first.die()
            await wait_all_tasks_blocked(0.02)
            assert handler.cancelled == [1]
            assert was_reset(client)
            second.lifeline.settimeout(0)
            with pytest.raises(BlockingIOError):
                second.reply()
            second.lifeline.settimeout(10)
            handler.may_return_when_cancelled.set()
            assert await in_thread(second.reply) == "ready 1"


async def test_a_cut_breaks_the_stream_and_no_other(path, handler):
    async with serving(path, handler), lifeline(path) as sidecar:
        with await in_thread(sidecar.give, 1) as client, await in_thread(sidecar.give, 2) as other:
            cut, spared = await handler.streams.receive(), await handler.streams.receive()
            disconnect(sidecar.duplicates[0])
            with pytest.raises(trio.BrokenResourceError):
                await cut.receive_some()
            with pytest.raises(trio.BrokenResourceError):
                await cut.send_all(b"x")
            assert was_reset(client)
            await spared.send_all(b"y")
            assert receive(other, 1) == b"y"


async def test_a_full_receiver_refuses_until_a_handler_has_returned(path, handler):
    async with serving(path, handler, capacity=1), lifeline(path) as sidecar:
        with await in_thread(sidecar.give, 1):
            client, accepted = tcp_pair()
            sidecar.hand_over(accepted, 2)
            assert await in_thread(sidecar.reply) == "refused 2 full"
            handler.may_end.set()
            assert await in_thread(ended, sidecar.duplicates[0])
            (await in_thread(sidecar.give, 3)).close()
            client.close()


async def test_a_broken_packet_ends_the_lifeline_and_is_reported(path, handler):
    faults = []
    async with serving(path, handler, on_fault=faults.append), lifeline(path) as sidecar:
        with await in_thread(sidecar.give) as client:
            sidecar.send(packet(None))
            assert await in_thread(sidecar.reply) == ""
            assert await in_thread(was_reset, client)
            assert [type(fault) for fault in faults] == [LifelineError]
        async with lifeline(path) as again:
            (await in_thread(again.give)).close()


async def test_nobody_but_its_users_may_hand_connections_over(path, handler):
    faults = []
    async with serving(path, handler, uids=[os.geteuid() + 1], on_fault=faults.append):
        with FakeSidecar(path) as sidecar:
            assert await in_thread(sidecar.reply) == ""
    assert [type(fault) for fault in faults] == [WrongUserError]


async def test_a_handlers_exception_comes_out_and_every_connection_is_reset(path):
    async def fail(stream):
        if stream.about.number == 2:
            raise RuntimeError("a bug")
        await trio.sleep_forever()

    clients = []
    with pytest.RaisesGroup(RuntimeError, flatten_subgroups=True):
        async with serving(path, fail), lifeline(path) as sidecar:
            clients.append(await in_thread(sidecar.give, 1))
            clients.append(await in_thread(sidecar.give, 2))
            await trio.sleep_forever()
    assert was_reset(clients[0])
    assert not path.exists()
    for client in clients:
        client.close()


async def test_a_lifeline_that_cannot_be_accepted_is_reported_and_tried_again(path, handler, monkeypatch):
    faults, failures = [], [OSError(24, "Too many open files"), ConnectionAbortedError()]
    with socket.socket() as any_socket:
        kind = type(trio.socket.from_stdlib_socket(any_socket))  # trio has no public name for it
    real = kind.accept

    async def accept(self):
        if failures:
            raise failures.pop()
        return await real(self)

    monkeypatch.setattr(kind, "accept", accept)
    monkeypatch.setattr("sidecar.handoff.trio.RETRY_SECONDS", 0.01)
    async with serving(path, handler, on_fault=faults.append), lifeline(path):
        assert [type(fault) for fault in faults] == [NoLifelineError]


async def test_a_connection_whose_sidecar_is_gone_before_it_was_told_is_reset_and_not_handled(path, handler):
    async with serving(path, handler):
        sidecar = await in_thread(sidecar_at, path)
        client, accepted = tcp_pair()
        sidecar.hand_over(accepted, 1, answer=b"answer")
        sidecar.die()
        async with lifeline(path):
            assert await in_thread(was_reset, client)
            assert handler.streams.statistics().current_buffer_used == 0
        client.close()


async def test_cancelling_it_while_the_sidecar_reads_no_replies_leaves_nothing_open(path, handler):
    client, accepted = tcp_pair()
    async with serving(path, handler, capacity=0), lifeline(path) as sidecar:
        await in_thread(sidecar.send_until_nobody_listens, accepted)
    accepted.close()
    client.close()


async def test_it_is_a_stream_like_any_other():
    def streams(pair):
        return tuple(HandedStream(end, read_packet(packet())) for end in pair)

    async def pair():
        return streams(tcp_pair())

    async def clogged():
        ends = streams(unix_pair())  # TCP takes a little more each time that it is asked
        for end in ends:
            with trio.move_on_after(0.05):
                while True:
                    await end.send_all(bytes(1 << 20))
        return ends

    await check_half_closeable_stream(pair, clogged)


@pytest.mark.parametrize("size", [0, -1])
async def test_left_over_bytes_are_asked_for_in_sizes_that_exist(size):
    client, accepted = tcp_pair()
    stream = HandedStream(accepted, read_packet(packet(first=b"x")))
    with client:
        with pytest.raises(ValueError, match="1 or more"):
            await stream.receive_some(size)
        with pytest.raises(TypeError):
            await stream.receive_some(1.5)
        assert await stream.receive_some(5) == b"x"
        await stream.aclose()
        stream.reset()
        with pytest.raises(trio.ClosedResourceError):
            await stream.receive_some(5)
