"""What goes through an admitted connection, and how it ends: byte for byte, FIN for FIN, RST for RST."""

from __future__ import annotations

import random
import select
import socket
from collections.abc import Iterator

import pytest
from conftest import Start
from kernel import is_reset, receive_all, receive_exactly, reset, silent_for
from names import WRONG, preface
from processes import eventually
from replica import LocalProcess, Sidecar, next_answer

MiB = 1 << 20
PATTERN = random.Random(1).randbytes(MiB)

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair(sidecar: Sidecar, local_process: LocalProcess) -> Iterator[Pair]:
    """The controller's and the local process's end of an admitted connection."""
    client, upstream = sidecar.admit(local_process)
    with client, upstream:
        yield client, upstream


def fill(sock: socket.socket) -> int:
    """Send until nothing has been taken for half a second; how many bytes were."""
    sent = 0
    sock.setblocking(False)
    while select.select([], [sock], [], 0.5)[1]:
        sent += sock.send(PATTERN[sent % MiB :])
    sock.settimeout(60)
    return sent


def ended(sidecar: Sidecar, client: socket.socket) -> object:
    """Why the connection of *client* has ended."""
    return sidecar.line("connection_ended", client.getsockname())["end"]


def test_the_reply_comes_through_after_the_client_has_ended_its_side(pair: Pair, sidecar: Sidecar) -> None:
    client, upstream = pair
    client.sendall(b"request")
    client.shutdown(socket.SHUT_WR)
    assert receive_all(upstream) == b"request"
    assert silent_for(client, 1.0)  # the local process takes its time
    upstream.sendall(PATTERN)
    upstream.close()
    assert receive_all(client) == PATTERN
    assert ended(sidecar, client) == "client_closed"


def test_the_request_goes_on_after_the_local_process_has_ended_its_side(pair: Pair, sidecar: Sidecar) -> None:
    client, upstream = pair
    upstream.sendall(b"early reply")
    upstream.shutdown(socket.SHUT_WR)
    assert receive_all(client) == b"early reply"
    client.sendall(PATTERN)
    client.shutdown(socket.SHUT_WR)
    assert receive_all(upstream) == PATTERN
    assert ended(sidecar, client) == "upstream_closed"


def test_nothing_is_left_of_connections_that_have_ended(sidecar: Sidecar, local_process: LocalProcess) -> None:
    assert eventually(lambda: sidecar.idle)
    descriptors = sidecar.descriptors()
    for end_first in (0, 1):
        for _ in range(20):
            ends = sidecar.admit(local_process)
            ends[end_first].close()
            assert receive_all(ends[1 - end_first]) == b""
            ends[1 - end_first].close()
    assert eventually(lambda: sidecar.idle)
    assert eventually(lambda: sidecar.descriptors() <= descriptors)


def test_a_half_closed_pair_is_cut_when_its_time_is_over(start: Start, own_local_process: LocalProcess) -> None:
    sidecar = start(timeouts={"half_close": "300ms"})
    client, upstream = sidecar.admit(own_local_process)
    with client, upstream:
        client.shutdown(socket.SHUT_WR)
        assert receive_exactly(upstream, 1) == b""
        assert is_reset(client)
        assert ended(sidecar, client) == "half_close"
        with pytest.raises(ConnectionError):
            upstream.sendall(b"nobody is there any more")
        assert sidecar.idle


def test_an_idle_pair_is_cut_and_a_busy_one_is_not(start: Start, own_local_process: LocalProcess) -> None:
    sidecar = start(timeouts={"idle": "1s"})
    idle, idle_upstream = sidecar.admit(own_local_process)
    busy, busy_upstream = sidecar.admit(own_local_process)
    with idle, idle_upstream, busy, busy_upstream:
        while silent_for(idle, 0.1):
            busy.sendall(b"x")
            assert receive_exactly(busy_upstream, 1) == b"x"
        assert is_reset(idle)
        assert is_reset(idle_upstream)
        assert ended(sidecar, idle) == "idle"
        busy.sendall(b"still here")
        assert receive_exactly(busy_upstream, 10) == b"still here"


def test_a_pair_does_not_outlive_its_lifetime(start: Start, own_local_process: LocalProcess) -> None:
    sidecar = start(timeouts={"lifetime": "500ms"})
    client, upstream = sidecar.admit(own_local_process)
    with client, upstream:
        assert is_reset(client)
        assert is_reset(upstream)
        assert ended(sidecar, client) == "lifetime"


