"""Assignments from mounted files: a change takes effect at once, and a file that fails ends nothing."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Start
from kernel import is_reset, silent_for
from names import CLAIM, U1, U2, preface
from pairs import Pairs
from processes import eventually
from replica import LocalProcess, Sidecar, next_answer
from volume import Volume

from sidecar.identity import Generation, Instance
from sidecar.preface.claim import Claim
from sidecar.reasons import Advice

SLOW = {"poll_interval": "60s", "revalidate_interval": "60s"}  # nothing is read but for a claim
FAST = {"poll_interval": "100ms", "revalidate_interval": "100ms"}


@pytest.fixture
def volume(tmp_path: Path) -> Volume:
    volume = Volume(tmp_path / "podinfo")
    volume.publish(generation=7)
    return volume


def assignment(volume: Volume, **times: str) -> dict[str, object]:
    """This pod's assignment, with the generation from a file."""
    return {"generation": volume.source("generation"), "ahead_wait": "100ms", **times}


def of(generation: int) -> Claim:
    """The claim that means this life."""
    return replace(CLAIM, generation=Generation(generation))


def test_a_new_generation_cuts_those_of_the_old_one_and_only_those(start: Start, volume: Volume, pairs: Pairs) -> None:
    sidecar = start(assignment=assignment(volume, **FAST), require=["identity", "instance"])
    old = [pairs.admit(sidecar) for _ in range(3)]
    of_any = pairs.admit(sidecar, replace(CLAIM, generation=None))
    began = time.monotonic()
    volume.publish(generation=8)
    assert all(pair.is_cut for pair in old)
    assert time.monotonic() - began < 2.0
    assert of_any.works
    assert pairs.admit(sidecar, of(8)).works
    answer = sidecar.refuse(of(7))
    assert (answer.verdict, answer.advice, answer.generation) == ("generation_stale", Advice.REFRESH, Generation(8))
    for pair in old:
        assert sidecar.line("connection_ended", pair.peer)["end"] == "generation_stale"
    assert sidecar.scrape().total("connections_ended_total", cause="generation_stale") == 3
    assert sidecar.scrape().total("assignment_generation") == 8


def test_every_renewal_of_the_volume_is_seen(start: Start, volume: Volume, pairs: Pairs) -> None:
    sidecar = start(assignment=assignment(volume, **FAST))
    for generation in (8, 9, 10):
        pair = pairs.admit(sidecar, of(generation - 1))
        volume.publish(generation=generation)
        assert pair.is_cut
    assert sidecar.scrape().total("assignment_changes_total") == 4


def test_a_file_that_is_replaced_by_rename_is_seen(start: Start, tmp_path: Path, pairs: Pairs) -> None:
    file, new = tmp_path / "generation", tmp_path / "new"
    file.write_text("7\n")
    sidecar = start(assignment={"generation": {"file": str(file)}, **FAST})
    pair = pairs.admit(sidecar)
    new.write_text("8\n")
    new.rename(file)
    assert pair.is_cut


def test_a_claim_is_decided_on_a_read_of_its_own(start: Start, volume: Volume, pairs: Pairs) -> None:
    sidecar = start(assignment=assignment(volume, **SLOW))
    old = pairs.admit(sidecar)
    volume.publish(generation=8)
    pairs.admit(sidecar, of(8))
    assert old.is_cut_already  # "admitted at 8" means that nothing of 7 is left


def test_a_claim_ahead_of_the_file_waits_for_it(start: Start, own_local_process: LocalProcess, volume: Volume) -> None:
    sidecar = start(assignment=assignment(volume, **SLOW) | {"ahead_wait": "20s"})
    with sidecar.dial(of(8), answer=True) as client:
        assert eventually(lambda: [each["state"] for each in sidecar.status()["connections"]] == ["authority"])
        assert silent_for(client, 0.3)
        volume.publish(generation=8)
        assert next_answer(client).generation == Generation(8)
        own_local_process.accept().close()


def test_a_claim_that_stays_ahead_may_come_again(
    start: Start, own_local_process: LocalProcess, volume: Volume, pairs: Pairs
) -> None:
    sidecar = start(assignment=assignment(volume, **SLOW))
    right = pairs.admit(sidecar)
    answer = sidecar.refuse(of(8))
    assert (answer.verdict, answer.advice) == ("generation_ahead", Advice.RETRY)
    assert right.works
    assert own_local_process.untouched


def test_a_burst_of_claims_shares_its_reads(start: Start, own_local_process: LocalProcess, volume: Volume) -> None:
    sidecar = start(assignment=assignment(volume, **SLOW))
    volume.publish(generation=8)
    with ExitStack() as stack:
        clients = [stack.enter_context(sidecar.connect()) for _ in range(100)]
        assert eventually(lambda: sidecar.counts()["accepted"] == 100)
        reads = sidecar.scrape().total("authority_reads_total")
        sidecar.process.signal(signal.SIGSTOP)  # so that all of them wait when it looks
        for client in clients:
            client.sendall(preface(of(8), answer=True))
        sidecar.process.signal(signal.SIGCONT)
        assert all(next_answer(client).admitted for client in clients)
        for _ in clients:
            own_local_process.accept().close()
        assert sidecar.scrape().total("authority_reads_total") - reads <= 4


