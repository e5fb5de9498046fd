"""The sidecar's side of the hand-over, with a receiver that does what the test says."""

from __future__ import annotations

import io
import json
import socket
from itertools import pairwise

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from sidecar import lifeline as module
from sidecar.handoff_format import READY, Refusal, Reply
from sidecar.lifeline import Fate, Lifeline, NotHandedOver
from sidecar.log import build_logger
from tests.wires import plain, tcp_pair


class Receiver:
    """Listens, and takes one lifeline after the other."""

    def __init__(self, path):
        self.listening = trio.socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.path = str(path)
        self.accepted = []

    async def listen(self):
        await self.listening.bind(self.path)
        self.listening.listen()
        return self

    def close(self):
        for sock in (self.listening, *self.accepted):
            sock.close()

    async def accept(self, *, ready=READY):
        with trio.fail_after(5):
            sock, _ = await self.listening.accept()
        self.accepted.append(sock)
        if ready:
            await sock.send(ready)
        return sock


class House:
    def __init__(self, nursery, path):
        self.stream = io.StringIO()
        self.lifeline = Lifeline(str(path), build_logger("json", "debug", self.stream))
        self.scope = trio.CancelScope()
        nursery.start_soon(self._run)
        self.answers, self.lost, self.opened = [], [], []

    async def _run(self):
        with self.scope:
            await self.lifeline.run()

    async def until(self, happened):
        with trio.fail_after(5):
            while not happened():
                await trio.sleep(0.005)

    async def until_ready(self):
        await self.until(lambda: not self.lifeline.fault)

    async def offer(self, packet=b"packet", *, within=5.0):
        self.client, accepted = await tcp_pair()
        self.sock = plain(accepted)
        self.opened += [self.client.socket, self.sock]
        until = trio.current_time() + within
        return self.lifeline.offer(self.sock, packet, expires_at=until, answered=self.answers.append)

    def events(self):
        return [json.loads(line)["event"] for line in self.stream.getvalue().splitlines()]


@pytest.fixture
async def receiver(tmp_path):
    receiver = await Receiver(tmp_path / "h.sock").listen()
    yield receiver
    receiver.close()


@pytest.fixture
async def house(nursery, receiver):
    house = House(nursery, receiver.path)
    yield house
    house.scope.cancel()
    for sock in house.opened:
        sock.close()


async def test_nothing_is_handed_over_before_the_receiver_is_ready(house, receiver):
    sock = await receiver.accept(ready=None)
    await house.until(lambda: "earlier life" in house.lifeline.fault)
    with pytest.raises(NotHandedOver, match="nothing of an earlier life is left"):
        await house.offer()
    await sock.send(READY)
    await house.until_ready()
    assert house.events() == ["lifeline_connected", "lifeline_ready"]
    sock.close()


async def test_a_descriptor_arrives_with_its_packet_and_the_reply_is_told(house, receiver):
    sock = await receiver.accept()
    await house.until_ready()
    assert house.lifeline.next_number == 1
    assert await house.offer(b"first") == 1
    packet, descriptors, _, _ = socket.recv_fds(sock._sock, 100, 2)
    assert packet == b"first"
    with socket.socket(fileno=descriptors[0]) as handed:
        handed.send(b"from the receiver")
        assert await house.client.receive_some() == b"from the receiver"
    await sock.send(b"taken 1")
    await house.until(lambda: house.answers)
    assert house.answers == [Reply(1)]
    assert await house.offer(b"second") == 2
    await sock.send(b"refused 2 full")
    await house.until(lambda: len(house.answers) == 2)
    assert house.answers[1] == Reply(2, Refusal.FULL)
    sock.close()


async def test_a_receiver_that_says_nothing_is_waited_for_until_its_time(house, receiver):
    sock = await receiver.accept()
    await house.until_ready()
    await house.offer(within=0.05)
    await house.until(lambda: house.answers)
    assert house.answers == [Fate.SILENCE]
    await sock.send(b"taken 1")  # too late: whoever offered it has cut it
    await house.offer()
    await sock.send(b"taken 2")
    await house.until(lambda: len(house.answers) == 2)
    assert house.answers[1] == Reply(2)
    sock.close()


async def test_one_that_was_withdrawn_is_told_nothing(house, receiver):
    sock = await receiver.accept()
    await house.until_ready()
    house.lifeline.withdraw(await house.offer(within=0.05))
    await trio.sleep(0.1)
    assert house.answers == []
    sock.close()


