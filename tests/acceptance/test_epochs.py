"""A later leader's word: whoever it has replaced is cut and told to stop."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Start
from names import CLAIM, OTHER, U2
from pairs import Pairs
from replica import PLACES, LocalProcess, Sidecar, sidecar_at, verdict

from sidecar.identity import Epoch, Generation
from sidecar.preface.claim import Claim
from sidecar.reasons import Advice

REQUIRE = ["identity", "instance", "generation", "epoch"]


def at(epoch: int) -> Claim:
    """The right claim of a leader of this epoch."""
    return replace(CLAIM, epoch=Epoch(epoch))


@pytest.fixture
def sections(tmp_path: Path) -> dict[str, object]:
    """A listener where epochs count, and nobody has to prove who it is."""
    return {"state_dir": str(tmp_path / "state"), "require": REQUIRE, "listener": {"unsafe_epoch": True}}


@pytest.fixture(scope="module")
def house(own_shared_process: LocalProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    """A sidecar with a listener, and so with an epoch floor, for each test."""
    folder = tmp_path_factory.mktemp("epochs")
    sections = {"state_dir": str(folder / "state"), "require": REQUIRE, "listener": {"unsafe_epoch": True}}
    with sidecar_at(folder, own_shared_process.address, beside=PLACES, **sections) as sidecar:
        yield sidecar


@pytest.fixture
def own_local_process(own_shared_process: LocalProcess) -> LocalProcess:
    """The one behind the file's sidecars, and behind those that a test starts."""
    return own_shared_process


@pytest.fixture
def sidecar(house: Sidecar, place: str) -> Sidecar:
    """A listener that no epoch was heard on."""
    house.listener = place
    return house


def test_a_later_leader_is_admitted_once_its_predecessors_are_cut(
    sidecar: Sidecar, pairs: Pairs, own_local_process: LocalProcess
) -> None:
    old = [pairs.admit(sidecar, at(1)) for _ in range(3)]
    same = pairs.admit(sidecar, at(1))
    assert all(pair.works for pair in (*old, same))
    leader = pairs.admit(sidecar, at(2))
    assert all(pair.is_cut_already for pair in (*old, same))
    assert leader.works
    answer = sidecar.refuse(at(1))
    assert (answer.verdict, answer.advice, answer.epoch) == ("controller_stale", Advice.STOP, Epoch(2))
    assert leader.works
    assert sidecar.line("connection_ended", old[0].peer)["end"] == "controller_stale"
    assert sidecar.refuse(CLAIM).verdict == "controller_malformed"
    assert own_local_process.untouched


def test_a_wrong_claim_raises_nothing(sidecar: Sidecar, pairs: Pairs) -> None:
    leader = pairs.admit(sidecar, at(1))
    for wrong in ({"generation": Generation(6)}, {"generation": Generation(8)}, {"identity": OTHER}, {"instance": U2}):
        sidecar.refuse(replace(at(9), **wrong))
    assert leader.works
    assert pairs.admit(sidecar, at(1)).works


def test_listeners_of_one_scope_share_its_leader(start: Start, sections: dict[str, object], pairs: Pairs) -> None:
    sections["listener"] = {"unsafe_epoch": True, "epoch_scope": "controller"}
    sidecar = start(**sections, beside={"storage": {}})
    storage = pairs.admit(sidecar, at(1), listener="storage")
    leader = pairs.admit(sidecar, at(2), listener="compute")
    assert storage.is_cut_already
    assert sidecar.refuse(at(1), listener="storage").verdict == "controller_stale"
    assert leader.works


def test_listeners_of_their_own_scopes_do_not(sidecar: Sidecar, pairs: Pairs) -> None:
    other = pairs.admit(sidecar, at(1), listener="compute")
    pairs.admit(sidecar, at(2))
    assert other.works
    assert pairs.admit(sidecar, at(1), listener="compute").works


def test_the_word_of_somebody_unproven_raises_nothing(start: Start, sections: dict[str, object], pairs: Pairs) -> None:
    sections["listener"] = {"unsafe_epoch": False}
    sidecar = start(**sections)
    low = pairs.admit(sidecar, at(1))
    pairs.admit(sidecar, at(9))
    assert low.works
    assert pairs.admit(sidecar, at(1)).works


def test_epochs_that_nobody_requires_are_only_noted(start: Start, sections: dict[str, object], pairs: Pairs) -> None:
    del sections["require"]
    sidecar = start(**sections)
    low = pairs.admit(sidecar, at(1))
    high = pairs.admit(sidecar, at(9))
    assert low.works
    assert pairs.admit(sidecar).works
    assert sidecar.line("connection_admitted", high.peer)["epoch"] == "9"


def test_many_leaders_at_once_leave_only_the_last(sidecar: Sidecar, own_local_process: LocalProcess) -> None:
    clients: dict[int, socket.socket] = {}
    verdicts: dict[int, str] = {}

    def dial(epoch: int) -> None:
        clients[epoch] = sidecar.dial(at(epoch), answer=True)
        verdicts[epoch] = verdict(clients[epoch])

    diallers = [threading.Thread(target=dial, args=(epoch,)) for epoch in range(1, 31)]
    for dialler in diallers:
        dialler.start()
    for dialler in diallers:
        dialler.join()
    try:
        assert verdicts[30] == "admitted"
        assert set(verdicts.values()) <= {"admitted", "cut", "controller_stale"}
        assert [each["claim"]["epoch"] for each in sidecar.live()] == ["30"]
    finally:
        for client in clients.values():
            client.close()
        own_local_process.forget()