def test_two_files_are_never_half_old_and_half_new(start: Start, tmp_path: Path) -> None:
    volume = Volume(tmp_path / "podinfo")
    swaps = range(1, 201)
    current = 1
    volume.publish(generation=1, uid=_uid(1))
    sidecar = start(
        assignment={
            "generation": volume.source("generation"),
            "instance": volume.source("uid"),
            "poll_interval": "1ms",
            "ahead_wait": "1ms",
        }
    )

    def swap() -> None:
        nonlocal current
        for generation in swaps:
            volume.publish(generation=generation, uid=_uid(generation))
            current = generation
            threading.Event().wait(0.005)

    verdicts = set()
    swapper = threading.Thread(target=swap)
    swapper.start()
    while swapper.is_alive():
        claim = replace(CLAIM, generation=Generation(current), instance=_uid(current))
        with sidecar.dial(claim, answer=True) as client:
            answer = next_answer(client)
        verdicts.add(answer.verdict)
        assert answer.generation is not None
        assert answer.instance == _uid(answer.generation.value)
    swapper.join()
    assert verdicts <= {"admitted", "generation_stale", "generation_ahead"}
    assert "admitted" in verdicts
    read = sidecar.lines("assignment")
    assert len(read) > 50
    assert all(line["instance"] == str(_uid(int(line["generation"]))) for line in read)


def _uid(generation: int) -> Instance:
    return Instance(f"uid-{generation}")


def test_a_file_that_has_not_come_yet_is_waited_for(
    start: Start, own_local_process: LocalProcess, tmp_path: Path, pairs: Pairs
) -> None:
    volume = Volume(tmp_path / "podinfo")
    sidecar = start(assignment=assignment(volume, **FAST))
    answer = sidecar.refuse(CLAIM)
    assert (answer.verdict, answer.detail, answer.advice) == ("not_assigned", "pending", Advice.RETRY)
    page = sidecar.page("/readyz")
    assert page.status == 503
    assert volume.source("generation")["file"] in page.body
    assert sidecar.page("/startupz").status == 200
    assert sidecar.scrape().total("state", state="pending") == 1
    assert sidecar.refuse(replace(CLAIM, generation=None)).verdict == "incarnation_missing"  # what is required is fixed
    assert own_local_process.untouched
    volume.publish(generation=7)
    assert eventually(lambda: sidecar.page("/readyz").status == 200)
    assert eventually(lambda: sidecar.scrape().total("state", state="ready") == 1)
    pairs.admit(sidecar)


FAULTS = {"gone": None, "empty": "", "text": "seven", "zero in front": "07", "zero": "0", "two lines": "7\n\n"}


def test_a_file_that_fails_refuses_newcomers_and_ends_nothing(
    start: Start, own_local_process: LocalProcess, volume: Volume, pairs: Pairs
) -> None:
    sidecar = start(assignment=assignment(volume, **FAST))
    right = pairs.admit(sidecar)
    for name, fault in FAULTS.items():
        volume.publish(generation=fault)
        answer = sidecar.refuse(CLAIM)
        assert (answer.verdict, answer.advice) == ("authority_unavailable", Advice.RETRY), name
        failed = unavailable(sidecar)
        assert eventually(lambda failed=failed: unavailable(sidecar) >= failed + 2)
        assert right.works, name
        assert sidecar.page("/readyz").status == 200
        assert own_local_process.untouched
        volume.publish(generation=7)
        pairs.admit(sidecar)
        assert right.works, name


def unavailable(sidecar: Sidecar) -> float:
    """How many reads have brought nothing so far."""
    return sidecar.scrape().total("authority_reads_total", result="unavailable")


def test_a_file_that_goes_back_is_not_believed(start: Start, volume: Volume, pairs: Pairs) -> None:
    volume.publish(generation=8)
    sidecar = start(assignment=assignment(volume, **FAST))
    right = pairs.admit(sidecar, of(8))
    volume.publish(generation=7)
    answer = sidecar.refuse(of(8))
    assert (answer.verdict, answer.advice) == ("authority_regressed", Advice.RETRY)
    assert "7" in answer.detail
    assert "8" in answer.detail
    assert sidecar.refuse(of(7)).verdict == "generation_stale"
    page = sidecar.page("/readyz")
    assert page.status == 503
    assert "authority_regressed" in page.body
    assert right.works
    volume.publish(generation=8)
    assert eventually(lambda: sidecar.page("/readyz").status == 200)
    pairs.admit(sidecar, of(8))
    assert right.works


