"""The way to the local process: one place, one at a time; the floor before the dial; what a change revokes."""

from __future__ import annotations

import select
from dataclasses import replace
from types import SimpleNamespace

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from sidecar.admission import Floor, Peer, Requirement, State
from sidecar.assignment import Assignment
from sidecar.exclusive import MOST_TAKEOVERS, Exclusive
from sidecar.gate import Visit
from sidecar.identity import ControllerName, Epoch, Generation
from sidecar.passage import enter
from sidecar.preface.claim import Claim, read_claim
from sidecar.preface.proxy_v2 import read_header
from sidecar.reasons import End, Reason, Refused, TlsFailure
from sidecar.sockets import abort
from tests.house import EIGHT, answer_of
from tests.names import CLAIM, OWN, U1, WRONG, preface
from tests.wires import is_reset, receive_all


def in_shadow(gate):
    return replace(gate, shadow=True, times=replace(gate.times, shadow=60))


def named(controller, epoch=None):
    return replace(CLAIM, controller=ControllerName(controller), epoch=Epoch(epoch) if epoch else None)


@pytest.fixture
def exclusive(house):
    house.gate = replace(house.gate, exclusive=Exclusive())
    return house


async def admit(house, process, claim=CLAIM):
    controller, connection, _ = await house.connect()
    await controller.send_all(preface(claim))
    with trio.fail_after(5):
        upstream = await process.accept()
    await wait_all_tasks_blocked(0.01)
    return controller, upstream, connection


def has_waiting(listener):
    """Whether somebody waits in the kernel's queue."""
    return bool(select.select([listener.socket.fileno()], [], [], 0)[0])


def floor_that(raises):
    """An epoch floor that always has something to raise, and how."""
    return SimpleNamespace(holds=lambda _epoch: False, raise_to=raises)


async def close(*streams):
    for stream in streams:
        await stream.aclose()


async def test_a_reconnect_takes_over_once_the_old_connection_is_gone(exclusive, process):
    old, old_upstream, connection = await admit(exclusive, process)
    new, new_upstream, _ = await admit(exclusive, process)
    assert connection.ended_by is End.SUPERSEDED
    assert await is_reset(old)
    assert await is_reset(old_upstream)
    await new.send_all(b"here")
    assert await new_upstream.receive_some() == b"here"
    await close(old, old_upstream, new, new_upstream)
    await exclusive.roster.wait_empty()
    assert exclusive.gate.exclusive.holder is None


async def test_a_refused_connection_disturbs_nobody(exclusive, process):
    old, old_upstream, _ = await admit(exclusive, process)
    for claim in (WRONG, replace(CLAIM, generation=Generation(6))):
        controller, _, _ = await exclusive.connect()
        async with controller:
            await controller.send_all(preface(claim, answer=True))
            assert not (await answer_of(controller)).admitted
    await old.send_all(b"still here")
    assert await old_upstream.receive_some() == b"still here"
    await close(old, old_upstream)


async def test_another_controller_is_refused_and_disturbs_nobody(exclusive, process):
    old, old_upstream, _ = await admit(exclusive, process, named("a"))
    controller, _, _ = await exclusive.connect()
    async with controller:
        await controller.send_all(preface(named("b"), answer=True))
        assert (await answer_of(controller)).verdict == "exclusive_conflict"
    await old.send_all(b"still here")
    assert await old_upstream.receive_some() == b"still here"
    await close(old, old_upstream)


async def test_takeovers_that_come_too_often_are_refused(exclusive, process):
    streams = []
    for _ in range(MOST_TAKEOVERS + 1):
        controller, upstream, _ = await admit(exclusive, process)
        streams += [controller, upstream]
    controller, _, _ = await exclusive.connect()
    async with controller:
        await controller.send_all(preface(answer=True))
        assert (await answer_of(controller)).verdict == "exclusive_conflict"
    await close(*streams)


async def test_of_many_that_come_at_once_one_is_left_and_each_was_alone(exclusive, process):
    """Never two admitted at the same moment, and never none for good."""
    streams = [(await exclusive.connect())[0] for _ in range(4)]
    for stream in streams:
        await stream.send_all(preface())
    upstreams = []
    for _ in streams:
        with trio.fail_after(5):
            upstreams.append(await process.accept())
        await wait_all_tasks_blocked(0.01)
        assert sum(connection.admitted for connection in exclusive.roster) == 1
    await close(*streams, *upstreams)


