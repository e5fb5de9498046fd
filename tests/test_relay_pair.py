"""An admitted pair, event by event: what ends it, and that an orderly end and an RST are never taken for each other."""

from __future__ import annotations

import select
import socket

import pytest

from sidecar.reasons import End
from sidecar.relay.pair import Pair
from sidecar.relay.terms import RelayTimes, Terms, Traffic
from sidecar.sockets import abort
from tests.turns import FOREVER, Loop, clog, is_reset, received

LIMITS = RelayTimes(half_close=60, idle=None, lifetime=None)


@pytest.fixture
def loop():
    loop = Loop()
    yield loop
    loop.close()


def test_what_came_with_the_preface_goes_first_and_counts_and_what_is_our_own_does_not(loop):
    pair = loop.pair(answer=b"ANSWER", header=b"HEADER ", to_upstream=b"early")
    assert received(pair.process) == b"HEADER early"
    assert received(pair.client) == b"ANSWER"
    pair.client.send(b" late")
    pair.process.send(b"reply")
    loop.turn()
    assert received(pair.process) == b" late"
    assert received(pair.client) == b"reply"
    assert (pair.traffic.up, pair.traffic.down) == (10, 5)
    assert (loop.total.up, loop.total.down) == (10, 5)


def test_a_client_that_has_finished_sending_still_gets_the_whole_reply(loop):
    pair = loop.pair(times=LIMITS)
    pair.client.send(b"req")
    pair.client.shutdown(socket.SHUT_WR)
    loop.turn()
    assert received(pair.process) == b"req"
    assert received(pair.process) == b""
    pair.process.send(b"reply")
    pair.process.close()
    loop.until(lambda: pair.outcomes)
    assert received(pair.client) == b"reply"
    assert received(pair.client) == b""
    assert pair.end is End.CLIENT_CLOSED
    assert pair.closed


def test_the_side_that_ended_first_names_the_end(loop):
    pair = loop.pair(times=LIMITS)
    pair.process.close()
    loop.turn()
    assert received(pair.client) == b""
    assert not pair.outcomes
    pair.client.close()
    loop.until(lambda: pair.outcomes)
    assert pair.end is End.UPSTREAM_CLOSED


@pytest.mark.parametrize("who", ["client", "process"])
def test_a_reset_is_passed_on_as_one(loop, who):
    pair = loop.pair()
    other = pair.process if who == "client" else pair.client
    abort(getattr(pair, who))
    loop.until(lambda: pair.outcomes)
    assert pair.end is (End.CLIENT_RESET if who == "client" else End.UPSTREAM_RESET)
    assert is_reset(other)


@pytest.mark.parametrize("who", ["client", "process"])
def test_a_reset_is_seen_on_a_side_that_is_not_read_since_the_other_takes_nothing(loop, who):
    pair = loop.pair(buffers=4096)
    sender, other = (pair.client, pair.process) if who == "client" else (pair.process, pair.client)
    clog(loop, sender)
    abort(sender)
    loop.until(lambda: pair.outcomes)
    assert pair.end is (End.CLIENT_RESET if who == "client" else End.UPSTREAM_RESET)
    assert is_reset(other)


def test_a_reset_is_seen_on_a_side_that_has_ended_its_stream(loop):
    pair = loop.pair()
    pair.client.shutdown(socket.SHUT_WR)
    loop.turn()
    abort(pair.client)
    loop.until(lambda: pair.outcomes)
    assert pair.end is End.CLIENT_RESET
    assert is_reset(pair.process)


def test_a_half_open_pair_is_ended_after_its_time_by_a_reset(loop):
    pair = loop.pair(times=LIMITS)
    pair.client.shutdown(socket.SHUT_WR)
    loop.turn()
    loop.pass_time(59)
    assert not pair.outcomes
    loop.pass_time(2)
    assert pair.end is End.HALF_CLOSE
    assert is_reset(pair.client)
    assert is_reset(pair.process)


def test_a_lifetime_is_shortened_a_little_and_holds_for_a_busy_pair(loop):
    pair = loop.pair(times=RelayTimes(half_close=None, idle=None, lifetime=100))
    loop.turn()
    for _ in range(9):
        loop.pass_time(10)
        if pair.outcomes:
            break
        pair.client.send(b"busy")
    assert loop.now >= 1089
    loop.pass_time(11)
    assert pair.end is End.LIFETIME


def test_a_silent_pair_is_idle_and_one_that_moves_bytes_is_not(loop):
    pair = loop.pair(times=RelayTimes(half_close=None, idle=10, lifetime=None))
    loop.turn()
    for _ in range(4):
        loop.pass_time(8)
        pair.client.send(b"here")
        loop.turn()
    assert not pair.outcomes
    loop.pass_time(11)
    assert pair.end is End.IDLE
    assert is_reset(pair.client)


def test_a_pair_whose_peer_still_takes_what_the_kernel_holds_is_not_idle(loop):
    pair = loop.pair(times=RelayTimes(half_close=None, idle=10, lifetime=None), buffers=4096)
    pair.client.send(bytes(2048))
    loop.turn()
    sent = 0
    while sent < 50:  # until everything stands still
        sent += 1
        try:
            pair.client.send(bytes(4096))
        except BlockingIOError:
            break
        loop.turn(2)
    loop.pass_time(8)
    pair.process.recv(1024)
    loop.pass_time(8)
    assert not pair.outcomes


