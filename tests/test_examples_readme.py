"""What examples/README.md tells the reader to do on one machine, done: every command of it, in its order.

Three pods, each a replica and a sidecar, and a controller, all of them real processes. The controller runs from the
first line to the last; nobody tells it anything but the book.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from processes import Process, eventually

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
POD = "examples/pod.sh"
SLOTS = [f"example/replica-a/{ordinal}" for ordinal in range(3)]
SECONDS = 60.0  # for what the controller's pauses, of at most 10 s, put off
RETRY = 10  # the exit code of `sidecar connect` for the advice retry


class Reader:
    """Does what the page says, with a copy of the examples and on loopback addresses of this test's own."""

    def __init__(self, folder: Path) -> None:
        shutil.copytree(EXAMPLES, folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
        self._folder = folder
        self._network = f"127.{64 + os.getpid() % 64}.{os.getpid() // 64 % 256}."
        self.pods: dict[str, Process] = {}
        self.controller: Process | None = None
        self.mark = 0  # the controller's lines before this one belong to earlier paragraphs
        book = folder / "examples" / "book.txt"
        book.write_text(self.here(book.read_text()))

    def here(self, text: str) -> str:
        """*text* with this test's addresses."""
        return text.replace("127.0.0.", self._network)

    def follow(self, kind: str, block: str) -> None:
        """Do what a block of the page shows, or see it."""
        lines = self.here(block).splitlines()
        if kind == "text":
            for line in lines:
                self._see(line)
            return
        commands = [shlex.split(line, comments=True) for line in lines]
        pods = {command[1]: command for command in commands if command[0] == POD}
        for name in pods.keys() & self.pods.keys():  # before any is started: one may take another's address
            self.pods[name].stop()
        self.pods |= {name: self._start(["sh", *command], ready='"event": "started"') for name, command in pods.items()}
        for name in pods:
            self.pods[name].wait_until_ready()
        for command in commands:
            if command[0] != POD:
                self._do(command)

    def stop(self) -> None:
        """End everything."""
        for process in filter(None, (self.controller, *self.pods.values())):
            process.stop()

    def news(self) -> list[str]:
        """What the controller has said since the last command."""
        return self.controller_lines()[self.mark :]

    def _do(self, command: list[str]) -> None:
        self.mark = len(self.controller_lines())
        match command:
            case ["python", *_]:
                self.controller = self._start(command, ready=SLOTS[0])
                self._see_progress()
            case ["sed", *_]:
                assert self._run(command) == 0
                self._see_progress()
            case ["sidecar", "connect", *_]:
                assert self._run(command) == RETRY
            case ["sidecar", *_]:
                assert self._run(command) == 0
            case _:
                pytest.fail(f"the page has a command that this test doesn't know: {command}")

    def _see(self, line: str) -> None:
        """The controller says *line*, in which ``...`` stands for anything."""
        pattern = re.compile(".*".join(re.escape(part) for part in line.split("...")))
        self._wait(lambda: any(pattern.fullmatch(said) for said in self.controller_lines()), f"no line {line!r}")

    def _see_progress(self) -> None:
        """Every shard carries out commands, and each its own."""

        def all_answer() -> bool:
            return all(any(re.match(rf"{slot}  shard {slot[-1]},", line) for line in self.news()) for slot in SLOTS)

        self._wait(all_answer, "not every shard answers")

    def controller_lines(self) -> list[str]:
        """All that the controller has said."""
        return self.controller.lines if self.controller else []

    def _wait(self, condition: Callable[[], bool], complaint: str) -> None:
        assert eventually(condition, seconds=SECONDS), f"{complaint}:\n" + "\n".join(self.controller_lines())

    def _start(self, command: list[str], *, ready: str) -> Process:
        path = f"PATH={Path(sys.executable).parent}:{os.environ['PATH']}"
        return Process(["env", "--chdir", str(self._folder), path, *command], ready=ready)

    def _run(self, command: list[str]) -> int:
        environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        return subprocess.run(command, cwd=self._folder, env=environment, capture_output=True, timeout=30).returncode


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    reader = Reader(tmp_path)
    try:
        yield reader
    finally:
        reader.stop()


def blocks(page: str) -> list[tuple[str, str]]:
    """The fenced blocks of *page* from the first pod on: their language and text."""
    found = re.findall(r"^```(\w+)\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    first = next(index for index, (_, text) in enumerate(found) if text.startswith(POD))
    return found[first:]


def test_the_controller_recovers_by_itself_from_everything_that_the_page_does_to_it(reader: Reader) -> None:
    for kind, block in blocks((EXAMPLES / "README.md").read_text()):
        reader.follow(kind, block)

    assert reader.controller is not None
    assert "WRONG" not in reader.controller.output
    for name, pod in reader.pods.items():
        reached = [line for line in pod.lines if line.endswith(": a connection")]
        assert len(reached) == 1, f"{name} was reached {len(reached)} times:\n{pod.output}"