async def test_when_the_lifeline_ends_everybody_who_went_through_it_is_told(house, receiver):
    sock = await receiver.accept()
    await house.until_ready()
    for number in (1, 2, 3):
        assert await house.offer() == number
    for number in (1, 2):
        await sock.send(b"taken %d" % number)
        house.lifeline.follow(number, lambda number=number: house.lost.append(number))
    await house.until(lambda: len(house.answers) == 2)
    house.lifeline.forget(1)
    sock.close()
    await house.until(lambda: house.lost)
    assert house.lost == [2]
    assert house.answers[2:] == [Fate.LOST]
    assert "lifeline_lost" in house.events()
    with pytest.raises(NotHandedOver):
        await house.offer()


async def test_it_connects_again_and_begins_with_readiness_again(house, receiver):
    (await receiver.accept()).close()
    await house.until(lambda: "lifeline_lost" in house.events())
    sock = await receiver.accept(ready=None)
    await house.until(lambda: house.events()[-1] == "lifeline_connected")
    assert house.lifeline.fault
    await sock.send(READY)
    await house.until_ready()
    sock.close()


@pytest.mark.parametrize("message", [b"ready 2", b"hello"])
async def test_a_receiver_of_another_format_is_not_used(house, receiver, message):
    await receiver.accept(ready=message)
    await house.until(lambda: "lifeline_lost" in house.events())
    assert "begins with" in house.lifeline.fault


async def test_what_is_no_reply_ends_the_lifeline_loudly(house, receiver):
    sock = await receiver.accept()
    await house.until_ready()
    await sock.send(b"perhaps 1")
    await house.until(lambda: "lifeline_lost" in house.events())
    assert "no reply" in house.lifeline.fault


async def test_one_who_neither_owns_the_socket_nor_is_this_processs_user_is_not_trusted(nursery, receiver, monkeypatch):
    monkeypatch.setattr(module, "_trusted", lambda _path: {4711})
    house = House(nursery, receiver.path)
    await receiver.accept(ready=None)
    await house.until(lambda: "listens there" in house.lifeline.fault)
    house.scope.cancel()


async def test_a_receiver_that_is_not_there_is_looked_for_again_and_said_once(nursery, tmp_path):
    house = House(nursery, tmp_path / "gone.sock")
    await house.until(lambda: "No such file" in house.lifeline.fault)
    await trio.sleep(0.4)
    assert house.events() == ["lifeline_lost"]
    receiver = await Receiver(tmp_path / "gone.sock").listen()
    await receiver.accept()
    await house.until_ready()
    house.scope.cancel()
    receiver.close()


async def test_it_pauses_longer_from_one_attempt_to_the_next_up_to_a_bound(autojump_clock, tmp_path):
    attempts = []

    class Watched(Lifeline):
        def _connect(self):
            attempts.append(trio.current_time())
            return super()._connect()

    with trio.move_on_after(5.6):
        await Watched(str(tmp_path / "gone.sock"), build_logger("json", "debug", io.StringIO())).run()
    pauses = [after - before for before, after in pairwise(attempts)]
    assert pauses == pytest.approx([0.1, 0.2, 0.4, 0.8, 1, 1, 1, 1])


async def test_a_reply_for_a_number_that_was_never_offered_changes_nothing(house, receiver):
    sock = await receiver.accept()
    await house.until_ready()
    await sock.send(b"taken 99")
    await house.offer()
    await sock.send(b"taken 1")
    await house.until(lambda: house.answers)
    assert house.answers == [Reply(1)]
    assert "lifeline_lost" not in house.events()


async def test_a_lifeline_that_is_full_is_waited_for(house, receiver):
    sock = await receiver.accept()
    await house.until_ready()
    offered = 0
    while await house.offer(bytes(8000)) is not None:
        offered += 1
    assert offered > 1
    with trio.move_on_after(0.05) as patience:
        await house.lifeline.wait_room()
    assert patience.cancelled_caught
    while True:
        try:
            _, descriptors, _, _ = socket.recv_fds(sock._sock, 8000, 2)
        except BlockingIOError:
            break
        socket.socket(fileno=descriptors[0]).close()
    with trio.fail_after(5):
        await house.lifeline.wait_room()
    assert await house.offer(bytes(8000)) is not None
    await wait_all_tasks_blocked()
    sock.close()
