"""The receivers under examples/handoff/, as processes that a fake sidecar hands connections to.

Both are an echo. What the format demands of a receiver is tried on each of them alike, whatever it is written in.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_lifeline import FakeSidecar, disconnect, ended, packet, receive, sidecar_at, tcp_pair, unix_pair, was_reset
from processes import Process, eventually, program, running

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = ROOT / "examples" / "handoff"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> str:
    compiler = program("gcc", comes_from="Debian's package gcc")
    target = str(tmp_path_factory.mktemp("handoff") / "receiver")
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O2", "-fsanitize=undefined,address"]
    built = subprocess.run(
        [compiler, *flags, "-o", target, str(EXAMPLES / "receiver.c")], capture_output=True, text=True, timeout=120
    )
    assert (built.returncode, built.stderr) == (0, "")
    return target


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "handoff.sock"


@pytest.fixture(params=["receiver.c", "replica.py"])
def command(request: pytest.FixtureRequest, path: Path) -> list[str]:
    if request.param == "receiver.c":
        return [request.getfixturevalue("compiled"), str(path)]
    return [sys.executable, str(EXAMPLES / "replica.py"), str(path)]


@pytest.fixture
def receiver(command: list[str]) -> Iterator[Process]:
    with running(command, ready="^ready$") as process:
        yield process


@pytest.fixture
def sidecar(receiver: Process, path: Path) -> Iterator[FakeSidecar]:
    with sidecar_at(path) as sidecar:
        yield sidecar


def test_the_client_gets_the_answer_before_the_echo_of_the_left_over_bytes(sidecar: FakeSidecar) -> None:
    with sidecar.give(1, answer=b"answer, ", first=b"left over, ") as client:
        client.sendall(b"new")
        assert receive(client, 22) == b"answer, left over, new"


def test_the_answer_is_written_when_the_sidecar_is_told_that_the_connection_is_taken(sidecar: FakeSidecar) -> None:
    client, accepted = unix_pair()  # what is written to one is there at once
    with client:
        for number in range(1, 51):
            sidecar.send(packet(number, answer=b"answer"), accepted)
            assert sidecar.reply() == f"taken {number}"
            client.settimeout(0)
            assert receive(client, 6) == b"answer"
    accepted.close()


def test_a_sidecar_that_dies_before_it_can_be_told_leaves_no_connection_alive(sidecar: FakeSidecar) -> None:
    client, accepted = tcp_pair()
    sidecar.hand_over(accepted, 1, answer=b"answer", first=b"left over")
    sidecar.die()
    with client:
        assert was_reset(client)


def test_a_process_that_owes_no_answer_sends_none(sidecar: FakeSidecar) -> None:
    with sidecar.give(1) as client:
        client.sendall(b"hello")
        assert receive(client, 5) == b"hello"


def test_much_is_echoed_whole(sidecar: FakeSidecar) -> None:
    sent = os.urandom(1 << 20)
    with sidecar.give(1) as client:
        sender = threading.Thread(target=client.sendall, args=[sent])
        sender.start()
        assert receive(client, len(sent)) == sent
        sender.join()


def test_a_client_that_ends_its_side_gets_everything_and_then_the_end(sidecar: FakeSidecar) -> None:
    with sidecar.give(1, first=b"left over, ") as client:
        client.sendall(b"last words")
        client.shutdown(socket.SHUT_WR)
        assert receive(client, 99) == b"left over, last words"
        assert ended(sidecar.duplicates[0])


def test_a_client_over_a_unix_socket_is_served_alike(sidecar: FakeSidecar) -> None:
    client, accepted = unix_pair()
    sidecar.hand_over(accepted, 1, answer=b"answer, ", first=b"left over", peer=None, local=None)
    assert sidecar.reply() == "taken 1"
    with client:
        assert receive(client, 17) == b"answer, left over"
        client.shutdown(socket.SHUT_WR)
        assert receive(client, 1) == b""
        assert ended(accepted)


def test_a_packet_of_the_greatest_length_is_taken(sidecar: FakeSidecar) -> None:
    first = os.urandom(16 * 1024 - len(packet(1)))
    with sidecar.give(1, first=first) as client:
        assert receive(client, len(first)) == first


def test_a_cut_resets_the_client_and_the_receiver_goes_on(sidecar: FakeSidecar) -> None:
    with sidecar.give(1, first=b"x") as client, sidecar.give(2, first=b"y") as other:
        disconnect(sidecar.duplicates[0])
        assert was_reset(client)
        assert receive(other, 1) == b"y"
        sidecar.give(3).close()


def test_a_killed_sidecar_leaves_no_connection_alive(receiver: Process, path: Path) -> None:
    code = """
