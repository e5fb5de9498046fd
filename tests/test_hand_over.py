"""A connection on its way to a local process that takes it over: what each of the receiver's answers amounts to."""

from __future__ import annotations

import io
import socket
from dataclasses import replace

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from sidecar.admission import State
from sidecar.config import Handoff
from sidecar.exclusive import Exclusive
from sidecar.handoff_format import read_packet
from sidecar.identity import Generation
from sidecar.lifeline import Lifeline
from sidecar.log import build_logger
from sidecar.preface.answer import read_answer
from sidecar.preface.proxy_v2 import read_header
from sidecar.reasons import End
from sidecar.sockets import disconnect
from tests.house import EIGHT, answer_of
from tests.names import CLAIM, OWN, U1, WRONG, preface
from tests.test_lifeline import Receiver
from tests.wires import is_reset, receive_all


class Handed:
    """One that the receiver has got: its packet, and its descriptor."""

    def __init__(self, packet, descriptor):
        self.about = read_packet(packet)
        self.sock = trio.socket.fromfd(descriptor, socket.AF_INET, socket.SOCK_STREAM)
        socket.socket(fileno=descriptor).close()
        self.stream = trio.SocketStream(self.sock)

    def close(self):
        self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()


class Over:
    """A listener whose local process takes connections over."""

    def __init__(self, house, receiver, lifeline):
        self.house, self.receiver, self.lifeline = house, receiver, lifeline
        self.wire = None

    async def begin(self):
        self.wire = await self.receiver.accept()
        with trio.fail_after(5):
            while self.lifeline.fault:
                await trio.sleep(0.005)

    async def next(self):
        with trio.fail_after(5):
            await trio.lowlevel.wait_readable(self.wire)
        packet, (descriptor,), _, _ = socket.recv_fds(self.wire._sock, 16384, 2)
        return Handed(packet, descriptor)

    async def take(self, claim=CLAIM, **parts):
        controller, connection, _ = await self.house.connect()
        await controller.send_all(preface(claim, **parts))
        handed = await self.next()
        await self.wire.send(b"taken %d" % handed.about.number)
        with trio.fail_after(5):
            while not connection.admitted:
                await trio.sleep(0.005)
        return controller, connection, handed


@pytest.fixture
async def over(house, nursery, tmp_path):
    receiver = await Receiver(tmp_path / "h.sock").listen()
    lifeline = Lifeline(receiver.path, build_logger("json", "info", io.StringIO()))
    house.gate = replace(house.gate, upstream=Handoff(receiver.path), lifeline=lifeline)
    scope = trio.CancelScope()

    async def run():
        with scope:
            await lifeline.run()

    nursery.start_soon(run)
    over = Over(house, receiver, lifeline)
    await over.begin()
    yield over
    scope.cancel()
    receiver.close()


async def test_the_receiver_gets_the_connection_with_all_that_is_known_of_it(over):
    controller, _, _ = await over.house.connect()
    async with controller:
        await controller.send_all(preface(answer=True) + b"first bytes")
        handed = await over.next()
        about = handed.about
        assert (about.identity, about.generation, about.instance, about.first) == (
            OWN,
            Generation(7),
            U1,
            b"first bytes",
        )
        assert read_answer(read_header(about.answer)).admitted
        assert str(about.peer) == "127.0.0.1:51000"
        assert over.house.counts()["pending"] == 1, "it is admitted once the receiver says so"
        await over.wire.send(b"taken 1")
        await handed.stream.send_all(about.answer + b"hello")
        assert (await receive_some(controller, len(about.answer) + 5))[-5:] == b"hello"
        await controller.send_eof()
        handed.close()
    await over.house.settled(("ended", End.CLIENT_CLOSED))
    assert over.house.counts()["admitted"] == {"authority": 1}


async def receive_some(stream, size):
    data = b""
    while len(data) < size:
        data += await stream.receive_some()
    return data


@pytest.mark.parametrize(
    ("word", "detail"),
    [("full", "the receiver is full"), ("descriptors", "the receiver is out of descriptors")],
)
async def test_a_receiver_that_refuses_has_its_words_told_to_the_dialler(over, word, detail):
    controller, _, _ = await over.house.connect()
    async with controller:
        await controller.send_all(preface(answer=True))
        handed = await over.next()
        handed.sock.close()
        await over.wire.send(b"refused 1 %s" % word.encode())
        answer = await answer_of(controller)
    assert answer.verdict == "upstream_unavailable"
    assert answer.detail.endswith(detail)
    await over.house.roster.wait_empty()
    assert over.house.counts()["rejected"] == {"upstream_unavailable": 1}


