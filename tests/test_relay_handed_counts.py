"""What the kernel has counted of a connection that was handed over: all of its payload, and nothing else."""

from __future__ import annotations

import socket

import pytest

from sidecar.reasons import End
from sidecar.relay.handed import LOOK_SECONDS
from sidecar.sockets import abort
from tests.handed_over import HandedOver
from tests.turns import Loop, clog, received, tcp


@pytest.fixture
def loop():
    loop = Loop()
    yield loop
    loop.close()


def test_bytes_pass_without_it_and_are_counted_by_the_kernel(loop):
    one = HandedOver(loop, answer=b"ADMITTED")
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
    assert one.counted == (8, 10)


def test_what_went_along_with_it_counts_and_so_does_what_passed_before_it_was_watched(loop):
    one = HandedOver(loop, answer=b"ADMITTED", first=b"first", meanwhile=b"and more")
    loop.turn()
    assert one.counted == (13, 8)


def end_client_first(one):
    one.client.shutdown(socket.SHUT_WR)
    one.loop.turn()
    one.receiver.shutdown(socket.SHUT_RDWR)
    return End.CLIENT_CLOSED


def end_receiver_first(one):
    one.receiver.shutdown(socket.SHUT_WR)
    one.loop.pass_time(LOOK_SECONDS)
    one.client.close()
    return End.UPSTREAM_CLOSED


def end_both_between_two_turns(one):
    one.client.shutdown(socket.SHUT_WR)
    one.receiver.shutdown(socket.SHUT_WR)
    return End.CLIENT_CLOSED


def reset_by_the_client(one):
    abort(one.client)
    return End.CLIENT_RESET


def reset_by_the_client_after_its_end(one):
    one.client.shutdown(socket.SHUT_WR)
    one.loop.turn()
    abort(one.client)
    return End.CLIENT_RESET


def cut(one):
    one.handed.finish(End.SUPERSEDED)
    return End.SUPERSEDED


@pytest.mark.parametrize(
    "ends",
    [
        end_client_first,
        end_receiver_first,
        end_both_between_two_turns,
        reset_by_the_client,
        reset_by_the_client_after_its_end,
        cut,
    ],
)
def test_every_byte_of_payload_counts_and_no_end_of_a_stream_does_however_it_ends(loop, ends):
    one = HandedOver(loop, answer=b"ADMITTED", first=b"first")
    one.client.send(b"12345")
    one.receiver.send(b"abc")
    assert received(one.client) == b"abc"
    assert received(one.receiver) == b"12345"
    loop.pass_time(LOOK_SECONDS)
    assert one.counted == (10, 3), "live"
    one.client.send(b"67")
    one.receiver.send(b"d")
    assert received(one.client) == b"d"
    assert received(one.receiver) == b"67"
    expected = ends(one)
    assert one.end is expected
    assert one.counted == (12, 4)


def test_what_the_receiver_has_written_counts_though_the_client_has_not_taken_it_yet(loop):
    one = HandedOver(loop, preface=b"", sockets=tcp(buffers=4096))
    one.client.shutdown(socket.SHUT_WR)
    loop.turn()
    written = clog(loop, one.receiver)
    one.receiver.shutdown(socket.SHUT_RDWR)
    assert one.end is End.CLIENT_CLOSED
    assert one.counted == (0, written)


def test_what_went_through_before_a_cut_is_counted(loop):
    one = HandedOver(loop)
    one.client.send(b"12345")
    loop.turn()
    one.handed.finish(End.SUPERSEDED)
    assert one.end is End.SUPERSEDED
    assert one.traffic.up == 5


def test_an_end_that_is_looked_at_before_it_is_told_is_not_counted_either(loop):
    one = HandedOver(loop)
    one.client.send(b"12345")
    one.client.shutdown(socket.SHUT_WR)
    one.receiver.shutdown(socket.SHUT_WR)
    one.handed.look()
    assert one.counted[0] <= 5
    one.handed.finish(End.SUPERSEDED)
    assert one.end is End.SUPERSEDED
    assert one.counted == (5, 0)