async def test_one_that_took_long_takes_nothing_from_the_one_that_came_after_it(exclusive, process):
    slow, _, _ = await exclusive.connect()
    new, new_upstream, _ = await admit(exclusive, process)
    async with slow:
        await slow.send_all(preface(answer=True))
        answer = await answer_of(slow)
    assert (answer.verdict, answer.detail) == ("exclusive_conflict", "a newer connection holds the place")
    await new.send_all(b"still here")
    assert await new_upstream.receive_some() == b"still here"
    await close(new, new_upstream)


async def test_a_dial_that_fails_after_the_cut_is_counted_apart(exclusive, process):
    old, old_upstream, _ = await admit(exclusive, process)
    await process.listener.aclose()
    controller, _, _ = await exclusive.connect()
    async with controller:
        await controller.send_all(preface(answer=True))
        assert (await answer_of(controller)).verdict == "upstream_unavailable"
    assert await is_reset(old)
    assert exclusive.takeovers_failed() == 1
    await close(old, old_upstream)


async def test_a_dial_that_fails_after_a_higher_epoch_has_cut_the_holder_is_counted_too(exclusive, process):
    floors = Floors(exclusive)
    old, old_upstream, connection = await admit(exclusive, process, named("a", epoch=5))
    await process.listener.aclose()
    keep = floors.raise_to

    async def keep_and_cut(epoch):
        kept = await keep(epoch, looks=False)
        connection.end(End.CONTROLLER_STALE)
        await exclusive.roster.wait_ended(connection)
        return kept

    exclusive.gate = replace(exclusive.gate, epoch_floor=floor_that(keep_and_cut))
    controller, _, _ = await exclusive.connect()
    async with controller:
        await controller.send_all(preface(named("a", epoch=6), answer=True))
        assert (await answer_of(controller)).verdict == "upstream_unavailable"
    assert exclusive.takeovers_failed() == 1
    await close(old, old_upstream)


async def test_who_waits_too_long_for_its_turn_is_told_to_come_again(exclusive, process, patient_clock):
    await exclusive.gate.exclusive.turn.acquire()
    controller, _, _ = await exclusive.connect()
    async with controller:
        await controller.send_all(preface(answer=True))
        assert (await answer_of(controller)).verdict == "exclusive_conflict"
    exclusive.gate.exclusive.turn.release()


async def test_in_the_shadow_nobody_is_superseded_and_the_cut_is_counted(exclusive, process):
    exclusive.gate = in_shadow(exclusive.gate)
    old, old_upstream, _ = await admit(exclusive, process)
    new, new_upstream, _ = await admit(exclusive, process)
    await old.send_all(b"still here")
    assert await old_upstream.receive_some() == b"still here"
    assert exclusive.counts()["shadow_cuts"] == {"superseded": 1}
    await close(old, old_upstream, new, new_upstream)


async def test_what_the_shadow_lets_through_supersedes_nobody(exclusive, process):
    exclusive.gate = in_shadow(exclusive.gate)
    old, old_upstream, connection = await admit(exclusive, process)
    wrong, wrong_upstream, _ = await admit(exclusive, process, WRONG)
    assert exclusive.gate.exclusive.holder is connection
    assert "shadow_cuts" not in exclusive.counts()
    await close(old, old_upstream, wrong, wrong_upstream)


async def test_a_change_cuts_exactly_those_who_do_not_pass_any_more(house, process):
    seven, seven_upstream, _ = await admit(house, process)
    house.authority.newest = EIGHT
    eight, eight_upstream, _ = await admit(house, process, replace(CLAIM, generation=Generation(8)))
    await house.roster.decide_again()
    assert await is_reset(seven)
    assert await is_reset(seven_upstream)
    await eight.send_all(b"still here")
    assert await eight_upstream.receive_some() == b"still here"
    await close(seven, seven_upstream, eight, eight_upstream)
    await house.roster.wait_empty()
    assert house.counts()["ended"]["generation_stale"] == 1


async def test_a_drain_or_a_floor_that_cannot_be_written_cuts_nobody(house, process):
    controller, upstream, _ = await admit(house, process)
    for state in (State(draining=True), State(floor=None)):
        house.state = state
        await house.roster.decide_again()
    await controller.send_all(b"still here")
    assert await upstream.receive_some() == b"still here"
    await close(controller, upstream)


async def test_in_the_shadow_a_change_is_counted_once_and_cuts_nobody(house, process):
    house.gate = in_shadow(house.gate)
    controller, upstream, _ = await admit(house, process)
    house.authority.newest = EIGHT
    await house.roster.decide_again()
    await house.roster.decide_again()
    await controller.send_all(b"still here")
    assert await upstream.receive_some() == b"still here"
    assert house.counts()["shadow_cuts"] == {"generation_stale": 1}
    await close(controller, upstream)


