"""How the demo ends when it doesn't end by itself: real processes, and what is left of them."""

import os
import re
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest
from demo_fakes import processes_naming
from processes import eventually

SABOTAGED = """
import sys
from sidecar.cli.main import main
from sidecar.demo import front
front._CONFIGURATION = front._CONFIGURATION.replace("{{file: {file}}}", "7")
sys.exit(main(["demo"]))
"""
NO_ROOM_FOR_SIDECARS = """
import sys
from sidecar.cli.main import main
from sidecar.demo import fleet
fleet.HOSTS = ("127.0.0.2", "127.0.0.3", "192.0.2.1")
sys.exit(main(["demo"]))
"""
FULL_DISK = """
import os, sys
from sidecar.cli.main import main
from sidecar.demo.screen import Screen
def write(screen, line, write=Screen._write):
    write(screen, line)
    if sys.argv[1] in line:
        os.dup2(os.open("/dev/full", os.O_WRONLY), sys.stdout.fileno())
Screen._write = write
sys.exit(main(["demo"]))
"""


@contextmanager
def demo(directory, *arguments):
    """A demo that keeps its files in *directory*."""
    environment = {**os.environ, "TMPDIR": str(directory), "NO_COLOR": "1"}
    with subprocess.Popen(
        [sys.executable, *(arguments or ("-m", "sidecar", "demo"))],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_until(process, text):
    for line in process.stdout:
        if text in line:
            return
    pytest.fail(f"it never said {text!r}: {process.stderr.read()}")


@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (signal.SIGINT, "is printed"),  # sidecars are starting
        (signal.SIGINT, "1  "),  # the controller is about to dial
        (signal.SIGTERM, "2  "),  # sidecars are ending
        (signal.SIGHUP, "3  "),
    ],
)
def test_a_signal_in_the_middle_leaves_no_process_and_no_file(tmp_path, number, moment):
    with demo(tmp_path) as process:
        read_until(process, moment)
        process.send_signal(number)
        process.send_signal(number)  # impatience doesn't break into the clearing up
        assert process.wait(60) == 128 + number
        assert process.stderr.read() == ""
    assert processes_naming(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_a_demo_that_is_killed_leaves_no_process(tmp_path):
    with demo(tmp_path) as process:
        read_until(process, "1  ")
        assert len(processes_naming(tmp_path)) == 3
        process.kill()
        process.wait(60)
    assert eventually(lambda: not processes_naming(tmp_path))


def test_a_reader_who_goes_away_ends_it(tmp_path):
    with demo(tmp_path) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(60) == 1
        assert process.stderr.read() == ""
    assert processes_naming(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("moment", ["Three", "1  ", "3  "])
def test_a_disk_that_is_full_ends_it_with_a_word(tmp_path, moment):
    with demo(tmp_path, "-c", FULL_DISK, moment) as process:
        shown, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert moment in shown
    assert said == "sidecar demo: standard output can't be written: No space left on device\n"
    assert processes_naming(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_what_differs_is_said_and_its_logs_are_kept(tmp_path):
    with demo(tmp_path, "-c", SABOTAGED) as process:
        shown, complaint = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "admitted" not in shown
    what, expected, happened, kept = complaint.splitlines()[1:]
    assert what.startswith("  what      dialling 127.0.0.2 as demo/replica-a/0, generation 1,")
    assert expected == "  expected  admitted"
    assert happened.startswith("  happened  refused: generation_stale: expected 1, this is at least 7")
    directory = Path(re.search(r"kept in (\S+)", kept)[1])
    assert directory.parent == tmp_path
    assert b"generation_stale" in (directory / "replica-0-start-1.log").read_bytes()
    assert processes_naming(tmp_path) == []


def test_a_host_without_the_addresses_is_told_so(tmp_path):
    with demo(tmp_path, "-c", NO_ROOM_FOR_SIDECARS) as process:
        _, complaint = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "three at 127.0.0.2, 127.0.0.3, 192.0.2.1" in complaint
