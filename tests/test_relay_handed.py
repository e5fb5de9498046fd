"""A connection that another process holds too, which is the test here: by a duplicate of the descriptor."""

from __future__ import annotations

import socket
from dataclasses import replace

import pytest

from sidecar.reasons import End
from sidecar.relay.handed import Handed
from sidecar.relay.terms import RelayTimes, Terms, Traffic
from sidecar.sockets import abort, disconnect, tcp_counts
from tests.turns import FOREVER, Loop, is_reset, received, tcp


class HandedOver:
    """One of them: the client, the receiver's descriptor, and the watched duplicate."""

    def __init__(self, loop, times=FOREVER, before=b"", owed=0):
        self.client, self.watched = tcp()
        if before:  # what the sidecar has read already
            self.client.send(before)
            while received(self.watched) is None:
                pass
        self.receiver = self.watched.dup()
        self.receiver.setblocking(False)
        loop.closing.enter_context(self.client)
        loop.closing.enter_context(self.receiver)
        self.traffic, self.outcomes = Traffic(), []
        terms = Terms(times, loop.fence, self.traffic, loop.total)
        self.handed = Handed(loop.reactor, self.watched, terms, self.outcomes.append, before=len(before), owed=owed)
        self.handed.begin()
        self.loop = loop

    @property
    def end(self):
        self.loop.until(lambda: self.outcomes)
        self.loop.turn(1)
        assert self.watched.fileno() == -1
        return self.outcomes[0].end


@pytest.fixture
def loop():
    loop = Loop()
    yield loop
    loop.close()


def test_bytes_pass_without_it_and_are_counted_by_the_kernel(loop):
    one = HandedOver(loop, before=b"preface")
    one.client.send(b"question")
    loop.turn()
    assert received(one.receiver) == b"question"
    one.receiver.send(b"the answer")
    assert received(one.client) == b"the answer"
    one.client.close()
    loop.turn()
    one.receiver.shutdown(socket.SHUT_RDWR)
    one.receiver.close()
    assert one.end is End.CLIENT_CLOSED
    assert (one.traffic.up, one.traffic.down) == (8, 10)
    assert (loop.total.up, loop.total.down) == (8, 10)


def test_a_receiver_that_shuts_down_first_has_closed_it(loop):
    one = HandedOver(loop)
    one.receiver.send(b"bye")
    one.receiver.shutdown(socket.SHUT_RDWR)
    one.receiver.close()
    assert one.end is End.UPSTREAM_CLOSED
    assert received(one.client) == b"bye"
    assert received(one.client) == b""


def test_half_close_ends_nothing(loop):
    one = HandedOver(loop)
    one.client.send(b"req")
    one.client.shutdown(socket.SHUT_WR)
    loop.turn()
    assert not one.outcomes
    assert received(one.receiver) == b"req"
    one.receiver.send(b"reply")
    assert received(one.client) == b"reply"
    one.receiver.shutdown(socket.SHUT_RDWR)
    assert one.end is End.CLIENT_CLOSED


def test_a_client_that_resets_has_reset(loop):
    one = HandedOver(loop)
    abort(one.client)
    assert one.end is End.CLIENT_RESET


def test_a_receiver_that_disconnects_has_reset(loop):
    one = HandedOver(loop, before=b"preface")
    disconnect(one.receiver)
    assert one.end is End.UPSTREAM_RESET
    assert is_reset(one.client)


def test_a_cut_resets_the_client_and_fails_whatever_the_receiver_does(loop):
    one = HandedOver(loop)
    one.receiver.send(b"before")
    one.handed.finish(End.SUPERSEDED)
    one.handed.finish(End.DRAIN_TIMEOUT)
    assert one.end is End.SUPERSEDED
    assert len(one.outcomes) == 1
    assert is_reset(one.client)
    with pytest.raises(OSError, match=r"."):
        one.receiver.send(b"after")


def test_what_went_through_before_a_cut_is_counted(loop):
    one = HandedOver(loop)
    one.client.send(b"12345")
    loop.turn()
    one.handed.finish(End.SUPERSEDED)
    assert one.end is End.SUPERSEDED
    assert one.traffic.up == 5


@pytest.mark.parametrize(
    ("times", "end"),
    [
        (RelayTimes(half_close=None, idle=None, lifetime=50), End.LIFETIME),
        (RelayTimes(half_close=None, idle=50, lifetime=None), End.IDLE),
    ],
)
def test_its_time_is_bounded_as_any_others(loop, times, end, monkeypatch):
    def counted(sock):  # the kernel's clock isn't the test's
        return replace(tcp_counts(sock), silent=loop.now - 1000.0)

    monkeypatch.setattr("sidecar.relay.handed.tcp_counts", counted)
    one = HandedOver(loop, times)
    loop.turn()
    loop.pass_time(40)
    assert not one.outcomes
    loop.pass_time(40)
    loop.pass_time(40)
    assert one.end is end
    assert is_reset(one.client)


def test_a_half_open_one_is_ended_after_its_time(loop):
    one = HandedOver(loop, RelayTimes(half_close=60, idle=None, lifetime=None))
    one.client.shutdown(socket.SHUT_WR)
    loop.turn()
    loop.pass_time(61)
    assert one.end is End.HALF_CLOSE


def test_beyond_the_fence_it_is_cut_though_nothing_happens_on_it(loop):
    loop.fence.until, loop.fence.end = loop.now + 5, End.AUTHORITY_STALE
    one = HandedOver(loop)
    loop.turn()
    loop.fence.until += 5  # a good read came meanwhile
    loop.pass_time(6)
    assert not one.outcomes
    loop.pass_time(5)
    assert one.end is End.AUTHORITY_STALE


def test_what_came_before_it_was_watched_counts_and_our_own_answer_does_not(loop):
    """The receiver may have begun long before this side hears that it has taken it."""
    client, accepted = tcp()
    loop.closing.enter_context(client)
    client.send(b"preface" + b"early")
    accepted.recv(7)
    receiver = accepted.dup()
    loop.closing.enter_context(receiver)
    receiver.setblocking(False)
    receiver.send(b"answer" + b"reply")
    assert received(client) == b"answerreply"
    client.close()
    receiver.shutdown(socket.SHUT_RDWR)
    traffic, outcomes = Traffic(), []
    terms = Terms(FOREVER, loop.fence, traffic, loop.total)
    Handed(loop.reactor, accepted, terms, outcomes.append, before=7, owed=6).begin()
    loop.until(lambda: outcomes)
    assert (traffic.up, traffic.down) == (5, 5)


def test_an_end_that_came_before_it_was_watched_is_seen(loop):
    for _ in range(50):
        one = HandedOver(loop)
        one.client.shutdown(socket.SHUT_WR)
        one.receiver.shutdown(socket.SHUT_RDWR)
        assert one.end in {End.CLIENT_CLOSED, End.UPSTREAM_CLOSED}
