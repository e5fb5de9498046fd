"""The shadow mode: everything is decided and counted, and nobody notices."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Start
from kernel import receive_all, receive_exactly, send_segments
from names import CLAIM, OTHER, OWN, U1, U2, preface
from pairs import Pairs
from processes import eventually
from replica import LocalProcess, Sidecar, next_answer, sidecar_at
from volume import Volume

from sidecar.identity import ControllerName, Epoch, Generation
from sidecar.preface.proxy_v2 import Command, Tlv, write_header

SHADOW = {"enforcement": "shadow"}
CLIENT_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(range(189))
MiB = 1 << 20


def shadowed(sidecar: Sidecar) -> dict[str, float]:
    """What would have been refused, by reason."""
    return {
        sample.labels["reason"]: sample.value
        for sample in sidecar.scrape().samples
        if sample.name == "identity_sidecar_shadow_rejections_total" and sample.value
    }


@pytest.mark.parametrize(
    "change",
    [
        {"identity": OTHER},
        {"identity": None},
        {"generation": Generation(6)},
        {"generation": Generation(8)},
        {"generation": None},
        {"instance": U2},
    ],
    ids=["other slot", "no identity", "older", "later", "no generation", "other instance"],
)
def test_a_wrong_claim_is_counted_and_passes(
    change: dict[str, object], shared_shadow: Sidecar, local_process: LocalProcess
) -> None:
    sidecar = shared_shadow
    before = shadowed(sidecar)
    header = preface(replace(CLAIM, **change), answer=True) if change.get("identity", OWN) else _nameless()
    with sidecar.counting(shadow=1), sidecar.connect() as client:
        client.sendall(header + b"request")
        answer = next_answer(client)
        assert (answer.verdict, answer.identity, answer.generation, answer.instance) == (
            "admitted",
            OWN,
            Generation(7),
            U1,
        )
        with local_process.accept() as upstream:
            assert receive_exactly(upstream, 7) == b"request"
            upstream.sendall(b"reply")
            assert receive_exactly(client, 5) == b"reply"
        address = client.getsockname()
    assert sum(shadowed(sidecar).values()) == sum(before.values()) + 1
    line = sidecar.line("connection_would_be_refused", address)
    assert shadowed(sidecar)[line["reason"]] == before.get(line["reason"], 0) + 1


def _nameless() -> bytes:
    return write_header(source=None, destination=None, tlvs=[Tlv(0xEB, b"1")])


@pytest.fixture(scope="session")
def shared_shadow(shared_local_process: LocalProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    with sidecar_at(tmp_path_factory.mktemp("shadow"), shared_local_process.address, **SHADOW) as running:
        yield running


@pytest.mark.parametrize(
    ("opening", "reason"),
    [
        (CLIENT_HELLO, "preface_missing"),
        (b"GET / HTTP/1.1\r\nHost: replica\r\n\r\n", "preface_missing"),
        (b"PUT /x HTTP/1.1\r\n\r\n", "preface_missing"),
        (b"\x00\x01\x02", "preface_missing"),
        (b"\r\n\r\nhello", "preface_malformed"),
        (b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nGET /", "preface_malformed"),
    ],
    ids=["TLS", "HTTP", "begins with P", "binary", "begins with CR", "version 1"],
)
@pytest.mark.parametrize("in_pieces", [False, True], ids=["whole", "in pieces"])
def test_a_client_without_preface_passes_with_every_byte(
    opening: bytes, reason: str, in_pieces: bool, shared_shadow: Sidecar, local_process: LocalProcess
) -> None:
    sidecar = shared_shadow
    before = shadowed(sidecar).get(reason, 0)
    with sidecar.counting(shadow=1), sidecar.connect() as client:
        if in_pieces:
            send_segments(client, [opening[at : at + 1] for at in range(len(opening))])
        else:
            client.sendall(opening)
        with local_process.accept() as upstream:
            assert receive_exactly(upstream, len(opening)) == opening
            upstream.sendall(b"reply")
            assert receive_exactly(client, 5) == b"reply"
            client.shutdown(1)
            assert receive_all(upstream) == b""
    assert shadowed(sidecar)[reason] == before + 1


def test_a_client_that_listens_first_is_served(shared_shadow: Sidecar, local_process: LocalProcess) -> None:
    sidecar = shared_shadow
    with sidecar.counting(shadow=1), sidecar.connect() as client, local_process.accept() as upstream:
        upstream.sendall(b"220 replica ready\r\n")
        assert receive_exactly(client, 19) == b"220 replica ready\r\n"
        client.sendall(b"EHLO\r\n")
        assert receive_exactly(upstream, 6) == b"EHLO\r\n"


def test_probes_are_probes_and_faulty_prefaces_are_refused(shared_shadow: Sidecar, local_process: LocalProcess) -> None:
    with shared_shadow.counting(local_probe=1, closed_before_preface=1, preface_malformed=1):
        with shared_shadow.connect() as client:
            client.sendall(write_header(source=None, destination=None, command=Command.LOCAL))
            assert receive_all(client) == b""
        shared_shadow.connect().close()
        with shared_shadow.connect() as client:
            client.sendall(preface()[:12] + b"\x31" + preface()[13:])
            assert receive_all(client) == b""
    assert local_process.untouched


def test_a_right_claim_is_no_case_for_the_shadow(shared_shadow: Sidecar, local_process: LocalProcess) -> None:
    before = shadowed(shared_shadow)
    with shared_shadow.counting(authority=1):
        client, upstream = shared_shadow.admit(local_process)
        client.close()
        upstream.close()
    assert shadowed(shared_shadow) == before


def test_cuts_are_counted_and_not_made(start: Start, pairs: Pairs, tmp_path: Path) -> None:
    volume = Volume(tmp_path / "podinfo")
    volume.publish(generation=7)
    assignment = {
        "generation": volume.source("generation"),
        "ahead_wait": "100ms",
        "poll_interval": "100ms",
        "revalidate_interval": "100ms",
        "timeout": "800ms",
        "max_staleness": "1s",
    }
    sidecar = start(assignment=assignment, **SHADOW)
    old = pairs.admit(sidecar)
    wrong = pairs.admit(sidecar, replace(CLAIM, generation=Generation(6)))
    for generation in (8, 9, 10):
        volume.publish(generation=generation)
        assert eventually(lambda generation=generation: sidecar.scrape().total("assignment_generation") == generation)
    assert old.works
    assert wrong.works
    assert sidecar.scrape().total("shadow_cuts_total", cause="generation_stale") == 1
    assert sidecar.scrape().total("shadow_cuts_total") == 1
    right = pairs.admit(sidecar, replace(CLAIM, generation=Generation(10)))
    volume.publish(generation=None)
    assert eventually(lambda: sidecar.scrape().total("shadow_cuts_total", cause="authority_stale") >= 1)
    assert all(pair.works for pair in (old, wrong, right))
    assert sidecar.scrape().total("connections_ended_total") == 0


def test_what_the_shadow_lets_through_supersedes_nobody_and_raises_no_floor(
    start: Start, pairs: Pairs, tmp_path: Path
) -> None:
    sidecar = start(
        listener={"concurrency": "exclusive", "unsafe_epoch": True},
        require=["identity", "instance", "generation", "epoch"],
        state_dir=str(tmp_path / "state"),
        **SHADOW,
    )
    leader = replace(CLAIM, controller=ControllerName("leader"), epoch=Epoch(2))
    holder = pairs.admit(sidecar, leader)
    for wrong in (
        replace(leader, epoch=Epoch(9), generation=Generation(6)),
        replace(leader, epoch=Epoch(1)),
        replace(leader, controller=ControllerName("rival")),
    ):
        assert pairs.admit(sidecar, wrong).works
        assert holder.works
    assert shadowed(sidecar) == {"generation_stale": 1, "controller_stale": 1, "exclusive_conflict": 1}
    assert pairs.admit(sidecar, replace(leader, epoch=Epoch(3))).works
    assert holder.works
    assert sidecar.scrape().total("shadow_cuts_total") == 1


def test_enforcing_begins_with_a_reload(start: Start, pairs: Pairs, own_local_process: LocalProcess) -> None:
    sidecar = start(**SHADOW)
    assert sidecar.scrape().total("enforcement_info", mode="shadow") == 1
    wrong = pairs.admit(sidecar, replace(CLAIM, generation=Generation(6)))
    assert wrong.works
    sidecar.configure(enforcement="enforce")
    sidecar.process.signal(signal.SIGHUP)
    assert eventually(lambda: bool(sidecar.lines("reloaded")))
    assert sidecar.scrape().total("enforcement_info", mode="enforce") == 1
    assert sidecar.refuse(replace(CLAIM, generation=Generation(6))).verdict == "generation_stale"
    with sidecar.connect() as client:
        client.sendall(b"GET /")
        assert receive_all(client) == b""
    assert own_local_process.untouched
    sidecar.configure(enforcement="shadow")
    sidecar.process.signal(signal.SIGHUP)
    assert eventually(lambda: len(sidecar.lines("reloaded")) == 2)
    assert pairs.admit(sidecar, replace(CLAIM, generation=Generation(6))).works


def test_once_it_enforces_what_came_before_is_cut_as_ever(start: Start, pairs: Pairs, tmp_path: Path) -> None:
    volume = Volume(tmp_path / "podinfo")
    volume.publish(generation=7)
    assignment = {"generation": volume.source("generation"), "poll_interval": "100ms"}
    sidecar = start(assignment=assignment, **SHADOW)
    old = pairs.admit(sidecar)
    sidecar.configure(assignment=assignment, enforcement="enforce")
    sidecar.process.signal(signal.SIGHUP)
    assert eventually(lambda: bool(sidecar.lines("reloaded")))
    volume.publish(generation=8)
    pairs.admit(sidecar, replace(CLAIM, generation=Generation(8)))
    assert old.is_cut_already


def test_once_it_enforces_there_is_one_place(start: Start, pairs: Pairs) -> None:
    exclusive = {"listener": {"concurrency": "exclusive"}}
    sidecar = start(**exclusive, **SHADOW)
    old = pairs.admit(sidecar)
    sidecar.configure(**exclusive, enforcement="enforce")
    sidecar.process.signal(signal.SIGHUP)
    assert eventually(lambda: bool(sidecar.lines("reloaded")))
    new = pairs.admit(sidecar)
    assert old.is_cut_already
    assert new.works


def test_who_drains_sends_nobody_on(start: Start, own_local_process: LocalProcess) -> None:
    sidecar = start(**SHADOW)
    assert sidecar.page("/drain", method="POST", admin=True).status == 200
    with ExitStack() as stack, sidecar.counting(draining=1, preface_missing=2):
        for opening in (preface(), b"GET / HTTP/1.1\r\n\r\n", b""):
            client = stack.enter_context(sidecar.connect())
            client.sendall(opening)
            assert receive_all(client) == b""
    assert own_local_process.untouched


def test_one_listener_may_be_in_the_shadow_alone(start: Start, pairs: Pairs) -> None:
    sidecar = start(listener={"enforcement": "shadow"}, beside={"storage": {"enforcement": "enforce"}})
    stale = replace(CLAIM, generation=Generation(6))
    assert pairs.admit(sidecar, stale).works
    assert sidecar.refuse(stale, listener="storage").verdict == "generation_stale"