import socket, sys
sys.path[:0] = sys.argv[2:]
from fake_lifeline import sidecar_at
sidecar = sidecar_at(sys.argv[1])
with socket.create_server(("127.0.0.1", 0)) as server:
    print(server.getsockname()[1], flush=True)
    for number in (1, 2, 3):
        accepted, _ = server.accept()
        sidecar.hand_over(accepted, number, answer=b"answer")
        assert sidecar.reply() == f"taken {number}"
sys.stdin.read()
"""
    arguments = [sys.executable, "-c", code, str(path), str(ROOT), str(ROOT / "tests")]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as sidecar:
        assert sidecar.stdout is not None
        port = int(sidecar.stdout.readline())
        clients = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(3)]
        for client in clients:
            assert receive(client, 6) == b"answer"
        sidecar.send_signal(signal.SIGKILL)
        assert [was_reset(client) for client in clients] == [True] * 3
        for client in clients:
            client.close()
    with sidecar_at(path) as again:
        again.give(1).close()


def test_a_second_lifeline_waits_until_the_first_has_ended(sidecar: FakeSidecar, path: Path) -> None:
    with sidecar.give(1) as client, FakeSidecar(path) as second:
        second.lifeline.settimeout(0.1)
        with pytest.raises(TimeoutError):
            second.reply()
        second.lifeline.settimeout(10)
        sidecar.die()
        assert second.reply() == "ready 1"
        client.settimeout(0)  # it has happened already: there is nothing to wait for
        assert was_reset(client)


def test_without_descriptors_left_it_refuses_and_the_sidecar_keeps_the_client(
    receiver: Process, sidecar: FakeSidecar
) -> None:
    with sidecar.give(1, first=b"x") as living:
        assert receive(living, 1) == b"x"
        _, hard = resource.prlimit(receiver.pid, resource.RLIMIT_NOFILE)
        used = max(int(entry.name) for entry in Path(f"/proc/{receiver.pid}/fd").iterdir()) + 1
        resource.prlimit(receiver.pid, resource.RLIMIT_NOFILE, (used, hard))
        client, accepted = tcp_pair()
        sidecar.hand_over(accepted, 2, answer=b"answer")
        assert sidecar.reply() == "refused 2 descriptors"
        accepted.send(b"refusal")
        assert receive(client, 7) == b"refusal"
        living.sendall(b"y")
        assert receive(living, 1) == b"y"
        resource.prlimit(receiver.pid, resource.RLIMIT_NOFILE, (hard, hard))
        sidecar.give(3).close()
        client.close()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"hello?", id="no header"),
        pytest.param(packet(1)[:-5], id="half a header"),
        pytest.param(packet(1, first=bytes(16 * 1024)), id="too long"),
        pytest.param(packet(None), id="no number"),
    ],
)
@pytest.mark.parametrize("count", [0, 1, 2])
def test_what_is_no_hand_over_ends_the_lifeline_loudly(
    receiver: Process, sidecar: FakeSidecar, path: Path, data: bytes, count: int
) -> None:
    client, accepted = tcp_pair()
    sidecar.send(data, *[accepted] * count)
    accepted.close()
    assert sidecar.reply() == ""
    assert receive(client, 1) == b""  # closed there, and not handed on
    client.close()
    with sidecar_at(path) as again:
        again.give(1).close()
    assert eventually(lambda: len(receiver.lines) > 1)  # beside that it is ready


@pytest.mark.parametrize("count", [0, 2, 5])
def test_anything_but_one_descriptor_ends_the_lifeline(sidecar: FakeSidecar, path: Path, count: int) -> None:
    client, accepted = tcp_pair()
    sidecar.send(packet(1), *[accepted] * count)
    assert sidecar.reply() == ""
    with sidecar_at(path) as again:
        again.give(1).close()
    accepted.close()
    client.close()


def test_the_socket_of_a_killed_receiver_makes_room_for_its_next_life(
    command: list[str], receiver: Process, path: Path
) -> None:
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    receiver.signal(signal.SIGKILL)
    receiver.wait()
    with running(command, ready="^ready$"), sidecar_at(path) as sidecar:
        sidecar.give(1).close()


def test_a_live_receiver_keeps_its_socket(command: list[str], sidecar: FakeSidecar, path: Path) -> None:
    second = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert second.returncode != 0
    assert "in use" in second.stderr
    sidecar.give(1).close()
