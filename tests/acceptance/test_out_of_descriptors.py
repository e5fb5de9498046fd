"""More connections than the kernel gives descriptors for: nobody good is lost, and nothing goes wild."""

from __future__ import annotations

import resource
import socket
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from conftest import Start
from pairs import Pairs
from processes import eventually
from replica import LocalProcess, Sidecar, sidecar_at


def processor_seconds(sidecar: Sidecar) -> float:
    """How long the process has kept a processor busy."""
    fields = Path(f"/proc/{sidecar.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def crowd(sidecar: Sidecar, stack: ExitStack, size: int) -> list[socket.socket]:
    """Clients that connect and say nothing."""
    return [stack.enter_context(sidecar.connect(source="127.0.0.9")) for _ in range(size)]


def test_limits_are_lowered_to_what_the_process_may_open(
    own_local_process: LocalProcess, pairs: Pairs, tmp_path: Path
) -> None:
    few = ["sh", "-c", 'ulimit -n 64; exec "$@"', "sh"]
    sections = {"limits": {"connections": 10_000}, "log": {"level": "info", "refusals_per_second": 10}}
    with sidecar_at(tmp_path, own_local_process.address, under=few, **sections) as sidecar:
        (line,) = sidecar.lines("limits_lowered")
        assert line["descriptors"] == 64
        assert sidecar.scrape().total("connections_limit") == line["connections"] < 32
        with ExitStack() as stack:
            crowd(sidecar, stack, 200)
            began, busy = time.monotonic(), processor_seconds(sidecar)
            lines = len(sidecar.process.lines)
            assert pairs.admit(sidecar).works  # the crowd's oldest give way
            assert time.monotonic() - began < 2.0
            threading.Event().wait(1.0)
            assert processor_seconds(sidecar) - busy < 1.0
            assert len(sidecar.process.lines) - lines < 20
            assert sidecar.page("/metrics").status == 200
        assert eventually(lambda: sidecar.scrape().total("connections_active", state="pending") == 0)
        assert pairs.admit(sidecar).works


def test_it_waits_while_the_kernel_gives_nothing_and_goes_on_then(
    own_local_process: LocalProcess, pairs: Pairs, start: Start
) -> None:
    sidecar = start(log={"level": "info", "refusals_per_second": 10})
    holder = pairs.admit(sidecar)
    idle = sidecar.descriptors()
    resource.prlimit(sidecar.process.pid, resource.RLIMIT_NOFILE, (idle + 8, idle + 8))
    lines = len(sidecar.process.lines)
    with ExitStack() as stack:
        busy = processor_seconds(sidecar)
        crowd(sidecar, stack, 200)
        assert holder.works
        threading.Event().wait(3.0)  # for what it would do wrong again and again
        assert processor_seconds(sidecar) - busy < 1.5
        assert len(sidecar.process.lines) - lines < 20
        assert holder.works
    began = time.monotonic()
    assert pairs.admit(sidecar).works
    assert time.monotonic() - began < 1.0
    assert holder.works
    assert sidecar.scrape().total("accept_errors_total", kind="emfile") > 0
    assert sidecar.lines("accept_failed")
