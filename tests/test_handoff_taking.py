"""From a packet to a connection, over a real Unix socket that carries descriptors."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from fake_lifeline import FakeSidecar, disconnect, packet, receive, tcp_pair, unix_pair

from sidecar.handoff.taking import DESCRIPTOR_ROOM, FLAGS, PACKET_ROOM, take
from sidecar.handoff_format import MAX_PACKET, LifelineError

ROOT = Path(__file__).resolve().parent.parent


def open_descriptors():
    return set(Path("/proc/self/fd").iterdir())


class Lifeline(FakeSidecar):
    """Both of its ends in this process."""

    def __init__(self):
        self.lifeline, self.far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.duplicates = []

    def take(self, *, full=False):
        return take(self.far.recvmsg(PACKET_ROOM, DESCRIPTOR_ROOM, FLAGS), full=full)

    def die(self):
        super().die()
        self.far.close()


@pytest.fixture
def lifeline():
    with Lifeline() as lifeline:
        yield lifeline


@pytest.mark.parametrize("pair", [tcp_pair, unix_pair])
def test_a_connection_is_taken_with_the_answer_written_to_it(lifeline, pair):
    client, accepted = pair()
    lifeline.hand_over(accepted, 5, answer=b"answer")
    taken = lifeline.take()
    with client, taken.connection as connection:
        assert taken.reply == b"taken 5"
        assert taken.introduction.number == 5
        assert receive(client, 6) == b"answer"
        client.sendall(b"x")
        connection.settimeout(10)
        assert connection.recv(1) == b"x"


def test_it_neither_blocks_nor_lives_on_in_a_child(lifeline):
    client, accepted = tcp_pair()
    accepted.setblocking(True)  # even where the sidecar has forgotten it
    lifeline.hand_over(accepted)
    with client, lifeline.take().connection as connection:
        assert not connection.get_inheritable()
        assert not os.get_blocking(connection.fileno())
        with pytest.raises(BlockingIOError):
            connection.recv(1)


def test_a_refused_connection_is_closed_and_nothing_is_written_to_it(lifeline):
    client, accepted = tcp_pair()
    lifeline.hand_over(accepted, 5, answer=b"answer")
    before = open_descriptors()
    taken = lifeline.take(full=True)
    assert (taken.reply, taken.connection) == (b"refused 5 full", None)
    assert open_descriptors() == before
    with client:
        client.settimeout(0)
        with pytest.raises(BlockingIOError):
            client.recv(1)


@pytest.mark.parametrize(
    ("data", "count"), [(packet(1), 2), (packet(1), 3), (packet(1), 0), (b"no header", 1), (packet(None), 2)]
)
def test_every_descriptor_of_a_broken_packet_is_closed(lifeline, data, count):
    client, accepted = tcp_pair()
    with client, accepted:
        before = open_descriptors()
        lifeline.send(data, *[accepted] * count)
        with pytest.raises(LifelineError):
            lifeline.take()
        assert open_descriptors() == before


def test_a_descriptor_that_is_no_socket_breaks_the_rules_and_is_closed(lifeline):
    with Path(os.devnull).open() as file:
        before = open_descriptors()
        lifeline.send(packet(1), file)
        with pytest.raises(LifelineError, match="no socket"):
            lifeline.take()
        assert open_descriptors() == before


def test_a_packet_that_is_too_long_is_told_from_one_that_is_cut_to_fit(lifeline):
    client, accepted = tcp_pair()
    lifeline.hand_over(accepted, 1, first=bytes(MAX_PACKET))
    with client, pytest.raises(LifelineError, match="more than"):
        lifeline.take()


def test_a_connection_that_is_over_is_taken_and_closed(lifeline):
    client, accepted = tcp_pair()
    lifeline.hand_over(accepted, 5, answer=b"answer")
    disconnect(accepted)
    before = open_descriptors()
    taken = lifeline.take()
    assert (taken.reply, taken.connection) == (b"taken 5", None)
    assert open_descriptors() == before
    client.close()


def test_an_answer_that_does_not_fit_breaks_the_connection_instead_of_being_cut(lifeline):
    client, accepted = tcp_pair()
    with client, suppress(BlockingIOError):  # until nothing fits any more
        while True:
            accepted.send(bytes(65536))
    lifeline.hand_over(accepted, 5, answer=b"answer")
    assert lifeline.take().connection is None


def test_without_descriptors_left_the_connection_is_refused():
    """The kernel itself drops the descriptor and says so: in a process of its own, which has none left."""
    code = """
import os, resource, socket, sys
sys.path[:0] = sys.argv[1:]
from fake_lifeline import packet, tcp_pair
from test_handoff_taking import Lifeline
lifeline = Lifeline()
client, accepted = tcp_pair()
lifeline.hand_over(accepted, 5, answer=b"answer")
resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))), ) * 2)
fill = []
try:
    while True:
        fill.append(os.dup(0))
except OSError:
    pass
taken = lifeline.take()
print(taken.reply.decode(), taken.connection)
accepted.send(b"refusal")
print(client.recv(99).decode())
"""
    result = subprocess.run(
        [sys.executable, "-c", code, str(ROOT), str(ROOT / "tests")], capture_output=True, text=True, timeout=60
    )
    assert (result.stderr, result.stdout) == ("", "refused 5 descriptors None\nrefusal\n")