async def test_a_shadow_that_has_ended_spares_nobody_any_more(house, process):
    house.gate = in_shadow(house.gate)
    right, right_upstream, _ = await admit(house, process)
    wrong, wrong_upstream, _ = await admit(house, process, replace(CLAIM, generation=Generation(6)))
    house.gate = replace(house.gate, shadow=False)
    await house.roster.decide_again()
    assert await is_reset(wrong)
    await right.send_all(b"still here")
    assert await right_upstream.receive_some() == b"still here"
    house.authority.newest = EIGHT
    await house.roster.decide_again()
    assert await is_reset(right)
    await close(right, right_upstream, wrong, wrong_upstream)


async def test_who_came_in_the_shadow_and_claims_after_it_has_ended_is_refused(house, process):
    house.gate = in_shadow(house.gate)
    controller, _, _ = await house.connect()
    async with controller:
        wrong = preface(replace(CLAIM, generation=Generation(6)), answer=True)
        await controller.send_all(wrong[:20])
        await wait_all_tasks_blocked(0.02)
        house.gate = replace(house.gate, shadow=False)
        await controller.send_all(wrong[20:])
        assert (await answer_of(controller)).verdict == "generation_stale"
    assert await process.untouched()


@pytest.mark.parametrize(
    ("sent", "reason"), [(b"GET / HTTP/1.1\r\n\r\n", "preface_missing"), (preface(WRONG), "identity_mismatch")]
)
async def test_who_passed_in_the_shadow_and_is_dialled_for_when_it_ends_is_refused(
    house, process, monkeypatch, sent, reason
):
    import sidecar.passage

    dial = sidecar.passage.connect

    async def connect_while_the_shadow_ends(address):
        stream = await dial(address)
        house.gate = replace(house.gate, shadow=False)
        return stream

    monkeypatch.setattr(sidecar.passage, "connect_now", lambda _address: None)
    monkeypatch.setattr(sidecar.passage, "connect", connect_while_the_shadow_ends)
    house.gate = in_shadow(house.gate)
    controller, _, _ = await house.connect()
    async with controller:
        await controller.send_all(sent)
        assert await receive_all(controller) == b""
    await house.roster.wait_empty()
    assert house.counts()["rejected"] == {reason: 1}
    await (await process.accept()).aclose()


async def test_what_is_too_old_admits_nobody_even_after_a_good_read(house, process):
    """The dial may have outlasted it."""
    house.authority.stale = True
    controller, _, _ = await house.connect()
    async with controller:
        await controller.send_all(preface(answer=True))
        assert (await answer_of(controller)).verdict == "authority_unavailable"


async def test_what_a_record_revokes_is_cut_though_the_floor_cannot_be_written(house, process):
    controller, upstream, _ = await admit(house, process)
    house.authority.newest, house.state = EIGHT, State(floor=None)
    await house.roster.decide_again()
    assert await is_reset(controller)
    await close(controller, upstream)


class Floors:
    """Keeps the epochs that it was asked to keep, where it can, and when in relation to the dial."""

    def __init__(self, house, *, works=True):
        self.house, self.works = house, works
        self.raised = []
        house.require(also={Requirement.EPOCH})
        house.gate = replace(house.gate, epoch_floor=floor_that(self.raise_to))

    async def raise_to(self, epoch, *, looks=True):
        self.raised.append((epoch, looks and not has_waiting(self.house.process.listener)))
        if self.works:
            self.house.state = State(floor=Floor(None, epoch))
        return self.works


async def test_a_higher_epoch_is_kept_before_the_local_process_is_dialled(house, process):
    floors = Floors(house)
    controller, upstream, connection = await admit(house, process, named("a", epoch=5))
    assert floors.raised == [(Epoch(5), True)]
    assert connection.epoch == Epoch(5)
    await close(controller, upstream)


async def test_an_epoch_that_cannot_be_kept_admits_nobody(house, process):
    Floors(house, works=False)
    controller, _, _ = await house.connect()
    async with controller:
        await controller.send_all(preface(named("a", epoch=5), answer=True))
        assert (await answer_of(controller)).verdict == "floor_unavailable"
    assert await process.untouched()


async def test_an_epoch_that_cannot_be_kept_disturbs_nobody_on_an_exclusive_listener(exclusive, process):
    floors = Floors(exclusive)
    old, old_upstream, _ = await admit(exclusive, process, named("a", epoch=5))
    floors.works = False
    controller, _, _ = await exclusive.connect()
    async with controller:
        await controller.send_all(preface(named("a", epoch=6), answer=True))
        assert (await answer_of(controller)).verdict == "floor_unavailable"
    await old.send_all(b"still here")
    assert await old_upstream.receive_some() == b"still here"
    await close(old, old_upstream)


