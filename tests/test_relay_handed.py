"""A connection that another process holds too, which is the test here: by a duplicate of the descriptor."""

from __future__ import annotations

import socket
from dataclasses import replace

import pytest

from sidecar.reasons import End
from sidecar.relay.handed import LOOK_SECONDS
from sidecar.relay.terms import RelayTimes
from sidecar.sockets import abort, disconnect, tcp_counts
from tests.handed_over import HandedOver, unix
from tests.turns import Loop, is_reset, received, tcp


@pytest.fixture
def loop():
    loop = Loop()
    yield loop
    loop.close()


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


def test_a_reset_that_the_receiver_reads_before_it_is_seen_here_is_a_reset_all_the_same(loop):
    one = HandedOver(loop)
    abort(one.client)
    with pytest.raises(ConnectionResetError):
        received(one.receiver)
    assert one.end is End.CLIENT_RESET


def test_an_end_that_comes_before_the_reactor_knows_whom_to_tell_is_not_lost(loop):
    class LateWatched(dict):
        def update(self, more):
            loop.turn()  # its thread is faster than the one that adds
            super().update(more)

    loop.reactor._watched = LateWatched()
    client, accepted = tcp()
    client.shutdown(socket.SHUT_WR)
    limits = RelayTimes(half_close=60, idle=None, lifetime=None)
    one = HandedOver(loop, limits, preface=b"", sockets=(client, accepted))
    loop.turn()
    loop.pass_time(61)
    assert one.end is End.HALF_CLOSE


def test_a_receiver_that_disconnects_has_reset(loop):
    one = HandedOver(loop)
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


def test_one_whose_receiver_has_ended_its_stream_is_half_open_too(loop):
    one = HandedOver(loop, RelayTimes(half_close=60, idle=None, lifetime=None))
    loop.turn()
    one.receiver.shutdown(socket.SHUT_WR)
    loop.pass_time(LOOK_SECONDS)
    loop.pass_time(59)
    assert not one.outcomes
    loop.pass_time(2)
    assert one.end is End.HALF_CLOSE


def test_a_unix_socket_is_never_idle_since_nobody_counts_there(loop):
    one = HandedOver(loop, RelayTimes(half_close=None, idle=60, lifetime=None), preface=b"", sockets=unix())
    loop.turn()
    for _ in range(30):
        loop.pass_time(LOOK_SECONDS)
    assert not one.outcomes
    one.handed.finish(End.SUPERSEDED)
    assert one.end is End.SUPERSEDED
    assert received(one.client) == b""


def test_a_fence_that_is_set_later_holds_too(loop):
    one = HandedOver(loop)
    loop.turn()
    loop.fence.until, loop.fence.end = loop.now + 7, End.AUTHORITY_STALE
    loop.pass_time(LOOK_SECONDS)
    assert not one.outcomes
    loop.pass_time(2)
    assert one.end is End.AUTHORITY_STALE
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
