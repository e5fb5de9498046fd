"""A local process for one client: the right newcomer replaces the old connection, and nobody else touches it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from conftest import Start
from kernel import reset
from names import CLAIM, WRONG
from pairs import Pairs
from processes import eventually
from replica import PLACES, LocalProcess, Sidecar, next_answer, sidecar_at, verdict

from sidecar.identity import ControllerName, Epoch, Generation
from sidecar.preface.claim import Claim
from sidecar.reasons import Advice

EXCLUSIVE = {"concurrency": "exclusive"}


def by(controller: str, epoch: int | None = None) -> Claim:
    """The right claim of this controller."""
    return replace(CLAIM, controller=ControllerName(controller), epoch=Epoch(epoch) if epoch is not None else None)


@pytest.fixture(scope="module")
def house(own_shared_process: LocalProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    """A sidecar with a listener for each test."""
    with sidecar_at(
        tmp_path_factory.mktemp("places"), own_shared_process.address, listener=EXCLUSIVE, beside=PLACES
    ) as sidecar:
        yield sidecar


@pytest.fixture(scope="module")
def house_with_epochs(own_shared_process: LocalProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    """The same, where epochs count."""
    folder = tmp_path_factory.mktemp("epochs")
    sections = {
        "state_dir": str(folder / "state"),
        "require": ["identity", "instance", "generation", "epoch"],
        "listener": EXCLUSIVE | {"unsafe_epoch": True},
    }
    with sidecar_at(folder, own_shared_process.address, beside=PLACES, **sections) as sidecar:
        yield sidecar


@pytest.fixture
def own_local_process(own_shared_process: LocalProcess) -> LocalProcess:
    """The one behind the file's sidecars, and behind those that a test starts."""
    return own_shared_process


@pytest.fixture
def sidecar(house: Sidecar, place: str) -> Sidecar:
    """A free place."""
    house.listener = place
    return house


@pytest.fixture
def with_epochs(house_with_epochs: Sidecar, place: str) -> Sidecar:
    """A free place where the higher epoch wins."""
    house_with_epochs.listener = place
    return house_with_epochs


@pytest.mark.parametrize("claim", [by("leader"), CLAIM], ids=["named", "nameless"])
def test_a_reconnect_replaces_the_connection_before(claim: Claim, sidecar: Sidecar, pairs: Pairs) -> None:
    old = pairs.admit(sidecar, claim)
    assert old.works
    new = pairs.admit(sidecar, claim)
    assert old.is_cut_already
    assert new.works
    assert len(sidecar.live()) == 1
    assert sidecar.line("connection_ended", old.peer)["end"] == "superseded"


def test_nobody_else_disturbs_the_one_that_is_there(
    sidecar: Sidecar, pairs: Pairs, own_local_process: LocalProcess
) -> None:
    holder = pairs.admit(sidecar, by("leader"))
    with sidecar.counting(exclusive_conflict=2, identity_mismatch=1, generation_stale=1, preface_missing=1):
        answer = sidecar.refuse(by("rival"))
        assert (answer.verdict, answer.advice) == ("exclusive_conflict", Advice.RETRY)
        assert sidecar.refuse(CLAIM).verdict == "exclusive_conflict"  # no name is another one than a name
        assert sidecar.refuse(WRONG).verdict == "identity_mismatch"
        assert sidecar.refuse(replace(by("leader"), generation=Generation(6))).verdict == "generation_stale"
        with sidecar.connect() as client:
            client.sendall(b"GET / HTTP/1.1\r\n\r\n")
            assert client.recv(1) == b""
    assert holder.works
    assert own_local_process.untouched
    assert sidecar.scrape().total("connections_ended_total", listener=sidecar.listener) == 0


def test_the_place_is_free_again_once_its_holder_has_gone(sidecar: Sidecar, pairs: Pairs) -> None:
    for controller, leave in (("a", reset), ("b", reset), ("c", None)):
        pair = pairs.admit(sidecar, by(controller))
        assert pair.works
        if leave is not None:
            leave(pair.client)
            pair.upstream.close()
            assert _gone(sidecar)


def _gone(sidecar: Sidecar) -> bool:
    return eventually(lambda: not sidecar.live())


def test_each_listener_has_a_place_of_its_own(sidecar: Sidecar, pairs: Pairs) -> None:
    first = pairs.admit(sidecar, by("leader"))
    second = pairs.admit(sidecar, by("rival"), listener="compute")
    assert first.works
    assert second.works