async def test_an_epoch_whose_keeping_hangs_is_given_up_with_the_budget_and_the_turn_goes_on(
    exclusive, process, patient_clock
):
    Floors(exclusive)

    async def hang(epoch):
        await trio.sleep_forever()

    exclusive.gate = replace(exclusive.gate, epoch_floor=floor_that(hang))
    controller, _, _ = await exclusive.connect()
    began = trio.current_time()
    async with controller:
        await controller.send_all(preface(named("a", epoch=6), answer=True))
        assert (await answer_of(controller)).verdict == "floor_unavailable"
    assert trio.current_time() - began == pytest.approx(5, abs=0.5)
    assert exclusive.gate.exclusive.turn.value == 1


async def test_an_epoch_that_is_not_required_raises_nothing(house, process):
    floors = Floors(house)
    house.require(without={Requirement.EPOCH})
    controller, upstream, _ = await admit(house, process, named("a", epoch=5))
    assert floors.raised == []
    await close(controller, upstream)


async def test_the_local_process_is_told_who_dials_and_which_life_this_is(house, process):
    house.gate = replace(house.gate, send_proxy=True)
    controller, upstream, _ = await admit(house, process, named("a", epoch=5))
    async with controller, upstream:
        await controller.send_all(b"PING")
        await controller.send_eof()
        data = await receive_all(upstream)
        header = read_header(data)
        assert data[header.length :] == b"PING"
        told = read_claim(header.tlvs)
        assert (told.identity, told.generation, told.instance) == (OWN, Generation(7), U1)
        assert told.controller == ControllerName("a")
        assert told.epoch is None, "an epoch that nobody checked is hearsay"
        assert str(header.source) == "127.0.0.1:51000"
        await upstream.send_eof()
    await house.roster.wait_empty()
    assert house.counts()["bytes_up"] == 4


async def test_of_one_that_the_shadow_let_through_the_local_process_is_told_no_name(house, process):
    house.require(also={Requirement.EPOCH})
    house.gate = replace(in_shadow(house.gate), send_proxy=True)
    rival = replace(named("rival", epoch=9), generation=Generation(6))
    controller, upstream, _ = await admit(house, process, rival)
    async with controller, upstream:
        told = read_claim(read_header(await upstream.receive_some()).tlvs)
    assert (told.identity, told.controller, told.epoch) == (OWN, None, None)


async def test_a_slot_that_names_only_its_instance_is_told_as_far_as_it_goes(house, process):
    house.require(without={Requirement.GENERATION}, given=frozenset({Requirement.INSTANCE}))
    house.gate = replace(house.gate, send_proxy=True)
    house.authority.newest = Assignment(None, U1)
    controller, upstream, _ = await admit(house, process, Claim(OWN, None, U1))
    assert str(U1).encode() in await upstream.receive_some()
    await close(controller, upstream)


@pytest.mark.parametrize(
    ("end", "cause"),
    [(End.CERTIFICATE_REVOKED, TlsFailure.CERT_REVOKED), (End.CERTIFICATE_EXPIRED, TlsFailure.CERT_EXPIRED)],
)
@pytest.mark.parametrize("shadow", [False, True])
async def test_a_certificate_that_counts_no_more_since_the_handshake_lets_nobody_in(house, process, end, cause, shadow):
    """A cut of who is here doesn't reach those who come in after it."""
    house.gate = replace(house.gate, shadow=shadow, prover=SimpleNamespace(outdated={"shown": end}.get))
    visit = Visit(house.gate, None, house.enter())
    visit.prove("session", "shown", Peer(proven=True))
    visit.handshake.receive(preface(), house.gate.state())
    assert house.roster.take_place(visit.connection)
    assert await enter(visit) == Refused(Reason.TLS_FAILED, cause)
    assert not visit.connection.admitted
    failed = "identity_sidecar_tls_handshake_failures_total"
    assert house.registry.get_sample_value(failed, {"listener": "compute", "cause": cause}) == 1
    assert "since the handshake" in visit.connection.tls_fault


async def test_one_that_counts_does(house, process):
    house.gate = replace(house.gate, prover=SimpleNamespace(outdated={"shown": None}.get))
    visit = Visit(house.gate, None, house.enter())
    visit.prove("session", "shown", Peer(proven=True))
    visit.handshake.receive(preface(), house.gate.state())
    assert house.roster.take_place(visit.connection)
    abort(await enter(visit))
    assert visit.connection.admitted
