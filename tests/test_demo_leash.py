import os
import select
import signal
import subprocess
import sys
from pathlib import Path

from sidecar.demo.leash import Leash

WAITS = "import sys, time; sys.stdout.write('up'); sys.stdout.flush(); time.sleep(60)"
PARENT = f"""
import subprocess, sys, time
from sidecar.demo.leash import Leash
with Leash() as leash:
    child = subprocess.Popen([sys.executable, "-c", {WAITS!r}], stdin=leash.child_end, stdout=subprocess.PIPE)
    leash.tie(child.pid)
    child.stdout.read(2)
    sys.stdout.write(f"{{child.pid}}\\n")
    sys.stdout.flush()
    time.sleep(60)
"""


def test_leaving_the_block_ends_the_child():
    with Leash() as leash:
        child = subprocess.Popen([sys.executable, "-c", WAITS], stdin=leash.child_end, stdout=subprocess.PIPE)
        leash.tie(child.pid)
        assert child.stdout.read(2) == b"up"
        assert child.poll() is None
    with child:
        assert child.wait(30) == -signal.SIGTERM


def test_a_child_ends_with_a_parent_that_is_killed():
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        watched = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
        parent.wait(30)
    try:
        ended, _, _ = select.select([watched], [], [], 30)
        assert ended, "the child lives on"
    finally:
        os.close(watched)


def open_descriptors():
    return {entry.name for entry in Path("/proc/self/fd").iterdir()}


def test_nothing_is_left_open():
    before = open_descriptors()
    with Leash():
        assert len(open_descriptors()) == len(before) + 2
    assert open_descriptors() == before