def test_silence_after_the_preface_may_last(hasty_sidecar: Sidecar, local_process: LocalProcess) -> None:
    client, upstream = hasty_sidecar.admit(local_process)
    with client, upstream:
        assert silent_for(client, 4 * 0.4)  # four times what a preface may take
        client.sendall(b"good morning")
        assert receive_exactly(upstream, 12) == b"good morning"


def test_a_reset_of_the_client_reaches_the_local_process_as_a_reset(pair: Pair, sidecar: Sidecar) -> None:
    client, upstream = pair
    address = client.getsockname()
    client.sendall(b"half a requ")
    assert receive_exactly(upstream, 11) == b"half a requ"
    reset(client)
    assert is_reset(upstream)
    assert sidecar.line("connection_ended", address)["end"] == "client_reset"


def test_a_reset_of_the_local_process_reaches_the_client_as_a_reset(pair: Pair, sidecar: Sidecar) -> None:
    client, upstream = pair
    upstream.sendall(b"half a rep")
    assert receive_exactly(client, 10) == b"half a rep"
    reset(upstream)
    assert is_reset(client)
    assert ended(sidecar, client) == "upstream_reset"


@pytest.mark.parametrize("dead", ["client", "local process"])
def test_a_reset_is_passed_on_though_the_other_side_does_not_read(dead: str, pair: Pair, sidecar: Sidecar) -> None:
    near, far = pair if dead == "client" else pair[::-1]
    fill(near)
    reset(near)
    assert eventually(lambda: sidecar.idle)
    assert is_reset(far)


@pytest.mark.parametrize("direction", ["up", "down"])
def test_who_does_not_read_holds_the_sender_back_and_loses_nothing(
    direction: str, pair: Pair, sidecar: Sidecar
) -> None:
    sender, reader = pair if direction == "up" else pair[::-1]
    memory = sidecar.memory()
    sent = fill(sender)
    assert sent < 60 * MiB  # the buffers of four sockets; the relay itself holds 64 KiB
    assert sidecar.memory() - memory < 4 * MiB
    sender.shutdown(socket.SHUT_WR)
    received = receive_all(reader)
    assert len(received) == sent
    assert received == (PATTERN * (sent // MiB + 1))[:sent]


def test_a_local_process_may_pause_for_longer_than_a_dead_peer_may_be_silent(
    start: Start, own_local_process: LocalProcess
) -> None:
    sidecar = start(timeouts={"user_timeout": "500ms"})
    client, upstream = sidecar.admit(own_local_process)
    with client, upstream:
        sent = fill(client)
        assert silent_for(client, 2.0)
        client.shutdown(socket.SHUT_WR)
        assert len(receive_all(upstream)) == sent


def test_both_directions_are_busy_at_once_and_exact(pair: Pair) -> None:
    client, upstream = pair
    size = 16 * MiB
    sent, received = {client: 0, upstream: 0}, {client: 0, upstream: 0}
    for sock in pair:
        sock.setblocking(False)
    while min(received.values()) < size:
        readable, writable, _ = select.select(pair, [sock for sock in pair if sent[sock] < size], [], 20)
        assert readable or writable
        for sock in readable:
            data = sock.recv(MiB)
            at = received[sock] % MiB
            assert data == (PATTERN + PATTERN)[at : at + len(data)]
            received[sock] += len(data)
        for sock in writable:
            sent[sock] += sock.send(PATTERN[sent[sock] % MiB :][: size - sent[sock]])


def test_the_reason_survives_though_the_client_is_still_sending(sidecar: Sidecar, local_process: LocalProcess) -> None:
    with sidecar.counting(identity_mismatch=100):
        for _ in range(100):
            with sidecar.connect(buffers=16 * 1024) as client:
                client.sendall(preface(WRONG, answer=True))
                client.sendall(PATTERN[: 256 * 1024])
                assert next_answer(client).verdict == "identity_mismatch"
                assert receive_all(client) == b""


def test_a_refused_client_that_never_stops_sending_is_closed_upon(start: Start) -> None:
    sidecar = start(limits={"refusal_drain": "64KiB"})
    with sidecar.dial(WRONG) as client:
        with pytest.raises(ConnectionError):
            client.sendall(PATTERN * 100)
        assert eventually(lambda: sidecar.idle)


def test_a_refused_client_that_never_closes_is_closed_upon(sidecar: Sidecar, local_process: LocalProcess) -> None:
    with sidecar.dial(WRONG) as client:
        assert receive_all(client) == b""
        assert eventually(lambda: sidecar.idle)
