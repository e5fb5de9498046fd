"""The relay over real sockets: byte-exact, half-close, back-pressure, and abortive ends."""

import random

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from sidecar.reasons import End
from sidecar.relay import LIFETIME_JITTER, Direction, RelayTimes, Traffic, relay
from sidecar.sockets import abort
from tests.wires import closed, is_reset, receive_all, tcp_pair

FOREVER = RelayTimes(half_close=None, idle=None, lifetime=None)


class Pair:
    """A relay between a controller and a local process; the test holds the outer ends of both."""

    def __init__(self, controller, client, upstream, process):
        self.controller, self.process = controller, process
        self._client, self._upstream = client, upstream
        self.traffic = Traffic()
        self.counted = dict.fromkeys(Direction, 0)
        self.scope = trio.CancelScope()
        self.end = None

    @classmethod
    async def open(cls, *, buffers=None):
        return cls(*await tcp_pair(buffers=buffers), *await tcp_pair(buffers=buffers))

    async def run(self, times=FOREVER, *, header=b"", to_upstream=b"", answer=b""):
        with self.scope:
            self.end = await relay(
                self._client,
                self._upstream,
                header=header,
                to_upstream=to_upstream,
                answer=answer,
                times=times,
                traffic=self.traffic,
                count=self._count,
            )

    def _count(self, direction, size):
        self.counted[direction] += size

    def assert_over(self):
        assert closed(self._client)
        assert closed(self._upstream)
        assert self.counted == {Direction.UP: self.traffic.up, Direction.DOWN: self.traffic.down}

    async def aclose(self):
        await self.controller.aclose()
        await self.process.aclose()


@pytest.fixture
async def pair():
    pair = await Pair.open()
    yield pair
    await pair.aclose()


async def test_bytes_pass_unchanged_in_both_directions_whatever_their_sizes(pair, nursery):
    rng = random.Random(7)
    there, back = rng.randbytes(3_000_000), rng.randbytes(2_000_000)

    async def send(stream, data):
        rng = random.Random(len(data))
        while data:
            size = rng.choice([1, 7, 1000, 65536, 300_000])
            await stream.send_all(data[:size])
            data = data[size:]
        await stream.send_eof()

    received = {}

    async def receive(name, stream):
        received[name] = await receive_all(stream)

    async with trio.open_nursery() as both:
        both.start_soon(pair.run)
        both.start_soon(send, pair.controller, there)
        both.start_soon(send, pair.process, back)
        both.start_soon(receive, "there", pair.process)
        both.start_soon(receive, "back", pair.controller)
    assert received == {"there": there, "back": back}
    assert (pair.traffic.up, pair.traffic.down) == (len(there), len(back))
    pair.assert_over()


async def test_what_came_with_the_preface_goes_first_and_counts_and_what_is_our_own_does_not(pair):
    async with trio.open_nursery() as both:
        both.start_soon(lambda: pair.run(header=b"HEADER ", to_upstream=b"early", answer=b"ANSWER"))
        await pair.controller.send_all(b" late")
        await pair.controller.send_eof()
        assert await receive_all(pair.process) == b"HEADER early late"
        await pair.process.send_all(b"reply")
        await pair.process.send_eof()
        assert await receive_all(pair.controller) == b"ANSWERreply"
    assert (pair.traffic.up, pair.traffic.down) == (10, 5)


async def test_a_client_that_has_finished_sending_still_gets_the_whole_reply(pair):
    async with trio.open_nursery() as both:
        both.start_soon(pair.run)
        await pair.controller.send_all(b"req")
        await pair.controller.send_eof()
        assert await receive_all(pair.process) == b"req"
        await wait_all_tasks_blocked()
        reply = random.Random(1).randbytes(1 << 20)

        async def answer():
            await pair.process.send_all(reply)
            await pair.process.send_eof()

        both.start_soon(answer)
        assert await receive_all(pair.controller) == reply
    assert pair.end is End.CLIENT_CLOSED
    pair.assert_over()


