"""Another configuration without another process: all of it or nothing, and nobody is disturbed."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from contextlib import ExitStack
from dataclasses import replace

import pytest
from conftest import Start
from kernel import is_reset, receive_all
from names import CLAIM, WRONG
from pairs import Pair, Pairs
from processes import eventually
from replica import SIDECAR, LocalProcess, Sidecar

from sidecar.identity import Generation


def reload_by_signal(sidecar: Sidecar) -> None:
    """As Kubernetes' tools do it."""
    before = len(sidecar.lines("reloaded")) + len(sidecar.lines("reload_refused"))
    sidecar.process.signal(signal.SIGHUP)
    assert eventually(lambda: len(sidecar.lines("reloaded")) + len(sidecar.lines("reload_refused")) == before + 1), (
        sidecar.process.output
    )


def command(sidecar: Sidecar) -> subprocess.CompletedProcess[str]:
    """As a person does it."""
    return subprocess.run(
        [*SIDECAR, "reload", "--admin", ":".join(map(str, sidecar.admin))], capture_output=True, text=True, timeout=60
    )


def in_effect(sidecar: Sidecar) -> str:
    """The hash of the configuration that is in effect."""
    (sample,) = (each for each in sidecar.scrape().samples if each.name == "identity_sidecar_config_info")
    return sample.labels["hash"]


def test_limits_and_times_hold_for_those_who_come_next(
    start: Start, pairs: Pairs, own_local_process: LocalProcess
) -> None:
    sidecar = start()
    old = pairs.admit(sidecar)
    sidecar.configure(limits={"connections": 2}, timeouts={"idle": "300ms"})
    reload_by_signal(sidecar)
    assert sidecar.scrape().total("connections_limit") == 2
    new = pairs.admit(sidecar)
    with sidecar.counting(over_capacity=1), sidecar.dial(answer=True) as third:
        assert receive_all(third) == b""
    assert own_local_process.untouched
    assert new.is_cut  # idle
    assert old.works  # as it was admitted
    assert sidecar.line("connection_ended", new.peer)["end"] == "idle"


def test_fewer_places_than_are_taken_end_nobody(start: Start, pairs: Pairs) -> None:
    sidecar = start()
    three = [pairs.admit(sidecar) for _ in range(3)]
    sidecar.configure(limits={"connections": 1, "pending": 1})
    reload_by_signal(sidecar)
    assert all(pair.works for pair in three)
    with sidecar.dial(answer=True) as another:
        assert receive_all(another) == b""


def test_what_a_refusal_tells_and_when_can_be_changed(start: Start) -> None:
    sidecar = start()
    assert sidecar.refuse(WRONG).identity is not None
    sidecar.configure(listener={"answer": "verdict", "reject_delay": "500ms"})
    reload_by_signal(sidecar)
    began = time.monotonic()
    answer = sidecar.refuse(WRONG)
    assert 0.5 <= time.monotonic() - began < 5.0
    assert (answer.verdict, answer.identity, answer.detail) == ("identity_mismatch", None, "")


def test_a_slow_refusal_holds_up_nobody(start: Start, pairs: Pairs) -> None:
    sidecar = start(reject_delay="20s")
    with ExitStack() as stack:
        waiting = [stack.enter_context(sidecar.dial(WRONG, answer=True)) for _ in range(20)]
        assert eventually(lambda: sidecar.counts()["rejected identity_mismatch"] == 20)
        began = time.monotonic()
        assert pairs.admit(sidecar).works
        assert time.monotonic() - began < 2.0
        sidecar.process.signal(signal.SIGTERM)
        assert sidecar.process.wait() == 0  # and not the end of the process either
        assert len(waiting) == 20


def leave(pair: Pair) -> None:
    """End a connection in order."""
    pair.client.close()
    pair.upstream.close()


def test_the_log_can_be_made_louder_and_quieter(start: Start, pairs: Pairs) -> None:
    sidecar = start(log={"level": "info"})
    sidecar.configure(log={"level": "warning"})
    assert sidecar.page("/reload", method="POST", admin=True).status == 200
    leave(pairs.admit(sidecar))
    assert eventually(lambda: sidecar.idle)
    assert sidecar.lines("connection_ended") == []
    sidecar.configure(log={"level": "info", "format": "text"})
    sidecar.process.signal(signal.SIGHUP)
    assert eventually(lambda: any(" reloaded " in line and line[0] != "{" for line in sidecar.process.lines))
    leave(pairs.admit(sidecar))
    assert eventually(lambda: any("connection_ended" in line for line in sidecar.process.lines))


