"""The way of the bytes: copied and spliced, held back and let go, and never one lost or doubled."""

from __future__ import annotations

import random
import socket

import pytest

from sidecar.reasons import End
from sidecar.relay.side import CHUNK
from sidecar.relay.terms import RelayTimes
from sidecar.sockets import abort
from tests.turns import Loop, clog, descriptors, received

LIMITS = RelayTimes(half_close=60, idle=None, lifetime=None)


@pytest.fixture(params=[4, 0], ids=["spliced", "copied"])
def loop(request):
    loop = Loop(pipes=request.param)
    yield loop
    loop.close()


class Sender:
    """Sends so many bytes of its own pattern, in pieces of any size, as far as they are taken."""

    def __init__(self, sock, seed, size):
        self.sock, self.rng = sock, random.Random(seed)
        self.data = self.rng.randbytes(size)
        self.sent = 0
        self.done = False

    def step(self):
        try:
            while self.sent < len(self.data):
                piece = self.rng.choice([1, 100, 5000, CHUNK, 300_000])
                self.sent += self.sock.send(self.data[self.sent : self.sent + piece])
        except BlockingIOError:
            return
        if not self.done:
            self.done = True
            self.sock.shutdown(socket.SHUT_WR)


class Receiver:
    """Takes what comes, slowly where it is told to."""

    def __init__(self, sock, *, slow=False):
        self.sock, self.slow = sock, slow
        self.data, self.ended = bytearray(), False

    def step(self):
        if self.ended:
            return
        data = received(self.sock, 20_000 if self.slow else 1 << 20)
        if data is not None:
            self.data += data
            self.ended = not data


@pytest.mark.parametrize("unix", [False, True], ids=["tcp", "unix"])
@pytest.mark.parametrize("slow", [False, True], ids=["fast", "slow"])
def test_every_byte_passes_in_both_directions_and_each_end_is_passed_on(loop, unix, slow):
    pair = loop.pair(times=LIMITS, unix=unix)
    there, back = Sender(pair.client, 1, 3_000_000), Sender(pair.process, 2, 2_000_000)
    taken, given = Receiver(pair.process, slow=slow), Receiver(pair.client)

    def over():
        for each in (there, back, taken, given):
            each.step()
        return taken.ended and given.ended

    loop.until(over)
    loop.until(lambda: pair.outcomes)
    assert bytes(taken.data) == there.data
    assert bytes(given.data) == back.data
    assert (pair.traffic.up, pair.traffic.down) == (3_000_000, 2_000_000)
    assert pair.end in {End.CLIENT_CLOSED, End.UPSTREAM_CLOSED}
    assert loop.pipes.out == 0


def test_a_side_that_sends_much_is_spliced_and_gives_its_pipe_back_when_it_sends_little():
    loop = Loop()
    pair = loop.pair()
    sent = Sender(pair.client, 3, 4_000_000)
    sent.done = True  # no end of stream
    taken = Receiver(pair.process)
    most = 0

    def over():
        nonlocal most
        most = max(most, loop.pipes.out)
        sent.step()
        taken.step()
        return len(taken.data) == len(sent.data)

    loop.until(over)
    assert most == 1
    for _ in range(10):
        pair.client.send(b"little")
        loop.turn(3)
        taken.step()
    assert loop.pipes.out == 0
    assert bytes(taken.data) == sent.data + b"little" * 10
    loop.close()


def test_who_takes_nothing_is_waited_for_and_no_more_than_a_little_is_held(loop):
    pair = loop.pair(buffers=8192)
    sent = clog(loop, pair.client)
    assert sent < 4 << 20
    taken = Receiver(pair.process)

    def all_taken():
        taken.step()
        return len(taken.data) == sent

    loop.until(all_taken)
    assert pair.traffic.up == sent


def test_a_slow_side_does_not_hold_up_the_other_direction(loop):
    pair = loop.pair(buffers=8192)
    clog(loop, pair.client)
    pair.process.send(b"all the same")
    loop.turn()
    assert received(pair.client) == b"all the same"


@pytest.mark.parametrize("seed", range(12))
def test_an_end_at_any_moment_of_a_splice_leaves_no_descriptor_and_no_pipe(loop, seed):
    rng = random.Random(seed)
    before = descriptors()
    pair = loop.pair()
    sent, taken = Sender(pair.client, seed, 8_000_000), Receiver(pair.process, slow=True)
    for _ in range(rng.randrange(5, 60)):
        sent.step()
        loop.turn(1)
        taken.step()
    match seed % 3:
        case 0:
            pair.pair.finish(End.SUPERSEDED)
        case 1:
            abort(pair.client)
        case 2:
            abort(pair.process)
    loop.until(lambda: pair.outcomes)
    loop.turn(1)
    assert pair.closed
    assert loop.pipes.out == 0
    for sock in (pair.client, pair.process):
        sock.close()
    loop.pipes.close()
    assert descriptors() <= before
    assert bytes(taken.data) == sent.data[: len(taken.data)]


@pytest.mark.parametrize("run", range(50))
def test_half_close_with_a_pattern_each_way_over_and_over(loop, run):
    pair = loop.pair(times=LIMITS)
    there, back = Sender(pair.client, run, 200_000), Sender(pair.process, -run - 1, 200_000)
    taken, given = Receiver(pair.process, slow=run % 2 == 0), Receiver(pair.client, slow=run % 3 == 0)

    def over():
        there.step()
        taken.step()
        if taken.ended:  # the answer begins when the question has ended
            back.step()
        given.step()
        return given.ended

    loop.until(over)
    assert (bytes(taken.data), bytes(given.data)) == (there.data, back.data)
    loop.until(lambda: pair.outcomes)
    assert pair.end is End.CLIENT_CLOSED