def test_the_last_known_assignment_admits_for_a_while(
    start: Start, own_local_process: LocalProcess, volume: Volume, pairs: Pairs
) -> None:
    sidecar = start(assignment=assignment(volume, **FAST) | {"on_unavailable": "last_known", "max_age": "2s"})
    assert eventually(lambda: sidecar.page("/readyz").status == 200)
    volume.publish(generation=None)
    pairs.admit(sidecar)
    assert sidecar.scrape().total("connections_admitted_total", basis="last_known") == 1
    wrong = replace(CLAIM, instance=U2)
    assert sidecar.refuse(wrong).verdict == "authority_unavailable"  # it never refuses on what it remembers
    assert eventually(lambda: not _admitted(sidecar, own_local_process, CLAIM))
    assert sidecar.refuse(CLAIM).verdict == "authority_unavailable"


def _admitted(sidecar: Sidecar, local_process: LocalProcess, claim: Claim) -> bool:
    with sidecar.dial(claim, answer=True) as client:
        if not next_answer(client).admitted:
            return False
        local_process.accept().close()
        return True


def test_a_higher_generation_forgets_the_last_known_assignment(
    start: Start, own_local_process: LocalProcess, volume: Volume
) -> None:
    sidecar = start(assignment=assignment(volume, **FAST) | {"on_unavailable": "last_known", "max_age": "60s"})
    assert eventually(lambda: sidecar.page("/readyz").status == 200)
    volume.publish(generation=None)
    assert _admitted(sidecar, own_local_process, CLAIM)
    assert sidecar.refuse(of(8)).verdict == "authority_unavailable"
    assert sidecar.refuse(CLAIM).verdict == "authority_unavailable"
    assert own_local_process.untouched


def test_everybody_is_cut_once_no_good_read_is_young_enough(start: Start, volume: Volume, pairs: Pairs) -> None:
    sidecar = start(assignment=assignment(volume, **FAST) | {"timeout": "800ms", "max_staleness": "1s"})
    three = [pairs.admit(sidecar) for _ in range(3)]
    assert silent_for(three[0].client, 1.5)  # good reads keep them
    volume.publish(generation=None)
    began = time.monotonic()
    assert all(pair.is_cut for pair in three)
    assert 0.8 < time.monotonic() - began < 10
    for pair in three:
        assert sidecar.line("connection_ended", pair.peer)["end"] == "authority_stale"
    volume.publish(generation=7)
    again = pairs.admit(sidecar)
    volume.publish(generation="")
    assert again.is_cut  # a second time as well


def test_who_was_admitted_on_a_remembered_assignment_is_cut_when_it_is_too_old(
    start: Start, own_local_process: LocalProcess, volume: Volume, pairs: Pairs
) -> None:
    settings = {"on_unavailable": "last_known", "max_age": "60s", "timeout": "800ms", "max_staleness": "1s"}
    sidecar = start(assignment=assignment(volume, **FAST) | settings)
    with ExitStack() as stack:
        before = pairs.admit(sidecar)
        volume.publish(generation=None)
        assert before.is_cut
        with sidecar.dial(answer=True) as late:
            if next_answer(late).admitted:
                stack.enter_context(own_local_process.accept())
                assert is_reset(late)


def test_an_authority_that_never_spoke_is_no_reason_to_wait(
    start: Start, own_local_process: LocalProcess, tmp_path: Path
) -> None:
    (tmp_path / "generation").mkdir()  # what can't be read, unlike what isn't there, may be a fault
    sidecar = start(assignment={"generation": {"file": str(tmp_path / "generation")}, **FAST})
    answer = sidecar.refuse(CLAIM)
    assert (answer.verdict, answer.advice) == ("authority_unavailable", Advice.RETRY)
    assert sidecar.page("/readyz").status == 503
    assert own_local_process.untouched


def test_another_instance_in_the_file_cuts_those_who_meant_the_last_one(
    start: Start, tmp_path: Path, pairs: Pairs
) -> None:
    volume = Volume(tmp_path / "podinfo")
    volume.publish(uid=U1)
    sidecar = start(assignment={"instance": volume.source("uid"), "generation": None, **FAST})
    pair = pairs.admit(sidecar, replace(CLAIM, generation=None))
    volume.publish(uid=U2)
    assert pair.is_cut
    assert sidecar.line("connection_ended", pair.peer)["end"] == "instance_mismatch"
    pairs.admit(sidecar, replace(CLAIM, generation=None, instance=U2))
    assert sidecar.refuse(replace(CLAIM, generation=None)).verdict == "instance_mismatch"


def test_a_generation_that_is_a_value_is_said_to_be_fixed(sidecar: Sidecar) -> None:
    remarks = [line["remark"] for line in sidecar.lines("configuration", about="assignment")]
    assert any("fixed for the life of the container" in remark for remark in remarks), remarks