async def test_an_upstream_that_has_finished_sending_still_gets_the_rest(pair):
    async with trio.open_nursery() as both:
        both.start_soon(pair.run)
        await pair.process.send_eof()
        assert await receive_all(pair.controller) == b""
        rest = random.Random(2).randbytes(1 << 20)

        async def send():
            await pair.controller.send_all(rest)
            await pair.controller.send_eof()

        both.start_soon(send)
        assert await receive_all(pair.process) == rest
    assert pair.end is End.UPSTREAM_CLOSED


async def test_a_reset_by_the_client_reaches_the_upstream_as_a_reset(pair):
    async with trio.open_nursery() as both:
        both.start_soon(pair.run)
        await pair.controller.send_all(b"x")
        assert await pair.process.receive_some() == b"x"
        abort(pair.controller)
        assert await is_reset(pair.process)
    assert pair.end is End.CLIENT_RESET
    pair.assert_over()


async def test_a_reset_by_the_upstream_reaches_the_client_as_a_reset(pair):
    async with trio.open_nursery() as both:
        both.start_soon(pair.run)
        await pair.process.send_all(b"x")
        assert await pair.controller.receive_some() == b"x"
        abort(pair.process)
        assert await is_reset(pair.controller)
    assert pair.end is End.UPSTREAM_RESET
    pair.assert_over()


async def test_a_client_that_is_gone_before_the_answer_is_a_reset_of_the_client(pair):
    abort(pair.controller)
    await pair.run(answer=b"ANSWER")
    assert pair.end is End.CLIENT_RESET
    assert await is_reset(pair.process)
    pair.assert_over()


async def test_a_cut_gives_both_sides_a_reset_and_never_an_orderly_end(pair):
    async with trio.open_nursery() as both:
        both.start_soon(pair.run)
        await pair.controller.send_all(b"x")
        assert await pair.process.receive_some() == b"x"
        pair.scope.cancel()
    assert pair.end is None
    assert await is_reset(pair.controller)
    assert await is_reset(pair.process)
    pair.assert_over()


async def test_a_cut_throws_away_what_the_relay_holds():
    pair = await Pair.open(buffers=16 * 1024)
    async with trio.open_nursery() as both:
        both.start_soon(pair.run)
        with trio.move_on_after(0.2):
            await pair.controller.send_all(bytes(1 << 20))  # the process reads nothing
        pair.scope.cancel()
    assert await is_reset(pair.process)
    await pair.aclose()


async def test_a_side_that_does_not_read_stops_the_other_from_sending_and_holds_it_in_no_buffer_of_ours():
    pair = await Pair.open(buffers=16 * 1024)
    data = random.Random(3).randbytes(8 << 20)
    async with trio.open_nursery() as both:
        both.start_soon(pair.run)
        sent = trio.Event()

        async def send():
            await pair.controller.send_all(data)
            await pair.controller.send_eof()
            sent.set()

        both.start_soon(send)
        await wait_all_tasks_blocked(0.1)
        assert not sent.is_set()
        assert pair.traffic.up < 1 << 20
        assert await receive_all(pair.process) == data
        await pair.process.send_eof()
    await pair.aclose()


async def test_after_the_first_end_the_other_direction_has_its_time_and_no_more(pair, patient_clock):
    began = trio.current_time()
    async with trio.open_nursery() as both:
        both.start_soon(pair.run, RelayTimes(half_close=15, idle=None, lifetime=None))
        await pair.controller.send_eof()
    assert pair.end is End.HALF_CLOSE
    assert trio.current_time() - began == pytest.approx(15, abs=1)
    assert await is_reset(pair.controller)
    assert await receive_all(pair.process) == b"", "the controller's own end came through in order"
    with pytest.raises(trio.BrokenResourceError):
        await pair.process.send_all(b"too late")
    pair.assert_over()


async def test_a_pair_without_traffic_is_idle_and_traffic_puts_that_off(pair, patient_clock):
    began = trio.current_time()
    async with trio.open_nursery() as both:
        both.start_soon(pair.run, RelayTimes(half_close=None, idle=60, lifetime=None))
        for stream, other in ((pair.controller, pair.process), (pair.process, pair.controller)):
            await trio.sleep(50)
            await stream.send_all(b"x")
            assert await other.receive_some() == b"x"
    assert pair.end is End.IDLE
    assert trio.current_time() - began == pytest.approx(160, abs=1)
    assert await is_reset(pair.controller)