@pytest.fixture
def running(start: Start) -> Sidecar:
    """One that the admin server's address is known of."""
    return start()


def test_a_command_and_a_page_do_the_same(running: Sidecar) -> None:
    before = in_effect(running)
    running.configure(limits={"connections": 5})
    done = command(running)
    assert (done.returncode, done.stdout) == (0, "reloaded\n")
    assert running.scrape().total("connections_limit") == 5
    assert in_effect(running) != before
    running.configure()
    assert running.page("/reload", method="POST", admin=True).status == 200
    assert in_effect(running) == before
    assert running.page("/reload", admin=True).status == 405
    assert running.page("/reload", method="POST").status in {404, 405}  # not on the pod's network


def test_what_takes_a_new_process_is_refused_whole_and_named(running: Sidecar, pairs: Pairs) -> None:
    pair = pairs.admit(running)
    before = in_effect(running)
    running.configure(
        limits={"connections": 5},
        identity={"ordinal": 3},
        assignment={"generation": 8},
        listener={"upstream": "127.0.0.1:1", "concurrency": "exclusive"},
    )
    done = command(running)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    for key in ("identity", "assignment", "listeners.compute.upstream", "listeners.compute.concurrency"):
        assert key in done.stderr, done.stderr
    assert running.page("/reload", method="POST", admin=True).status == 422
    assert running.scrape().total("connections_limit") == 4096
    assert running.scrape().total("config_last_reload_successful") == 0
    assert in_effect(running) == before
    (line, _) = running.lines("reload_refused")
    assert "identity" in json.dumps(line["problems"])
    assert pair.works
    assert pairs.admit(running).works
    running.configure()
    assert command(running).returncode == 0
    assert running.scrape().total("config_last_reload_successful") == 1


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"listeners: [", "sidecar.yaml"),
        (b"", "sidecar.yaml"),
        (b"\xff\xfe", "sidecar.yaml"),
        (b"timeouts: {prefase: 3s}", "prefase"),
        (None, "sidecar.yaml"),
    ],
    ids=["broken", "empty", "no text", "a key that isn't one", "gone"],
)
def test_a_file_that_is_wrong_changes_nothing(
    content: bytes | None, says: str, sidecar: Sidecar, local_process: LocalProcess
) -> None:
    good = sidecar.file.read_bytes()
    before = in_effect(sidecar)
    try:
        if content is None:
            sidecar.file.unlink()
        else:
            sidecar.file.write_bytes(content)
        page = sidecar.page("/reload", method="POST", admin=True)
        assert page.status == 422
        assert says in page.body
        assert "Traceback" not in sidecar.process.output
        assert sidecar.scrape().total("config_last_reload_successful") == 0
        assert in_effect(sidecar) == before
        for end in sidecar.admit(local_process):
            end.close()
        assert sidecar.refuse(replace(CLAIM, generation=Generation(6))).verdict == "generation_stale"
    finally:
        sidecar.file.write_bytes(good)
        assert sidecar.page("/reload", method="POST", admin=True).status == 200


def test_many_reloads_cost_nothing_but_their_time(running: Sidecar, pairs: Pairs) -> None:
    pair = pairs.admit(running)
    for _ in range(5):
        assert running.page("/reload", method="POST", admin=True).status == 200
    memory, descriptors = running.memory(), running.descriptors()
    for connections in range(20):
        running.configure(limits={"connections": 100 + connections})
        assert running.page("/reload", method="POST", admin=True).status == 200
    assert running.memory() - memory < 4 << 20
    assert eventually(lambda: running.descriptors() <= descriptors)
    assert pair.works


def test_a_shorter_drain_counts_from_the_reload_on(start: Start, pairs: Pairs) -> None:
    sidecar = start(drain={"timeout": "60s"})
    pair = pairs.admit(sidecar)
    sidecar.configure(drain={"timeout": "200ms"})
    reload_by_signal(sidecar)
    sidecar.process.signal(signal.SIGTERM)
    assert is_reset(pair.client)
    assert sidecar.process.wait() == 0
