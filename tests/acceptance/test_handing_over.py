"""A sidecar and a receiver in two processes: what each of them leaves behind when the other one goes."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

import pytest
from conftest import Start
from kernel import is_reset, receive_exactly
from processes import Process, eventually, running
from replica import Sidecar, next_answer

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples" / "handoff"


@pytest.fixture(params=["python", "c"])
def receiver(request: pytest.FixtureRequest, tmp_path: Path) -> Receiver:
    """Either of the two examples."""
    path = tmp_path / "handoff.sock"
    if request.param == "python":
        return Receiver(path, [sys.executable, str(EXAMPLES / "replica.py"), str(path)])
    compiler = shutil.which("gcc") or pytest.skip("there is no C compiler here")
    program = tmp_path / "receiver"
    source = str(EXAMPLES / "receiver.c")
    subprocess.run([compiler, "-Wall", "-Wextra", "-Werror", "-o", str(program), source], check=True)
    return Receiver(path, [str(program), str(path)])


class Receiver:
    """A program that takes connections over at a path, as often as it is started."""

    def __init__(self, path: Path, command: list[str]) -> None:
        self.path = path
        self.upstream = f"handoff:{path}"
        self._command = command

    def start(self, *, descriptors: int | None = None) -> AbstractContextManager[Process]:
        few = ["sh", "-c", f'ulimit -n {descriptors}; exec "$@"', "sh"] if descriptors else []
        return running([*few, *self._command], ready="ready")


def admitted(sidecar: Sidecar) -> socket.socket:
    """A connection that the receiver has, and that works."""
    client = sidecar.dial(answer=True)
    assert next_answer(client).admitted
    assert echoes(client)
    return client


def echoes(client: socket.socket) -> bool:
    client.sendall(b"hello")
    return receive_exactly(client, 5) == b"hello"


@pytest.fixture
def clients() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def ready(sidecar: Sidecar) -> bool:
    return bool(sidecar.lines("lifeline_ready"))


def test_connections_are_handed_over_and_counted_and_end_in_order(start: Start, receiver: Receiver) -> None:
    with receiver.start():
        sidecar = start(upstream=receiver.upstream)
        assert eventually(lambda: ready(sidecar))
        for _ in range(3):
            with admitted(sidecar) as client:
                client.shutdown(socket.SHUT_WR)
                assert client.recv(1) == b""
        assert eventually(lambda: sidecar.idle)
        scrape = sidecar.scrape()
        assert scrape.total("connections_admitted_total", basis="authority") == 3
        # Which of the two was first isn't certain where both ends are seen in one look.
        ended = [scrape.total("connections_ended_total", cause=f"{side}_closed") for side in ("client", "upstream")]
        assert sum(ended) == scrape.total("connections_ended_total") == 3
        assert eventually(lambda: sidecar.scrape().total("forwarded_bytes_total", direction="up") == 15)


def test_when_the_sidecar_is_killed_the_receiver_resets_what_it_got_and_takes_over_from_the_next_one(
    start: Start, receiver: Receiver, clients: ExitStack
) -> None:
    with receiver.start():
        sidecar = start(upstream=receiver.upstream)
        assert eventually(lambda: ready(sidecar))
        three = [clients.enter_context(admitted(sidecar)) for _ in range(3)]
        sidecar.process.signal(signal.SIGKILL)
        sidecar.process.wait()
        for client in three:
            assert is_reset(client)
        following = start(upstream=receiver.upstream)
        assert eventually(lambda: ready(following))
        clients.enter_context(admitted(following))


def test_when_the_receiver_is_killed_its_clients_are_reset_and_the_next_one_gets_new_ones(
    start: Start, receiver: Receiver, clients: ExitStack
) -> None:
    sidecar = start(upstream=receiver.upstream)
    for _ in range(2):
        with receiver.start() as process:
            assert eventually(lambda: sidecar.lines("lifeline_ready"))
            assert eventually(lambda: admits(sidecar))
            client = clients.enter_context(admitted(sidecar))
            process.signal(signal.SIGKILL)
            process.wait()
            assert is_reset(client)
        assert eventually(lambda: not admits(sidecar))
    assert eventually(lambda: sidecar.idle)


def admits(sidecar: Sidecar) -> bool:
    with sidecar.dial(answer=True) as client:
        answer = next_answer(client)
    assert answer.admitted or answer.verdict == "upstream_unavailable"
    return answer.admitted


def test_a_receiver_out_of_descriptors_has_that_told_to_the_dialler(
    start: Start, receiver: Receiver, clients: ExitStack
) -> None:
    with receiver.start(descriptors=24):
        sidecar = start(upstream=receiver.upstream)
        assert eventually(lambda: ready(sidecar))
        for _ in range(40):
            client = clients.enter_context(sidecar.dial(answer=True))
            answer = next_answer(client)
            if not answer.admitted:
                break
        assert answer.verdict == "upstream_unavailable"
        assert eventually(lambda: sidecar.lines("connection_refused"))  # the answer is faster than the log
        (refusal,) = sidecar.lines("connection_refused")
        assert str(refusal["detail"]).endswith("the receiver is out of descriptors")
        assert sidecar.scrape().total("connections_rejected_total", reason="upstream_unavailable") == 1


def test_a_drain_that_has_run_out_of_time_cuts_what_was_handed_over(
    start: Start, receiver: Receiver, clients: ExitStack
) -> None:
    with receiver.start():
        sidecar = start(upstream=receiver.upstream, drain={"timeout": "1s"})
        assert eventually(lambda: ready(sidecar))
        client = clients.enter_context(admitted(sidecar))
        sidecar.process.signal(signal.SIGTERM)
        assert is_reset(client)
        assert sidecar.process.wait() == 0