async def test_a_transfer_that_crawls_is_not_idle(patient_clock):
    """Whole chunks come seldom then, and at the end the kernel holds the rest: bytes move all the same."""
    pair = await Pair.open(buffers=16 * 1024)
    size = 300_000
    received = 0
    async with trio.open_nursery() as both:
        both.start_soon(pair.run, RelayTimes(half_close=None, idle=30, lifetime=None))
        both.start_soon(pair.process.send_all, bytes(size))
        while received < size:
            await trio.sleep(2)
            received += len(await pair.controller.receive_some(4000))
        assert pair.end is None
    assert pair.end is End.IDLE
    await pair.aclose()


async def test_a_pair_lives_as_long_as_it_may_less_at_most_the_jitter(pair, patient_clock):
    began = trio.current_time()
    await pair.run(RelayTimes(half_close=None, idle=None, lifetime=1000))
    assert pair.end is End.LIFETIME
    assert 1000 * (1 - LIFETIME_JITTER) - 1 <= trio.current_time() - began <= 1001


async def test_a_pair_without_limits_lives_on(pair, patient_clock):
    async with trio.open_nursery() as both:
        both.start_soon(pair.run)
        await trio.sleep(80_000)
        await pair.controller.send_all(b"still here")
        assert await pair.process.receive_some() == b"still here"
        pair.scope.cancel()


async def test_what_a_finished_pair_has_left_in_the_kernel_can_still_be_cut(patient_clock):
    """Else bytes of a revoked connection would arrive after it had left."""
    pair = await Pair.open(buffers=16 * 1024)
    async with trio.open_nursery() as both:
        both.start_soon(pair.run)
        await pair.process.send_eof()
        assert await receive_all(pair.controller) == b""
        with trio.move_on_after(5):
            await pair.controller.send_all(bytes(30_000))  # the process reads nothing yet
            await pair.controller.send_eof()
        await trio.sleep(60)
        assert pair.end is None
        pair.scope.cancel()
    assert await is_reset(pair.process)
    await pair.aclose()


async def test_a_finished_pair_whose_last_bytes_are_taken_ends_in_order(patient_clock):
    pair = await Pair.open(buffers=16 * 1024)
    async with trio.open_nursery() as both:
        both.start_soon(pair.run)
        await pair.process.send_eof()
        assert await receive_all(pair.controller) == b""
        both.start_soon(pair.controller.send_all, bytes(300_000))
        await trio.sleep(30)
        assert pair.end is None
        received = 0
        while received < 300_000:
            received += len(await pair.process.receive_some())
        await pair.controller.send_eof()
        assert await receive_all(pair.process) == b""
    assert pair.end is End.UPSTREAM_CLOSED
    await pair.aclose()


@pytest.mark.parametrize("who", ["controller", "process"])
async def test_a_reset_is_passed_on_while_the_other_side_takes_nothing(who, patient_clock):
    pair = await Pair.open(buffers=16 * 1024)
    sender, other = (pair.controller, pair.process) if who == "controller" else (pair.process, pair.controller)
    async with trio.open_nursery() as both:
        both.start_soon(pair.run)
        with trio.move_on_after(10):
            await sender.send_all(bytes(1 << 20))
        abort(sender)
    assert pair.end is (End.CLIENT_RESET if who == "controller" else End.UPSTREAM_RESET)
    assert await is_reset(other)
    await pair.aclose()


@pytest.mark.parametrize("who", ["controller", "process"])
async def test_a_reset_after_a_half_close_is_passed_on_while_the_other_side_is_silent(pair, who, patient_clock):
    sender, other = (pair.controller, pair.process) if who == "controller" else (pair.process, pair.controller)
    async with trio.open_nursery() as both:
        both.start_soon(pair.run)
        await sender.send_eof()
        assert await other.receive_some() == b""
        await trio.sleep(10)
        assert pair.end is None
        abort(sender)
    assert pair.end is (End.CLIENT_RESET if who == "controller" else End.UPSTREAM_RESET)
    with pytest.raises(trio.BrokenResourceError):
        await other.send_all(b"anybody?")
