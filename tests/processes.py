"""Real programs for tests: find one, start it, wait until it serves, stop it whatever happens.

Called by the tests that talk to programs that aren't ours, and to ours from outside. A program says in its output that
it's ready; nothing here guesses how long that takes.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

START_SECONDS = 30.0
STOP_SECONDS = 10.0


def program(name: str, *, comes_from: str) -> str:
    """The path of a program, in this Python's environment or on PATH.

    A missing one skips the test, but fails it where CI is set: there a skipped test is one that nobody misses.
    """
    own = Path(sys.executable).with_name(name)
    path = str(own) if own.exists() else shutil.which(name)
    if path is not None:
        return path
    message = f"{name} is missing: it comes with {comes_from}"
    if os.environ.get("CI"):
        pytest.fail(message)
    pytest.skip(message)


def free_ports(count: int) -> list[int]:
    """Loopback TCP ports that nothing listens on, all different."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [sock.getsockname()[1] for sock in sockets]
    for sock in sockets:
        sock.close()
    return ports


class Process:
    """A running program and what it has written so far, on standard output and standard error alike."""

    def __init__(self, arguments: list[str], *, ready: str) -> None:
        """Start *arguments*; *ready* is a pattern that one line of its output matches once it serves."""
        self.name = Path(arguments[0]).name
        self.lines: list[str] = []
        self._ready = re.compile(ready)
        self._is_ready = False
        self._ready_or_ended = threading.Event()
        self._process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="backslashreplace",
        )
        self._reader = threading.Thread(target=self._read, name=f"output of {self.name}", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            for line in output:
                self.lines.append(line.rstrip("\n"))
                if not self._is_ready and self._ready.search(line):
                    self._is_ready = True
                    self._ready_or_ended.set()
        self._ready_or_ended.set()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def output(self) -> str:
        """Everything that it has written so far."""
        return "\n".join(self.lines)

    def wait_until_ready(self) -> None:
        """Return once the program has said that it's ready; fail the test if it ends or keeps silent."""
        self._ready_or_ended.wait(START_SECONDS)
        if not self._is_ready:
            pytest.fail(f"{self.name} didn't become ready; it wrote:\n{self.output}")

    def signal(self, number: int) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def wait(self) -> int:
        """The exit status, once it has ended; fails the test if it doesn't."""
        try:
            return self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{self.name} didn't end; it wrote:\n{self.output}")

    def stop(self) -> None:
        """End it, by SIGTERM if that does and SIGKILL if not."""
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(STOP_SECONDS)


@contextmanager
def running(arguments: list[str], *, ready: str) -> Iterator[Process]:
    """The program *arguments*, ready to serve; stopped at the end of the block."""
    process = Process(arguments, ready=ready)
    try:
        process.wait_until_ready()
        yield process
    finally:
        process.stop()


def eventually(condition: Callable[[], bool], *, seconds: float = 10.0) -> bool:
    """Whether *condition* comes true within *seconds*.

    For what another process does in its own time and tells nobody; where there's an event to wait for, wait for that.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        threading.Event().wait(0.02)
    return True