def test_a_cut_throws_away_what_is_held_and_resets_both(loop):
    pair = loop.pair(buffers=4096)
    clog(loop, pair.client)
    taken = pair.traffic.up
    loop.reactor.call(lambda: pair.pair.finish(End.SUPERSEDED))
    loop.until(lambda: pair.outcomes)
    assert pair.end is End.SUPERSEDED
    assert pair.closed
    assert is_reset(pair.process)
    assert len(received(pair.process) or b"") <= taken
    assert is_reset(pair.client)


def test_the_first_end_counts(loop):
    pair = loop.pair()
    pair.pair.finish(End.SUPERSEDED)
    pair.pair.finish(End.DRAIN_TIMEOUT)
    loop.turn()
    assert [outcome.end for outcome in pair.outcomes] == [End.SUPERSEDED]


def test_beyond_the_fence_no_byte_moves_and_the_pair_is_over(loop):
    pair = loop.pair()
    loop.fence.until, loop.fence.end = loop.now + 5, End.AUTHORITY_STALE
    pair.client.send(b"in time")
    loop.turn()
    assert received(pair.process) == b"in time"
    loop.now += 5
    pair.client.send(b"too late")
    loop.until(lambda: pair.outcomes)
    assert pair.end is End.AUTHORITY_STALE
    with pytest.raises(ConnectionResetError):
        received(pair.process)


def test_a_pair_that_comes_too_late_for_its_fence_moves_not_even_what_goes_first(loop):
    """The process may have been stopped between the verdict and here."""
    loop.fence.until, loop.fence.end = loop.now, End.AUTHORITY_STALE
    pair = loop.pair(answer=b"ANSWER", header=b"HEADER", to_upstream=b"early")
    loop.until(lambda: pair.outcomes)
    assert pair.end is End.AUTHORITY_STALE
    for sock in (pair.client, pair.process):
        with pytest.raises(ConnectionResetError):
            received(sock)
    assert (pair.traffic.up, pair.traffic.down) == (0, 0)


def test_a_finished_pair_that_the_fence_overtakes_does_not_end_in_order(loop):
    pair = loop.pair(buffers=4096)
    pair.process.shutdown(socket.SHUT_WR)
    loop.turn()
    pair.client.send(bytes(10_000))
    pair.client.shutdown(socket.SHUT_WR)
    loop.turn()
    assert not pair.outcomes
    loop.fence.until = loop.now + 5
    loop.pass_time(6)
    assert pair.end is loop.fence.end
    assert is_reset(pair.process)


def test_a_unix_client_that_hangs_up_before_the_process_takes_its_first_bytes_costs_no_turn(loop):
    """Its hang-up can't be masked; level-triggered it would be told for ever."""
    controller, client = socket.socketpair()
    process, upstream = socket.socketpair()
    with controller, process:
        for sock in (client, upstream):
            sock.setblocking(False)
        terms = Terms(FOREVER, loop.fence, Traffic(), loop.total)
        outcomes = []
        Pair(loop.shared, client, upstream, terms, outcomes.append).begin(
            answer=b"", header=b"", to_upstream=bytes(2_000_000)
        )
        loop.turn()
        controller.close()
        loop.turn()
        assert not select.select([loop.reactor], [], [], 0.01)[0]
        process.settimeout(0.01)
        got = 0
        while got < 2_000_000:
            got += len(process.recv(1 << 20))
            loop.turn(1)
        assert not outcomes


def test_an_orderly_end_waits_until_the_local_processs_kernel_has_taken_everything(loop):
    """What ours still holds could not be cut any more."""
    pair = loop.pair(times=LIMITS, buffers=4096)
    clog(loop, pair.client)
    pair.client.shutdown(socket.SHUT_WR)
    pair.process.shutdown(socket.SHUT_WR)
    loop.turn()
    assert not pair.outcomes

    def taken():
        loop.now += 0.6
        received(pair.process)
        return pair.outcomes

    loop.until(taken)
    assert pair.end in {End.CLIENT_CLOSED, End.UPSTREAM_CLOSED}


def test_a_fault_in_one_pair_is_its_own(loop, monkeypatch):
    broken, other = loop.pair(), loop.pair()
    monkeypatch.setattr(type(broken.pair), "moved", lambda self, *_: 1 / 0 if self is broken.pair else None)
    broken.client.send(b"x")
    other.client.send(b"y")
    loop.until(lambda: broken.outcomes)
    assert broken.end is End.INTERNAL_ERROR
    assert isinstance(broken.outcomes[0].fault, ZeroDivisionError)
    assert is_reset(broken.client)
    assert received(other.process) == b"y"
    assert not other.outcomes


def test_a_fault_in_what_a_deadline_does_is_its_own_too(loop, monkeypatch):
    limits = RelayTimes(half_close=None, idle=30, lifetime=None)
    broken, other = loop.pair(times=limits), loop.pair(times=limits)
    monkeypatch.setattr(type(broken.pair), "_kernel_moves", lambda self: 1 / 0 if self is broken.pair else False)
    loop.turn()
    loop.pass_time(31)
    assert isinstance(broken.outcomes[0].fault, ZeroDivisionError)
    assert is_reset(broken.client)
    assert other.end is End.IDLE
