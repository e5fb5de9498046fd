"""Connections that mean another replica, another life of this one, or don't say what they mean."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import Start
from kernel import receive_all, receive_exactly
from names import CLAIM, OTHER, OWN, U1, U2, WRONG
from processes import eventually
from replica import LocalProcess, Sidecar, next_answer, sidecar_at

from sidecar.identity import Generation, Identity
from sidecar.preface.proxy_v2 import write_header
from sidecar.reasons import Advice

MiB = 1 << 20


def test_a_wrong_connection_does_not_disturb_the_right_one(sidecar: Sidecar, local_process: LocalProcess) -> None:
    right, upstream = sidecar.admit(local_process)
    with right, upstream:
        right.sendall(b"one ")
        with sidecar.counting(identity_mismatch=1):
            assert sidecar.refuse(WRONG).verdict == "identity_mismatch"
        right.sendall(b"two")
        assert receive_exactly(upstream, 7) == b"one two"
        upstream.sendall(b"three")
        assert receive_exactly(right, 5) == b"three"
        assert local_process.untouched


@pytest.mark.parametrize(
    ("change", "verdict", "advice", "says"),
    [
        ({"identity": OTHER}, "identity_mismatch", Advice.RE_RESOLVE, "ordinal: expected 3, this is 2"),
        ({"identity": Identity("prod-eu", "replica-b", 2)}, "identity_mismatch", Advice.RE_RESOLVE, "replica: "),
        ({"identity": Identity("stage-eu", "replica-a", 2)}, "identity_mismatch", Advice.RE_RESOLVE, "cluster: "),
        ({"generation": Generation(6)}, "generation_stale", Advice.REFRESH, "expected 6, this is at least 7"),
        ({"generation": Generation(8)}, "generation_ahead", Advice.RE_RESOLVE, "expected 8, this is 7"),
        ({"instance": U2}, "instance_mismatch", Advice.RE_RESOLVE, f"expected {U2}, this is {U1}"),
        ({"generation": None}, "incarnation_missing", Advice.FIX, "generation"),
        ({"instance": None}, "incarnation_missing", Advice.FIX, "instance"),
    ],
    ids=[
        *("other ordinal", "other replica", "other cluster", "older generation", "later generation", "other instance"),
        *("no generation", "no instance"),
    ],
)
def test_a_refusal_says_which_part_is_wrong_and_what_to_do(
    change: dict[str, Any], verdict: str, advice: Advice, says: str, sidecar: Sidecar, local_process: LocalProcess
) -> None:
    with sidecar.counting(**{verdict: 1}):
        answer = sidecar.refuse(replace(CLAIM, **change))
    assert (answer.verdict, answer.advice) == (verdict, advice)
    assert says in answer.detail
    assert (answer.identity, answer.generation, answer.instance) == (OWN, Generation(7), U1)


def test_a_claim_that_names_nobody_is_refused(sidecar: Sidecar, local_process: LocalProcess) -> None:
    with sidecar.counting(identity_missing=1), sidecar.connect() as client:
        client.sendall(write_header(source=None, destination=None) + b"PING")
        assert receive_all(client) == b""


def test_the_log_names_both_sides_and_both_addresses(sidecar: Sidecar, local_process: LocalProcess) -> None:
    with sidecar.dial(WRONG) as client:
        assert receive_all(client) == b""
        address = client.getsockname()
    line = sidecar.line("connection_refused", address)
    assert line["reason"] == "identity_mismatch"
    assert line["detail"] == "ordinal: expected 3, this is 2"
    assert line["claim"]["identity"] == str(OTHER)
    assert line["own"] == str(OWN)
    assert line["local"] == ":".join(map(str, sidecar.address()))


def test_two_pods_that_came_back_with_each_others_address_refuse_the_old_map(tmp_path: Path) -> None:
    slots = [Identity("prod-eu", "replica-a", ordinal) for ordinal in (0, 1)]
    hosts = ["127.0.0.3", "127.0.0.2"]  # the first was at 127.0.0.2 before
    with (
        closing(LocalProcess()) as first_process,
        closing(LocalProcess()) as second_process,
        sidecar_at(tmp_path, first_process.address, **pod(slots[0], hosts[0])) as first,
        sidecar_at(tmp_path, second_process.address, **pod(slots[1], hosts[1])) as second,
    ):
        for sidecar, slot in ((first, slots[1]), (second, slots[0])):
            assert sidecar.refuse(replace(CLAIM, identity=slot)).verdict == "identity_mismatch"
        assert first_process.untouched
        assert second_process.untouched

        for sidecar, slot, process in ((first, slots[0], first_process), (second, slots[1], second_process)):
            with sidecar.dial(replace(CLAIM, identity=slot), answer=True) as client, process.accept():
                assert next_answer(client).identity == slot


def pod(slot: Identity, host: str) -> dict[str, dict[str, object]]:
    return {"identity": {"ordinal": slot.ordinal}, "listener": {"listen": f"{host}:0"}}


def test_a_pod_that_came_back_under_its_name_refuses_who_means_its_last_life(
    own_local_process: LocalProcess, tmp_path: Path
) -> None:
    with sidecar_at(tmp_path, own_local_process.address) as sidecar:
        first_life = sidecar.admit(own_local_process)
        for end in first_life:
            end.close()
    with sidecar_at(tmp_path, own_local_process.address, assignment={"instance": str(U2)}) as sidecar:
        assert sidecar.refuse(CLAIM).verdict == "instance_mismatch"
        assert own_local_process.untouched
        with sidecar.dial(replace(CLAIM, instance=U2), answer=True) as client, own_local_process.accept():
            assert next_answer(client).instance == U2


def test_a_thousand_retries_with_an_old_generation_cost_a_few_lines_and_no_memory(
    start: Start, own_local_process: LocalProcess
) -> None:
    sidecar = start(log={"level": "info", "refusals_per_second": 10})
    stale = replace(CLAIM, generation=Generation(6))
    began = time.monotonic()
    for _ in range(100):
        sidecar.refuse(stale)
    memory = sidecar.memory()
    with sidecar.counting(generation_stale=900):
        for _ in range(900):
            assert sidecar.refuse(stale).verdict == "generation_stale"
    assert sidecar.memory() - memory < 3 * MiB
    assert own_local_process.untouched

    def told_of() -> int:
        lines = [*sidecar.lines("connection_refused"), *sidecar.lines("refusals_suppressed")]
        return sum(line.get("suppressed", 0) for line in lines) + len(sidecar.lines("connection_refused"))

    assert eventually(lambda: told_of() == 1000)
    lines = len(sidecar.lines("connection_refused"))
    assert lines <= 10 * (time.monotonic() - began + 2)
    assert sidecar.scrape().total("log_suppressed_total") == 1000 - lines