async def test_a_receiver_that_says_nothing_may_have_it_and_so_it_is_cut_without_a_word(over):
    over.house.gate = replace(over.house.gate, times=replace(over.house.gate.times, connect=0.05))
    controller, _, _ = await over.house.connect()
    async with controller:
        await controller.send_all(preface(answer=True))
        handed = await over.next()
        assert await is_reset(controller)
        handed.sock.close()
    await over.house.roster.wait_empty()
    assert over.house.counts()["rejected"] == {"upstream_unavailable": 1}


async def test_without_a_receiver_the_dialler_is_told_why(over):
    over.wire.close()
    over.receiver.listening.close()
    with trio.fail_after(5):
        while not over.lifeline.fault:
            await trio.sleep(0.005)
    controller, _, _ = await over.house.connect()
    async with controller:
        await controller.send_all(preface(answer=True))
        assert (await answer_of(controller)).verdict == "upstream_unavailable"


async def test_a_wrong_claim_never_reaches_the_receiver(over):
    controller, _, _ = await over.house.connect()
    async with controller:
        await controller.send_all(preface(WRONG, answer=True))
        assert (await answer_of(controller)).verdict == "identity_mismatch"
    await wait_all_tasks_blocked(0.02)
    with pytest.raises(BlockingIOError):
        socket.recv_fds(over.wire._sock, 10, 1)


async def test_what_a_change_revokes_while_it_is_offered_is_cut_and_counts_as_admitted(over):
    """The receiver may have told the dialler so already."""
    controller, connection, _ = await over.house.connect()
    async with controller:
        await controller.send_all(preface(answer=True))
        handed = await over.next()
        over.house.authority.newest = EIGHT
        with trio.fail_after(5):
            await over.house.roster.decide_again()
        assert connection not in list(over.house.roster), "nothing of the old life is left"
        assert await is_reset(controller)
        await over.wire.send(b"taken 1")
        handed.sock.close()
    await over.house.settled(("ended", End.GENERATION_STALE))


async def test_a_change_cuts_one_that_was_taken(over):
    controller, _, handed = await over.take()
    async with controller:
        over.house.authority.newest = EIGHT
        with trio.fail_after(5):
            await over.house.roster.decide_again()
        assert await is_reset(controller)
        with pytest.raises(trio.BrokenResourceError):
            await handed.stream.send_all(b"too late")
        handed.sock.close()
    await over.house.settled(("ended", End.GENERATION_STALE))


async def test_when_the_lifeline_ends_those_who_went_through_it_are_cut(over):
    both = [await over.take() for _ in range(2)]
    over.wire.close()
    for controller, _, handed in both:
        assert await is_reset(controller)
        await controller.aclose()
        handed.sock.close()
    await over.house.settled(*[("ended", End.UPSTREAM_RESET)] * 2)


async def test_a_receiver_that_resets_has_reset(over):
    controller, _, handed = await over.take()
    disconnect(handed.sock._sock)
    assert await is_reset(controller)
    handed.sock.close()
    await controller.aclose()
    await over.house.settled(("ended", End.UPSTREAM_RESET))


async def test_a_reconnect_takes_over_once_the_old_connection_is_cut(over):
    over.house.gate = replace(over.house.gate, exclusive=Exclusive())
    old, connection, old_handed = await over.take()
    new, _, new_handed = await over.take()
    assert connection.ended_by is End.SUPERSEDED
    assert await is_reset(old)
    for stream in (old, new):
        await stream.aclose()
    old_handed.sock.close()
    new_handed.close()
    with trio.fail_after(5):
        await over.house.roster.wait_empty()
    assert over.house.gate.exclusive.holder is None


async def test_a_drain_refuses_before_anything_is_offered(over):
    over.house.state = State(draining=True)
    controller, _, _ = await over.house.connect()
    async with controller:
        await controller.send_all(preface(answer=True))
        assert (await answer_of(controller)).verdict == "draining"
    with pytest.raises(BlockingIOError):
        socket.recv_fds(over.wire._sock, 10, 1)


async def test_the_bytes_of_both_directions_are_counted_in_the_end(over):
    controller, _, handed = await over.take()
    async with controller:
        await controller.send_all(b"12345")
        assert await handed.stream.receive_some() == b"12345"
        await handed.stream.send_all(b"123")
        assert await controller.receive_some() == b"123"
        await controller.send_eof()
        handed.close()
        assert await receive_all(controller) == b""
    await over.house.roster.wait_empty()
    counts = over.house.counts()
    assert (counts["bytes_up"], counts["bytes_down"]) == (5, 3)
