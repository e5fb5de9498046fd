"""A pair whose client's bytes go through something that isn't its socket itself, as TLS does."""

from __future__ import annotations

import os
import socket
from contextlib import suppress

import pytest

from sidecar.reasons import End
from sidecar.relay.side import CHUNK
from sidecar.relay.terms import RelayTimes
from tests.turns import Loop, is_reset, received


class Wrapped:
    """Stands for a session: an end that has to be told, and reads that the kernel knows nothing of."""

    def __init__(self, sock):
        self.sock = sock
        self.kept = b""  # read already, as far as the kernel is concerned
        self.broken = False  # behind what is kept
        self.busy = 0  # times that the end can't be told
        self.dead = False  # whether it can't ever
        self.told = 0

    def recv_into(self, buffer, /):
        if self.kept:
            size = min(len(self.kept), len(buffer))
            buffer[:size], self.kept = self.kept[:size], self.kept[size:]
            return size
        if self.broken:
            raise ConnectionError
        return self.sock.recv_into(buffer)

    def send(self, data, /):
        return self.sock.send(data)

    def shutdown(self, how, /):
        if self.busy:
            self.busy -= 1
            raise BlockingIOError
        if self.dead:
            raise ConnectionError
        self.told += 1
        self.sock.shutdown(how)

    @property
    def unread(self):
        return bool(self.kept) or self.broken


@pytest.fixture
def loop():
    each = Loop()
    yield each
    each.close()


def test_both_ends_are_told_and_it_is_over_in_order(loop):
    each = loop.pair(session=Wrapped)
    each.client.send(b"up")
    loop.turn()
    assert received(each.process) == b"up"
    each.client.shutdown(socket.SHUT_WR)
    loop.turn()
    assert received(each.process) == b""
    each.process.send(b"down")
    each.process.shutdown(socket.SHUT_WR)
    loop.until(lambda: each.outcomes)
    assert each.session.told == 1
    assert received(each.client) == b"down"
    assert received(each.client) == b""
    assert each.end is End.CLIENT_CLOSED


def test_an_end_that_cant_be_told_at_once_is_told_when_it_can(loop):
    each = loop.pair(session=Wrapped)
    each.session.busy = 3
    each.process.shutdown(socket.SHUT_WR)
    loop.turn()
    assert each.session.told == 1
    assert received(each.client) == b""
    each.client.send(b"later")
    loop.turn()
    assert received(each.process) == b"later"
    each.client.shutdown(socket.SHUT_WR)
    loop.until(lambda: each.outcomes)
    assert each.end is End.UPSTREAM_CLOSED


def test_a_pair_isnt_over_before_the_client_was_told(loop):
    each = loop.pair(session=Wrapped)
    each.client.shutdown(socket.SHUT_WR)
    loop.turn()
    each.session.busy = 3
    each.process.shutdown(socket.SHUT_WR)
    loop.until(lambda: each.outcomes)
    assert each.session.told == 1
    assert each.end is End.CLIENT_CLOSED


def test_what_the_kernel_doesnt_tell_of_is_read_all_the_same(loop):
    each = loop.pair(session=Wrapped)
    each.session.kept = b"x" * (3 * CHUNK)
    each.client.send(b"y")
    got = bytearray()

    def all_of_it():
        got.extend(received(each.process) or b"")
        return len(got) == 3 * CHUNK + 1

    loop.until(all_of_it)
    assert got == b"x" * (3 * CHUNK) + b"y"


def test_it_waits_for_a_slow_reader_and_goes_on_then(loop):
    each = loop.pair(session=Wrapped, buffers=20_000)
    each.session.kept = data = os.urandom(40 * CHUNK)
    each.client.send(b".")
    loop.turn(50)
    assert each.session.kept, "it read on with nobody to take it"
    got = bytearray()

    def all_of_it():
        got.extend(received(each.process, 5000) or b"")
        return len(got) == len(data) + 1

    loop.until(all_of_it, turns=20_000)
    assert got == data + b"."


def test_a_break_behind_bytes_lets_them_through_and_is_no_end(loop):
    each = loop.pair(session=Wrapped)
    each.session.kept, each.session.broken = b"half of", True
    each.client.send(b"!")
    loop.until(lambda: each.outcomes)
    assert each.end is End.CLIENT_RESET
    assert each.traffic.up == len(b"half of")
    assert is_reset(each.process)


def test_a_break_isnt_looked_for_before_a_slow_reader_has_what_came_first(loop):
    each = loop.pair(session=Wrapped, buffers=20_000)
    data = os.urandom(4 * CHUNK)
    each.session.kept, each.session.broken = data, True
    each.client.send(b".")
    loop.turn(50)
    assert not each.outcomes
    got = bytearray()

    def over():
        with suppress(ConnectionResetError):
            got.extend(received(each.process, 5000) or b"")
        return each.outcomes

    loop.until(over, turns=20_000)
    assert each.end is End.CLIENT_RESET
    assert each.traffic.up == len(data)
    assert data.startswith(got)


def test_an_end_that_cant_be_told_at_all_is_the_clients_reset(loop):
    each = loop.pair(session=Wrapped)
    each.session.busy, each.session.dead = 1, True
    each.process.shutdown(socket.SHUT_WR)
    loop.until(lambda: each.outcomes)
    assert each.end is End.CLIENT_RESET
    assert is_reset(each.process)


def test_a_client_that_is_owed_an_end_is_waited_for_no_longer_than_a_half_close(loop):
    each = loop.pair(session=Wrapped, times=RelayTimes(half_close=10, idle=None, lifetime=None))
    each.session.busy = 1 << 30
    each.process.shutdown(socket.SHUT_WR)
    loop.turn()
    each.client.shutdown(socket.SHUT_WR)
    loop.pass_time(9)
    assert not each.outcomes
    loop.pass_time(2)
    loop.until(lambda: each.outcomes)
    assert each.end is End.HALF_CLOSE
    assert each.session.told == 0


@pytest.mark.parametrize("up", [True, False])
@pytest.mark.parametrize(("session", "pipes"), [(None, 1), (Wrapped, 0)])
def test_nothing_is_spliced_past_a_session_however_much_comes(loop, session, pipes, up):
    each = loop.pair(session=session, buffers=200_000)
    sender = each.client if up else each.process
    with suppress(BlockingIOError):
        while True:
            sender.send(bytes(CHUNK))
    loop.turn(8)
    assert (each.traffic.up if up else each.traffic.down) >= 4 * CHUNK, "so many full reads in a row ask for a pipe"
    assert loop.pipes.out == pipes


def test_a_cut_tells_no_end(loop):
    each = loop.pair(session=Wrapped)
    each.pair.finish(End.GENERATION_STALE)
    loop.turn()
    assert each.session.told == 0
    with pytest.raises(ConnectionResetError):
        received(each.client)


def test_what_is_over_keeps_no_session(loop):
    each = loop.pair(session=Wrapped)
    each.pair.finish(End.IDLE)
    assert each.pair._client._session is None
    assert each.pair._client.stream is each.far_client
