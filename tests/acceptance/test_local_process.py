"""The local process isn't there, or is slow to come."""

from __future__ import annotations

from contextlib import closing

from conftest import Start
from kernel import receive_all, receive_exactly
from names import CLAIM, WRONG
from processes import eventually, free_ports
from replica import LocalProcess

from sidecar.reasons import Advice


def test_nobody_is_admitted_while_it_is_down_and_everybody_who_may_once_it_is_up(start: Start) -> None:
    (port,) = free_ports(1)
    sidecar = start(upstream=f"127.0.0.1:{port}")
    with sidecar.counting(upstream_unavailable=1, identity_mismatch=1):
        answer = sidecar.refuse(CLAIM)
        assert (answer.verdict, answer.advice) == ("upstream_unavailable", Advice.RETRY)
        assert f"127.0.0.1:{port}" in answer.detail
        assert sidecar.refuse(WRONG).verdict == "identity_mismatch"  # who is wrong here learns that first
    with closing(LocalProcess(port)) as local_process, sidecar.counting(authority=1):
        client, upstream = sidecar.admit(local_process)
        with client, upstream:
            client.sendall(b"PING")
            assert receive_exactly(upstream, 4) == b"PING"


def test_a_refused_client_that_asked_for_no_answer_gets_no_byte(start: Start) -> None:
    (port,) = free_ports(1)
    sidecar = start(upstream=f"127.0.0.1:{port}")
    with sidecar.counting(upstream_unavailable=1), sidecar.dial() as client:
        assert receive_all(client) == b""


def test_readiness_may_wait_for_it(start: Start) -> None:
    (port,) = free_ports(1)
    sidecar = start(upstream=f"127.0.0.1:{port}", telemetry={"ready_needs_upstream": True})
    page = sidecar.page("/readyz")
    assert page.status == 503
    assert "compute" in page.body
    assert sidecar.page("/livez").status == 200
    assert sidecar.refuse(CLAIM).verdict == "upstream_unavailable"
    assert sidecar.refuse(WRONG).verdict == "identity_mismatch"
    with closing(LocalProcess(port)) as local_process:
        assert eventually(lambda: sidecar.page("/readyz").status == 200)
        assert local_process.untouched  # it is looked for, and not called
        for end in sidecar.admit(local_process):
            end.close()
