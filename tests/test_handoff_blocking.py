"""The blocking receiver, in this process, with a fake sidecar over real sockets."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from fake_lifeline import SECONDS, FakeSidecar, disconnect, ended, packet, receive, sidecar_at, tcp_pair, was_reset

from sidecar.handoff import Receiver, ReceiverClosed
from sidecar.handoff.listening import NoLifelineError, WrongUserError
from sidecar.handoff_format import LifelineError
from tests.names import CLAIM

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def path(tmp_path):
    return tmp_path / "handoff.sock"


@pytest.fixture
def receiver(path):
    with Receiver(path) as receiver:
        yield receiver


def test_it_needs_the_standard_library_alone():
    code = """
import sys
sys.path.insert(0, sys.argv[1])
import sidecar.handoff
print(sorted({name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names - {"__main__"}))
"""
    result = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(ROOT)], capture_output=True, text=True, timeout=60
    )
    assert result.stderr == ""
    assert result.stdout == "['sidecar']\n"


def test_a_connection_is_accepted_with_what_the_sidecar_says_of_it(receiver, path):
    with sidecar_at(path) as sidecar, sidecar.give(41, first=b"hello") as client, receiver.accept(SECONDS) as handed:
        assert (handed.about.number, handed.about.identity) == (41, CLAIM.identity)
        assert (handed.about.generation, handed.about.instance) == (CLAIM.generation, CLAIM.instance)
        assert handed.first == b"hello"
        client.sendall(b"more")
        assert receive(handed.socket, 4) == b"more"
        handed.socket.sendall(b"back")
        assert receive(client, 4) == b"back"


def test_the_sidecars_answer_is_written_before_the_connection_can_be_accepted(receiver, path):
    with sidecar_at(path) as sidecar, sidecar.give(answer=b"answer") as client, receiver.accept(SECONDS) as handed:
        handed.socket.sendall(b" and own bytes")
        assert receive(client, 20) == b"answer and own bytes"


def test_accepting_waits_for_a_connection(receiver, path):
    with pytest.raises(TimeoutError):
        receiver.accept(0)
    accepted = []
    thread = threading.Thread(target=lambda: accepted.append(receiver.accept(SECONDS)))
    thread.start()
    with sidecar_at(path) as sidecar, sidecar.give():
        thread.join(SECONDS)
        accepted[0].close()


def test_leaving_the_block_ends_the_connection_for_the_client_and_for_the_sidecar(receiver, path):
    with sidecar_at(path) as sidecar, sidecar.give() as client:
        with receiver.accept(SECONDS) as handed:
            handed.socket.sendall(b"last words")
        assert ended(sidecar.duplicates[0])
        assert not was_reset(client)


def test_all_connections_of_a_lifeline_are_reset_at_its_end_while_nobody_accepts(receiver, path):
    sidecar = sidecar_at(path)
    clients = [sidecar.give(number) for number in (1, 2, 3)]
    accepted = receiver.accept(SECONDS)  # the other two still wait to be
    sidecar.die()
    assert [was_reset(client) for client in clients] == [True, True, True]
    with accepted, pytest.raises(OSError):  # noqa: PT011  ECONNRESET or ENOTCONN: whichever call comes first
        accepted.socket.recv(1)
    with sidecar_at(path) as sidecar, sidecar.give(99), receiver.accept(SECONDS) as handed:
        assert handed.about.number == 99  # none of those before is given any more
    for client in clients:
        client.close()


def test_an_application_that_waits_in_a_call_is_woken_by_the_lifelines_end(receiver, path):
    sidecar = sidecar_at(path)
    with sidecar.give(first=b"x"), receiver.accept(SECONDS) as handed:
        killer = threading.Thread(target=sidecar.die)
        killer.start()
        with pytest.raises(ConnectionResetError):
            handed.socket.recv(1)
        killer.join()


def test_a_cut_by_the_sidecar_is_an_error_to_the_application_and_touches_no_other(receiver, path):
    with (
        sidecar_at(path) as sidecar,
        sidecar.give(1) as client,
        sidecar.give(2) as other,
        receiver.accept(SECONDS) as handed,
        receiver.accept(SECONDS) as spared,
    ):
        disconnect(sidecar.duplicates[0])
        with pytest.raises(ConnectionResetError):
            handed.socket.recv(1)
        with pytest.raises(BrokenPipeError):
            handed.socket.sendall(b"x")
        assert was_reset(client)
        spared.socket.sendall(b"y")
        assert receive(other, 1) == b"y"


def test_a_second_lifeline_waits_until_the_first_has_ended(receiver, path):
    with sidecar_at(path) as first, first.give() as client, FakeSidecar(path) as second:
        second.lifeline.settimeout(0.05)
        with receiver.accept(SECONDS), pytest.raises(TimeoutError):
            second.reply()
        second.lifeline.settimeout(SECONDS)
        first.die()
        assert second.reply() == "ready 1"
        client.settimeout(0)
        assert not was_reset(client)  # it was closed in order, before
        with second.give(1), receiver.accept(SECONDS) as handed:
            assert handed.about.number == 1


def test_a_second_lifeline_is_ready_for_only_when_the_connections_of_the_first_are_reset(receiver, path):
    first = sidecar_at(path)
    clients = [first.give(number) for number in range(1, 51)]
    with FakeSidecar(path) as second:
        first.die()
        assert second.reply() == "ready 1"
        for client in clients:
            client.settimeout(0)  # it has happened already: there is nothing to wait for
            assert was_reset(client)
            client.close()


def test_a_full_receiver_refuses_and_leaves_the_client_to_the_sidecar(path):
    with Receiver(path, capacity=1) as receiver, sidecar_at(path) as sidecar, sidecar.give(1):
        client, accepted = tcp_pair()
        sidecar.hand_over(accepted, 2, answer=b"answer")
        assert sidecar.reply() == "refused 2 full"
        accepted.send(b"refusal")
        assert receive(client, 7) == b"refusal"
        receiver.accept(SECONDS).close()
        client.close()
        sidecar.give(3).close()  # there is room again


def test_with_a_capacity_of_nothing_no_more_are_taken_and_those_there_live_on(receiver, path):
    with sidecar_at(path) as sidecar, sidecar.give() as client, receiver.accept(SECONDS) as handed:
        receiver.capacity = 0
        other, accepted = tcp_pair()
        sidecar.hand_over(accepted, 2)
        assert sidecar.reply() == "refused 2 full"
        client.sendall(b"x")
        assert receive(handed.socket, 1) == b"x"
        other.close()


def test_a_broken_packet_ends_the_lifeline_and_is_reported(path):
    faults = []
    with Receiver(path, on_fault=faults.append) as receiver, sidecar_at(path) as sidecar:
        client = sidecar.give()
        sidecar.send(b"hello?")
        assert sidecar.reply() == ""
        assert was_reset(client)
        client.close()
        assert [type(fault) for fault in faults] == [LifelineError]
        with sidecar_at(path) as again, again.give(), receiver.accept(SECONDS) as handed:
            assert handed.about.number == 1


def test_a_descriptor_of_a_broken_packet_is_closed(path):
    client, accepted = tcp_pair()
    with Receiver(path, on_fault=lambda fault: None), sidecar_at(path) as sidecar, accepted, client:
        sidecar.send(packet(None), accepted)
        assert sidecar.reply() == ""
        accepted.close()
        assert receive(client, 1) == b""


def test_faults_go_to_the_log_by_default(receiver, path, caplog):
    with caplog.at_level(logging.WARNING), sidecar_at(path) as sidecar:
        sidecar.send(packet(None))
        assert sidecar.reply() == ""
    assert caplog.messages == ["a hand-over has no number"]


def test_nobody_but_its_users_may_hand_connections_over(path):
    faults = []
    with Receiver(path, uids=[os.geteuid() + 1], on_fault=faults.append), FakeSidecar(path) as sidecar:
        assert sidecar.reply() == ""
        assert [type(fault) for fault in faults] == [WrongUserError]


def test_a_connection_that_broke_before_it_was_taken_is_not_given_to_the_application(receiver, path):
    client, accepted = tcp_pair()
    disconnect(accepted)
    with sidecar_at(path) as sidecar:
        sidecar.hand_over(accepted, 1, answer=b"answer")
        assert sidecar.reply() == "taken 1"
        with sidecar.give(2), receiver.accept(SECONDS) as handed:
            assert handed.about.number == 2
    client.close()


def test_a_connection_that_the_sidecar_cannot_be_told_of_is_reset_and_takes_no_place(path):
    with Receiver(path, capacity=1) as receiver, sidecar_at(path) as sidecar:
        client, accepted = tcp_pair()
        sidecar.lifeline.shutdown(socket.SHUT_RD)
        sidecar.hand_over(accepted, 1)
        assert was_reset(client)
        sidecar.die()
        client.close()
        with sidecar_at(path) as again, again.give(2), receiver.accept(SECONDS) as handed:
            assert handed.about.number == 2


def test_closing_the_receiver_resets_what_is_open_and_removes_its_socket(receiver, path):
    with sidecar_at(path) as sidecar, sidecar.give() as client, receiver.accept(SECONDS):
        receiver.close()
        assert was_reset(client)
        assert sidecar.reply() == ""
        assert not path.exists()
        with pytest.raises(ReceiverClosed):
            receiver.accept()
        receiver.close()  # once more does nothing
    assert list(receiver) == []


def test_closing_the_receiver_wakes_whoever_waits_for_a_connection(path):
    taken = []
    with Receiver(path) as receiver:
        thread = threading.Thread(target=lambda: taken.extend(receiver))
        thread.start()
    thread.join(SECONDS)
    assert not thread.is_alive()
    assert taken == []


def test_a_fault_of_the_receiver_itself_is_raised_where_connections_are_accepted(path):
    def fail(fault):
        raise RuntimeError("no log")

    with Receiver(path, on_fault=fail) as receiver, sidecar_at(path) as sidecar:
        sidecar.send(b"hello?")
        with pytest.raises(ReceiverClosed) as caught:
            receiver.accept(SECONDS)
        assert isinstance(caught.value.__cause__, RuntimeError)
        with pytest.raises(ReceiverClosed):
            list(receiver)


def test_a_sidecar_that_reads_no_replies_delays_neither_its_own_end_nor_the_close(path):
    with Receiver(path, capacity=0) as receiver:  # each is refused, so that descriptors don't end first
        sidecar = sidecar_at(path)
        client, accepted = tcp_pair()
        sidecar.send_until_nobody_listens(accepted)
        receiver.close()
        sidecar.die()
        accepted.close()
        client.close()


def test_a_lifeline_that_cannot_be_accepted_is_reported_and_tried_again(path, monkeypatch):
    faults = []
    real = socket.socket.accept
    failures = [OSError(24, "Too many open files")]

    def accept(self):
        if failures and self.type == socket.SOCK_SEQPACKET:
            raise failures.pop()
        return real(self)

    monkeypatch.setattr("sidecar.handoff.blocking.RETRY_SECONDS", 0.01)
    monkeypatch.setattr(socket.socket, "accept", accept)
    with Receiver(path, on_fault=faults.append), sidecar_at(path):
        assert [type(fault) for fault in faults] == [NoLifelineError]