def test_the_higher_epoch_wins_and_the_lower_one_stays_out(
    with_epochs: Sidecar, pairs: Pairs, own_local_process: LocalProcess
) -> None:
    sidecar = with_epochs
    old = pairs.admit(sidecar, by("first", 1))
    new = pairs.admit(sidecar, by("second", 2))
    assert old.is_cut_already
    assert sidecar.refuse(by("first", 1)).verdict == "controller_stale"
    assert sidecar.refuse(by("third", 2)).verdict == "exclusive_conflict"
    assert new.works
    again = pairs.admit(sidecar, by("second", 2))
    assert new.is_cut_already
    assert again.works
    assert own_local_process.untouched


def test_takeovers_by_epoch_are_as_many_as_it_takes(with_epochs: Sidecar, pairs: Pairs) -> None:
    sidecar = with_epochs
    for epoch in range(1, 11):
        last = pairs.admit(sidecar, by(f"leader-{epoch}", epoch))
    assert last.works
    assert len(sidecar.live()) == 1


def test_two_of_one_name_do_not_cut_each_other_for_ever(
    sidecar: Sidecar, pairs: Pairs, own_local_process: LocalProcess
) -> None:
    for _ in range(6):  # the first finds nobody; then five takeovers within ten seconds
        holder = pairs.admit(sidecar, by("leader"))
    for _ in range(3):
        answer = sidecar.refuse(by("leader"))
        assert (answer.verdict, answer.advice) == ("exclusive_conflict", Advice.RETRY)
    assert holder.works
    assert own_local_process.untouched


def test_a_takeover_whose_dial_fails_is_counted_apart(start: Start) -> None:
    with closing(LocalProcess()) as local_process, closing(Pairs(local_process)) as pairs:
        sidecar = start(upstream=local_process.address, listener=EXCLUSIVE)
        holder = pairs.admit(sidecar, by("leader"))
        local_process.close()
        assert sidecar.refuse(by("rival")).verdict == "exclusive_conflict"
        assert holder.works
        with sidecar.counting(upstream_unavailable=1, ended_superseded=1):
            assert sidecar.refuse(by("leader")).verdict == "upstream_unavailable"
        assert holder.is_cut
        assert sidecar.scrape().total("takeovers_failed_total") == 1
        assert not sidecar.live()


def at_once(dial: Callable[[int], None], count: int) -> None:
    """Call *dial* from so many threads."""
    threads = [threading.Thread(target=dial, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_of_a_storm_of_leaders_the_last_one_is_left(with_epochs: Sidecar, own_local_process: LocalProcess) -> None:
    sidecar = with_epochs
    clients: dict[int, socket.socket] = {}
    verdicts: dict[int, str] = {}

    def dial(number: int) -> None:
        clients[number] = sidecar.dial(by(f"leader-{number}", number + 1), answer=True)
        verdicts[number] = verdict(clients[number])

    try:
        at_once(dial, 30)
        assert verdicts[29] == "admitted"
        assert set(verdicts.values()) <= {"admitted", "cut", "controller_stale", "exclusive_conflict"}
        assert [each["claim"]["epoch"] for each in sidecar.live()] == ["30"]
        assert sidecar.scrape().total("connections_active", state="admitted", listener=sidecar.listener) == 1
    finally:
        for client in clients.values():
            client.close()
        own_local_process.forget()


def test_a_storm_of_strangers_takes_nothing_from_the_holder(sidecar: Sidecar, pairs: Pairs) -> None:
    holder = pairs.admit(sidecar, by("leader"))

    def dial(number: int) -> None:
        for _ in range(10):
            sidecar.refuse(by(f"rival-{number}"))

    with sidecar.counting(exclusive_conflict=200):
        at_once(dial, 20)
    assert holder.works


def test_of_many_first_comers_one_is_admitted(sidecar: Sidecar, own_local_process: LocalProcess) -> None:
    verdicts: list[str] = []
    clients = []

    def dial(number: int) -> None:
        client = sidecar.dial(by(f"rival-{number}"), answer=True)
        clients.append(client)
        verdicts.append(next_answer(client).verdict)

    try:
        at_once(dial, 20)
        assert sorted(verdicts) == ["admitted"] + ["exclusive_conflict"] * 19
        own_local_process.accept().close()
        assert own_local_process.untouched
    finally:
        for client in clients:
            client.close()
