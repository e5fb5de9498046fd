"""The socket of a connection that was handed over."""

from __future__ import annotations

import fcntl
import io
import os
import threading

import pytest
from fake_lifeline import ended, packet, receive, tcp_pair, was_reset

from sidecar.handoff.handed import LONGEST_WAIT, Handed, HandedSocket
from sidecar.handoff_format import read_packet


@pytest.fixture
def pair():
    """A client, the application's socket, the sidecar's duplicate of it, and a list of those that were closed."""
    client, accepted = tcp_pair()
    closed = []
    with client, accepted.dup() as duplicate:
        handed = HandedSocket(accepted, closed.append)
        yield client, handed, duplicate, closed
        handed.close()


def blocks(sock):
    return not fcntl.fcntl(sock.fileno(), fcntl.F_GETFL) & os.O_NONBLOCK


@pytest.mark.parametrize("change", ["settimeout(None)", "setblocking(True)", "settimeout(5)", "settimeout(10**10)"])
def test_it_waits_without_making_the_open_file_block(pair, change):
    client, handed, duplicate, _ = pair
    eval(f"handed.{change}", {"handed": handed})
    assert not blocks(duplicate)
    threading.Timer(0.05, client.sendall, [b"x"]).start()
    assert handed.recv(1) == b"x"


def test_it_waits_for_24_days_by_default_and_not_at_all_on_demand(pair):
    _, handed, _, _ = pair
    assert handed.gettimeout() == LONGEST_WAIT == 24 * 86400 + 73883
    handed.setblocking(False)
    with pytest.raises(BlockingIOError):
        handed.recv(1)


def test_closing_it_ends_the_connection_and_tells_of_it_once(pair):
    client, handed, duplicate, closed = pair
    handed.sendall(b"last words")
    handed.close()
    handed.close()
    assert closed == [handed]
    assert ended(duplicate)
    assert receive(client, 99) == b"last words"
    assert not was_reset(client)


def test_a_half_close_leaves_the_other_direction_open(pair):
    client, handed, _, _ = pair
    client.shutdown(1)
    assert handed.recv(1) == b""
    handed.sendall(b"still here")
    handed.close()
    assert receive(client, 99) == b"still here"


def test_files_made_of_it_keep_it_open_until_the_last_is_closed(pair):
    client, handed, duplicate, closed = pair
    with handed.makefile("rw") as file:
        handed.close()
        client.sendall(b"line\n")
        assert file.readline() == "line\n"
        file.write("another\n")
        assert closed == []
    assert closed == [handed]
    assert receive(client, 99) == b"another\n"
    assert ended(duplicate)


def test_it_cannot_get_out_of_its_receivers_reach(pair):
    _, handed, _, _ = pair
    with pytest.raises(io.UnsupportedOperation):
        handed.detach()
    with pytest.raises(io.UnsupportedOperation):
        handed.dup()


def test_a_reset_breaks_it_and_does_nothing_once_it_is_closed(pair):
    client, handed, _, _ = pair
    handed.reset()
    assert was_reset(client)
    with pytest.raises(ConnectionResetError):
        handed.recv(1)
    handed.close()
    handed.reset()


def test_a_connection_is_closed_at_the_end_of_its_block(pair):
    _, sock, _, closed = pair
    with Handed(sock, read_packet(packet(1, first=b"first"))) as handed:
        assert handed.first == b"first"
    assert closed == [sock]


def test_it_is_not_closed_while_it_is_being_reset(pair, monkeypatch):
    """A reset is by descriptor: once it is closed, the number may be another socket's."""
    _, handed, _, closed = pair
    closer = threading.Thread(target=handed.close)

    def slow_reset(connection):
        closer.start()
        closer.join(0.05)
        assert connection.fileno() != -1
        assert closed == []

    monkeypatch.setattr("sidecar.handoff.handed.reset", slow_reset)
    handed.reset()
    closer.join()
    assert closed == [handed]
