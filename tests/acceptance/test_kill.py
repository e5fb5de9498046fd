"""The local process, a controller or the sidecar is killed, and started again at once: nothing is stuck.

The local process and the controller are those of examples/, so all three are programs that can be killed.
"""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import pytest
from conftest import Start
from kernel import is_reset, receive_all, receive_exactly
from names import CLAIM
from processes import Process, eventually, free_ports, running
from replica import SECONDS, Sidecar, next_answer

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"
COMMAND = b"do something\n"


def local_process(port: int) -> AbstractContextManager[Process]:
    """A local process that can be killed; each life of it counts the commands that it carries out from 1."""
    command = [sys.executable, str(EXAMPLES / "replica.py"), f"127.0.0.1:{port}"]
    return running(["env", "POD_NAME=replica-a-2", "POD_UID=here", *command], ready=": ready")


@contextmanager
def controller(sidecar: Sidecar, folder: Path) -> Iterator[Process]:
    """A controller, once its first command was carried out."""
    book = folder / "book"
    host, port = sidecar.address()
    book.write_text(f"{CLAIM.identity} {host}:{port} instance={CLAIM.instance} generation={CLAIM.generation}\n")
    command = [sys.executable, str(EXAMPLES / "controller.py"), str(book), "--every", "0.05"]
    with running(command, ready="shard 2, command") as process:
        yield process


def kill(process: Process) -> None:
    """End it without its knowing."""
    process.signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL


def stands_still(process: Process) -> bool:
    """Whether every thread of it has been stopped."""
    threads = Path(f"/proc/{process.pid}/task").iterdir()
    return all((thread / "stat").read_text().rpartition(")")[2].split()[0] == "T" for thread in threads)


def admitted(sidecar: Sidecar) -> bool:
    """Whether a new connection gets through to the local process and back."""
    with sidecar.dial(answer=True) as client:
        if not next_answer(client).admitted:
            return False
        client.sendall(COMMAND)
        return receive_exactly(client, 6) == b"shard "


@pytest.fixture
def port() -> int:
    """Where the local process listens, in each of its lives."""
    (port,) = free_ports(1)
    return port


def test_a_killed_local_process_ends_its_connections_and_the_next_one_gets_new_ones(start: Start, port: int) -> None:
    sidecar = start(upstream=f"127.0.0.1:{port}")
    descriptors = sidecar.descriptors()
    for _ in range(3):
        with (
            sidecar.counting(authority=1, ended_upstream_closed=1),
            local_process(port) as process,
            sidecar.dial(answer=True) as client,
        ):
            assert next_answer(client).admitted
            client.sendall(COMMAND)
            assert receive_exactly(client, 17) == b"shard 2, command "
            kill(process)
            receive_all(client)  # the kernel ends the connection for it, and the end arrives here
        with sidecar.counting(upstream_unavailable=1):
            assert sidecar.refuse(CLAIM).verdict == "upstream_unavailable"
    with local_process(port):
        assert admitted(sidecar)
    assert eventually(lambda: sidecar.idle)
    assert eventually(lambda: sidecar.descriptors() == descriptors)


def test_what_a_killed_local_process_had_not_read_is_a_reset_for_the_client(start: Start, port: int) -> None:
    sidecar = start(upstream=f"127.0.0.1:{port}")
    with (
        sidecar.counting(authority=1, ended_upstream_reset=1),
        local_process(port) as process,
        sidecar.dial(answer=True) as client,
    ):
        assert next_answer(client).admitted
        process.signal(signal.SIGSTOP)
        assert eventually(lambda: stands_still(process))
        client.sendall(COMMAND)
        assert eventually(lambda: sidecar.status()["connections"][0]["bytes_up"] == len(COMMAND))
        kill(process)
        assert is_reset(client)
    with local_process(port):
        assert admitted(sidecar)
    assert eventually(lambda: sidecar.idle)


def test_a_killed_controller_leaves_no_connection_and_the_next_one_is_admitted(
    start: Start, port: int, tmp_path: Path
) -> None:
    sidecar = start(upstream=f"127.0.0.1:{port}")
    descriptors = sidecar.descriptors()
    with local_process(port) as process:
        for _ in range(5):
            with controller(sidecar, tmp_path) as driving:
                assert len(sidecar.status()["connections"]) == 1
                kill(driving)
            assert eventually(lambda: sidecar.idle)
        assert process.output.count(": a connection") == 5
        assert eventually(lambda: sidecar.descriptors() == descriptors)
    counts = sidecar.counts()
    assert counts["ended client_closed"] + counts["ended client_reset"] == counts["accepted"] == 5


def test_a_killed_sidecar_takes_its_connections_with_it_and_the_next_one_serves_at_once(
    start: Start, port: int, tmp_path: Path
) -> None:
    """Its ports are free again, though connections to them haven't been forgotten by the kernel."""
    listen, telemetry, admin = (f"127.0.0.1:{number}" for number in free_ports(3))
    again = partial(
        start,
        upstream=f"127.0.0.1:{port}",
        listener={"listen": listen},
        telemetry={"listen": telemetry},
        admin={"listen": admin},
    )
    with local_process(port):
        sidecar = again()
        with controller(sidecar, tmp_path) as driving:
            for life in range(1, 4):
                with sidecar.dial(answer=True) as client:
                    assert next_answer(client).admitted
                    kill(sidecar.process)
                    over(client)
                sidecar = again()
                assert admitted(sidecar)
                # The controller has come back by itself, and after it nobody else is here.
                assert eventually(lambda lives=life + 1: driving.output.count("admitted") == lives, seconds=SECONDS)
                assert eventually(lambda life=sidecar: len(life.status()["connections"]) == 1)
        assert "WRONG" not in driving.output


def over(client: socket.socket) -> None:
    """Return once the connection has ended, in order or not."""
    is_reset(client)
