"""A socket that two processes hold, with the kernel's own sockets."""

from __future__ import annotations

import errno
import socket
import threading
from contextlib import suppress

import pytest
from fake_lifeline import ended, receive, tcp_pair, unix_pair, was_reset

from sidecar.handoff.connection import finish, reset


@pytest.fixture(params=[tcp_pair, unix_pair])
def pair(request):
    """A client, the receiver's socket, and the sidecar's duplicate of it."""
    client, accepted = request.param()
    with client, accepted, accepted.dup() as duplicate:
        yield client, accepted, duplicate


def test_closing_alone_ends_nothing(pair):
    client, accepted, _ = pair
    accepted.close()
    client.settimeout(0)
    with pytest.raises(BlockingIOError):
        client.recv(1)


def test_a_finished_connection_has_ended_for_the_client_and_for_the_sidecar(pair):
    client, accepted, duplicate = pair
    accepted.send(b"last words")
    finish(accepted)
    accepted.close()
    assert receive(client, 99) == b"last words"
    assert ended(duplicate)


def test_finishing_what_is_over_does_nothing(pair):
    _, accepted, _ = pair
    finish(accepted)
    finish(accepted)
    accepted.close()
    finish(accepted)


def test_a_reset_connection_gives_nothing_more_to_anybody(pair):
    client, accepted, duplicate = pair
    client.sendall(b"never carried out")
    reset(accepted)
    for each in (accepted, duplicate):
        with suppress(OSError):
            assert each.recv(99) == b""
        with pytest.raises(BrokenPipeError):
            each.send(b"x")
    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        client.sendall(b"x")


def test_the_client_of_a_reset_tcp_connection_gets_an_rst_although_a_duplicate_is_open():
    client, accepted = tcp_pair()
    with client, accepted, accepted.dup():
        accepted.send(b"thrown away or not")
        reset(accepted)
        assert was_reset(client)
        reset(accepted)  # once more does nothing


def test_a_reset_wakes_whoever_waits_in_a_read(pair):
    _, accepted, duplicate = pair
    accepted.settimeout(10)
    woken = threading.Event()

    def read():
        with suppress(ConnectionResetError):
            accepted.recv(1)
        woken.set()

    reader = threading.Thread(target=read)
    reader.start()
    reset(duplicate)
    assert woken.wait(5)
    reader.join()


def test_a_reset_where_the_kernel_allows_no_disconnect_leaves_nothing_to_read(monkeypatch):
    def busy(descriptor):
        raise OSError(errno.EBUSY, "Device or resource busy")

    monkeypatch.setattr("sidecar.handoff.connection._disconnect", busy)
    client, accepted = tcp_pair()
    with client, accepted:
        client.sendall(b"never carried out")
        accepted.settimeout(10)
        assert accepted.recv(99, socket.MSG_PEEK)
        reset(accepted)
        assert accepted.recv(99) == b""
