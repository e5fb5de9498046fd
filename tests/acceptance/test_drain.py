"""The end of a sidecar: who may finish, who is refused, who is cut, and how soon the process is gone."""

from __future__ import annotations

import random
import signal
import socket
import threading
import time
from contextlib import ExitStack

import pytest
from conftest import Start
from kernel import is_reset, receive_all, receive_exactly, silent_for
from names import CLAIM, WRONG, preface
from processes import eventually
from replica import LocalProcess, Sidecar

from sidecar.preface.proxy_v2 import Command, write_header
from sidecar.reasons import Advice

MiB = 1 << 20
PATTERN = random.Random(1).randbytes(MiB)


def has_begun(sidecar: Sidecar, event: str = "signal") -> bool:
    """Whether the sidecar has heard of its end."""
    return eventually(lambda: bool(sidecar.lines(event)))


def test_running_transfers_finish_and_the_process_goes_with_the_last(
    start: Start, own_local_process: LocalProcess
) -> None:
    sidecar = start(drain={"timeout": "30s"})
    pairs = [sidecar.admit(own_local_process) for _ in range(3)]
    try:
        for client, _ in pairs:
            client.sendall(PATTERN[: MiB // 2])
        sidecar.process.signal(signal.SIGTERM)
        assert has_begun(sidecar)
        for client, upstream in pairs:
            client.sendall(PATTERN[MiB // 2 :])
            client.shutdown(socket.SHUT_WR)
            assert receive_all(upstream) == PATTERN
            upstream.sendall(b"done")
            upstream.shutdown(socket.SHUT_WR)
            ended_at = time.monotonic()
            assert receive_all(client) == b"done"
        assert sidecar.process.wait() == 0
        assert time.monotonic() - ended_at < 2.0
    finally:
        for client, upstream in pairs:
            client.close()
            upstream.close()
    assert [line["end"] for line in sidecar.lines("connection_ended")] == ["client_closed"] * 3


def test_who_comes_while_it_drains_is_told_so_and_may_come_again(start: Start, own_local_process: LocalProcess) -> None:
    sidecar = start(drain={"timeout": "30s"})
    with ExitStack() as ends:
        for end in sidecar.admit(own_local_process):
            ends.enter_context(end)
        sidecar.process.signal(signal.SIGTERM)
        assert has_begun(sidecar)
        with sidecar.counting(draining=12, local_probe=1, preface_missing=1):
            for claim in (CLAIM, WRONG):  # which slot it would have been doesn't matter any more
                answer = sidecar.refuse(claim)
                assert (answer.verdict, answer.advice) == ("draining", Advice.RETRY)
            for _ in range(10):
                with sidecar.dial() as client:
                    assert receive_all(client) == b""
            for data in (write_header(source=None, destination=None, command=Command.LOCAL), b"GET / HTTP/1.1\r\n"):
                with sidecar.connect() as client:
                    client.sendall(data)
                    assert receive_all(client) == b""
        assert own_local_process.untouched
        assert sidecar.page("/readyz").status == 503
        assert sidecar.page("/livez").status == 200
        assert sidecar.scrape().total("state", state="stopping") == 1
    assert sidecar.process.wait() == 0


def test_an_unfinished_preface_is_waited_for_no_longer_than_a_second(
    start: Start, own_local_process: LocalProcess
) -> None:
    sidecar = start(drain={"timeout": "30s"})
    first, first_upstream = sidecar.admit(own_local_process)
    with first, first_upstream, sidecar.connect() as early:
        early.sendall(preface()[:20])
        assert eventually(lambda: len(sidecar.status()["connections"]) == 2)
        sidecar.process.signal(signal.SIGTERM)
        assert has_begun(sidecar)
        with sidecar.connect() as late:
            late.sendall(preface()[:20])
            assert receive_all(late) == b""  # long before the 30 s that a preface may take
        assert receive_all(early) == b""
        assert sidecar.counts()["rejected draining"] == 2
    assert sidecar.process.wait() == 0


def test_who_stays_too_long_is_cut_on_both_sides(start: Start, own_local_process: LocalProcess) -> None:
    sidecar = start(drain={"timeout": "500ms"})
    pairs = [sidecar.admit(own_local_process) for _ in range(5)]
    with ExitStack() as ends:
        for pair in pairs:
            for end in pair:
                ends.enter_context(end)
        sidecar.process.signal(signal.SIGTERM)
        for client, upstream in pairs:
            assert is_reset(client)
            assert is_reset(upstream)
        assert sidecar.process.wait() == 0
    assert [line["end"] for line in sidecar.lines("connection_ended")] == ["drain_timeout"] * 5


def test_a_cut_is_no_end_though_the_local_process_had_more_to_say(
    start: Start, own_local_process: LocalProcess
) -> None:
    sidecar = start(drain={"timeout": "200ms"})
    client, upstream = sidecar.admit(own_local_process)
    with client, upstream:
        upstream.sendall(b"half a rep")
        assert receive_exactly(client, 10) == b"half a rep"
        client.shutdown(socket.SHUT_WR)
        sidecar.process.signal(signal.SIGTERM)
        assert is_reset(client)
    assert sidecar.process.wait() == 0


def test_it_admits_for_a_while_after_it_has_stopped_being_ready(start: Start, own_local_process: LocalProcess) -> None:
    sidecar = start(drain={"delay": "2s", "timeout": "30s"})
    first, first_upstream = sidecar.admit(own_local_process)
    with first, first_upstream:
        assert sidecar.page("/readyz").status == 200
        sidecar.process.signal(signal.SIGTERM)
        assert has_begun(sidecar)
        assert sidecar.page("/readyz").status == 503
        for end in sidecar.admit(own_local_process):  # long before the 2 s are over
            end.close()
        assert eventually(lambda: sidecar.scrape().total("state", state="stopping") == 1)
        assert eventually(lambda: told_to_go(sidecar, own_local_process))
    assert sidecar.process.wait() == 0


def told_to_go(sidecar: Sidecar, local_process: LocalProcess) -> bool:
    """Whether a good claim is refused by now."""
    with sidecar.dial() as client:
        if eventually(lambda: not silent_for(client, 0), seconds=0.5):
            return receive_all(client) == b""
        local_process.accept().close()
        return False


def test_draining_on_request_refuses_and_ends_nothing(start: Start, own_local_process: LocalProcess) -> None:
    sidecar = start(drain={"timeout": "200ms"})
    client, upstream = sidecar.admit(own_local_process)
    with client, upstream:
        for _ in range(2):
            assert sidecar.page("/drain", method="POST", admin=True).status == 200
        assert sidecar.page("/readyz").status == 503
        assert sidecar.scrape().total("state", state="draining") == 1
        assert sidecar.refuse(CLAIM).verdict == "draining"
        assert silent_for(client, 1.0)  # five times what a drain that ends the process would give it
        client.sendall(b"still here")
        assert receive_exactly(upstream, 10) == b"still here"
        assert own_local_process.untouched
    assert eventually(lambda: sidecar.idle)


def test_a_request_to_shut_down_is_like_the_signal(start: Start, own_local_process: LocalProcess) -> None:
    sidecar = start(drain={"timeout": "30s"})
    client, upstream = sidecar.admit(own_local_process)
    with client, upstream:
        assert sidecar.page("/shutdown", method="POST", admin=True).status == 200
        assert sidecar.refuse(CLAIM).verdict == "draining"
        client.sendall(b"still here")
        assert receive_exactly(upstream, 10) == b"still here"
    assert sidecar.process.wait() == 0


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("drain", [{"timeout": "60s"}, {"delay": "60s", "timeout": "1s"}], ids=["drain", "delay"])
def test_a_second_signal_ends_it_at_once(
    second: signal.Signals, drain: dict[str, str], start: Start, own_local_process: LocalProcess
) -> None:
    sidecar = start(drain=drain)
    client, upstream = sidecar.admit(own_local_process)
    with client, upstream:
        sidecar.process.signal(signal.SIGTERM)
        assert has_begun(sidecar)
        sidecar.process.signal(second)
        assert sidecar.process.wait() == 1
        assert is_reset(client)
        assert is_reset(upstream)
    assert [line["end"] for line in sidecar.lines("connection_ended")] == ["aborted"]


def test_a_hang_up_ends_nothing(start: Start, own_local_process: LocalProcess) -> None:
    sidecar = start()
    client, upstream = sidecar.admit(own_local_process)
    with client, upstream:
        sidecar.process.signal(signal.SIGHUP)
        assert has_begun(sidecar)
        client.sendall(b"still here")
        assert receive_exactly(upstream, 10) == b"still here"
        assert sidecar.page("/readyz").status == 200


def test_nobody_is_dropped_in_silence_while_it_goes(start: Start, own_local_process: LocalProcess) -> None:
    """Each of many that dial all through the end is refused, or admitted and cut, or finds nobody there."""
    sidecar = start(drain={"timeout": "300ms"})
    gone = threading.Event()
    outcomes: list[str] = []

    def dial_until_it_is_gone() -> None:
        while not gone.is_set():
            try:
                with sidecar.dial(answer=True) as client:
                    outcomes.append("answered" if receive_exactly(client, 16) else "silence")
            except ConnectionError:
                outcomes.append("reset or refused")

    holder = sidecar.admit(own_local_process)
    with holder[0], holder[1]:
        sidecar.process.signal(signal.SIGTERM)
        assert has_begun(sidecar)
        diallers = [threading.Thread(target=dial_until_it_is_gone) for _ in range(4)]
        for dialler in diallers:
            dialler.start()
        try:
            assert sidecar.process.wait() == 0
        finally:
            gone.set()
            for dialler in diallers:
                dialler.join()
    assert "silence" not in outcomes
    assert "answered" in outcomes
    assert own_local_process.untouched
