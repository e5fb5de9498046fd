"""examples/replica.py, a real process that a controller reaches without a sidecar between."""

from __future__ import annotations

import signal
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from processes import Process, eventually, free_ports, running

REPLICA = Path(__file__).resolve().parent.parent / "examples" / "replica.py"


@contextmanager
def replica(port: int) -> Iterator[Process]:
    """Pod 2 of its set, in its first life."""
    command = ["env", "POD_NAME=replica-a-2", "POD_UID=first", sys.executable, str(REPLICA), f"127.0.0.1:{port}"]
    with running(command, ready="replica-a-2/first: ready") as process:
        yield process


def dial(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=10)


def say(connection: socket.socket, command: str) -> str:
    connection.sendall(f"{command}\n".encode())
    with connection.makefile("r") as replies:
        return replies.readline()


def test_it_numbers_commands_over_all_connections() -> None:
    (port,) = free_ports(1)
    with replica(port) as process, dial(port) as one, dial(port) as other:
        assert say(one, "a") == "shard 2, command 1, replica-a-2/first\n"
        assert say(other, "b") == "shard 2, command 2, replica-a-2/first\n"
        assert say(one, "c") == "shard 2, command 3, replica-a-2/first\n"
        assert process.output.count(": a connection") == 2


def test_it_ends_at_once_when_told_to_and_another_life_takes_its_place() -> None:
    """Without a handler of its own the first process of a container would ignore SIGTERM."""
    (port,) = free_ports(1)
    with replica(port) as process, dial(port) as connection:
        say(connection, "a")
        process.signal(signal.SIGTERM)
        assert process.wait() == 0
        assert connection.recv(1) == b""
        with replica(port), dial(port) as again:
            assert say(again, "a") == "shard 2, command 1, replica-a-2/first\n"


def test_it_tells_of_a_connection_that_broke_and_goes_on() -> None:
    (port,) = free_ports(1)
    with replica(port) as process:
        with dial(port) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # close with an RST
        assert eventually(lambda: "a connection broke" in process.output)
        with dial(port) as connection:
            assert say(connection, "a").startswith("shard 2, command 1,")
