"""One connection's whole life, over real sockets, with a scripted authority and a recording local process."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from sidecar.admission import State
from sidecar.assignment import Unavailable
from sidecar.identity import Generation
from sidecar.parting import PARTING_SECONDS
from sidecar.preface.answer import read_answer
from sidecar.preface.proxy_v2 import read_header
from sidecar.reasons import End, Probe, Reason, Refused
from sidecar.roster import Step
from sidecar.sockets import abort
from tests.house import EIGHT, SEVEN, House, ScriptedAuthority, answer_of
from tests.names import CLAIM, U2, WRONG, preface
from tests.wires import closed, is_reset, receive_all


async def test_a_right_claim_reaches_the_local_process_with_every_byte_after_it(house, process):
    controller, _, _ = await house.connect()
    async with controller:
        await controller.send_all(preface() + b"PING")
        async with await process.accept() as upstream:
            assert await upstream.receive_some() == b"PING"
            await upstream.send_all(b"PONG")
            assert await controller.receive_some() == b"PONG"
            await controller.send_eof()
            assert await upstream.receive_some() == b""
        assert await receive_all(controller) == b""
    await house.settled(("ended", End.CLIENT_CLOSED))


async def test_the_answer_comes_before_the_first_byte_of_the_local_process(house, process):
    controller, _, _ = await house.connect()
    async with controller:
        await controller.send_all(preface(answer=True))
        async with await process.accept() as upstream:
            await upstream.send_all(b"server first")
            await upstream.send_eof()
            data = await receive_all(controller)
    header = read_header(data)
    assert read_answer(header).admitted
    assert data[header.length :] == b"server first"


async def test_a_wrong_claim_gets_its_reason_and_the_local_process_nothing(house, process):
    controller, _, _ = await house.connect()
    async with controller:
        await controller.send_all(preface(WRONG, answer=True) + b"PING")
        answer = await answer_of(controller)
    assert (answer.verdict, answer.detail) == ("identity_mismatch", "ordinal: expected 3, this is 2")
    assert await process.untouched()
    assert house.authority.reads == 0
    await house.settled(("refused", Refused(Reason.IDENTITY_MISMATCH, "ordinal: expected 3, this is 2")))


@pytest.mark.parametrize(
    ("claim", "reason"),
    [
        (replace(CLAIM, generation=Generation(6)), Reason.GENERATION_STALE),
        (replace(CLAIM, generation=Generation(8)), Reason.GENERATION_AHEAD),
        (replace(CLAIM, instance=U2), Reason.INSTANCE_MISMATCH),
    ],
)
async def test_another_life_of_the_same_slot_is_refused(house, process, claim, reason):
    controller, _, _ = await house.connect()
    async with controller:
        await controller.send_all(preface(claim, answer=True))
        assert (await answer_of(controller)).verdict == reason
    assert await process.untouched()


async def test_without_a_request_for_an_answer_a_refusal_sends_not_one_byte(house):
    controller, _, _ = await house.connect()
    async with controller:
        await controller.send_all(preface(WRONG))
        assert await receive_all(controller) == b""


async def test_the_reason_survives_unread_input(house):
    controller, _, _ = await house.connect(buffers=16 * 1024)
    async with controller:
        await controller.send_all(preface(WRONG, answer=True) + bytes(256 * 1024))
        await controller.send_eof()
        assert (await answer_of(controller)).verdict == "identity_mismatch"


async def test_a_refused_peer_that_goes_on_sending_is_left_after_its_moment(house, patient_clock):
    controller, _, client = await house.connect()
    began = trio.current_time()
    async with controller:
        await controller.send_all(preface(WRONG))
        await house.settled(("refused", Refused(Reason.IDENTITY_MISMATCH, "ordinal: expected 3, this is 2")))
    assert trio.current_time() - began == pytest.approx(PARTING_SECONDS, abs=0.5)
    assert closed(client)


async def test_no_more_unread_input_is_taken_than_the_limit_says(house, patient_clock):
    house.gate = replace(house.gate, refusal_drain=1000)
    controller, _, _ = await house.connect()
    began = trio.current_time()
    async with controller:
        await controller.send_all(preface(WRONG) + bytes(8 << 10))
        assert await receive_all(controller) == b""
        await house.roster.wait_empty()
        assert trio.current_time() == began, "it didn't wait for its moment to pass"
        with pytest.raises(trio.BrokenResourceError):
            await controller.send_all(b"more")


async def test_a_probe_is_closed_in_order_and_counted_apart(house, process):
    controller, _, _ = await house.connect()
    async with controller:
        await controller.send_all(bytes.fromhex("0d0a0d0a000d0a515549540a20000000") + b"PING")
        assert await receive_all(controller) == b""
    assert await process.untouched()
    await house.settled(("probe", Probe.LOCAL))


async def test_connect_and_close_is_a_probe_and_so_is_connect_and_reset(house):
    for goodbye in (lambda stream: stream.socket.close(), lambda stream: abort(stream.socket)):
        controller, _, _ = await house.connect()
        goodbye(controller)
        await house.roster.wait_empty()
    assert house.journal.events == [("probe", Probe.CLOSED_BEFORE_PREFACE)] * 2


async def test_a_reset_within_the_preface_is_truncated(house):
    controller, _, _ = await house.connect()
    await controller.send_all(preface()[:20])
    await wait_all_tasks_blocked(0.02)
    abort(controller.socket)
    await house.settled(("refused", Refused(Reason.PREFACE_MALFORMED, "truncated")))


async def test_the_budget_is_one_and_not_one_for_each_byte(house, patient_clock):
    controller, _, _ = await house.connect()
    began = trio.current_time()

    async def trickle():
        for byte in preface():
            await controller.send_all(bytes([byte]))
            await trio.sleep(1)

    async with controller, trio.open_nursery() as nursery:
        nursery.start_soon(trickle)
        assert await receive_all(controller) == b""
        assert trio.current_time() - began == pytest.approx(5, abs=0.5)
        nursery.cancel_scope.cancel()
    await house.settled(("refused", Refused(Reason.PREFACE_TIMEOUT)))


async def test_nothing_of_the_budget_is_left_after_the_verdict(house, process, patient_clock):
    controller, _, _ = await house.connect()
    async with controller:
        await controller.send_all(preface())
        async with await process.accept() as upstream:
            await trio.sleep(1000)
            await controller.send_all(b"still here")
            assert await upstream.receive_some() == b"still here"


async def test_an_authority_that_keeps_silent_is_unavailable_after_its_own_time(house, process, patient_clock):
    house.authority.may_answer = trio.Event()
    controller, _, _ = await house.connect()
    began = trio.current_time()
    async with controller:
        await controller.send_all(preface(answer=True))
        assert (await answer_of(controller)).verdict == "authority_unavailable"
        assert trio.current_time() - began == pytest.approx(2, abs=0.5)
    assert await process.untouched()


async def test_where_the_preface_left_less_time_the_budget_ends_first(house, patient_clock):
    house.authority.may_answer = trio.Event()
    controller, _, _ = await house.connect()
    began = trio.current_time()
    async with controller:
        await trio.sleep(4.5)
        await controller.send_all(preface(answer=True))
        assert (await answer_of(controller)).verdict == "authority_unavailable"
        assert trio.current_time() - began == pytest.approx(5, abs=0.3)


async def test_an_authority_that_says_it_does_not_know_is_unavailable(house):
    house.authority.newest = Unavailable("connection refused")
    controller, _, _ = await house.connect()
    async with controller:
        await controller.send_all(preface(answer=True))
        answer = await answer_of(controller)
    assert (answer.verdict, answer.detail) == ("authority_unavailable", "connection refused")


async def test_what_changes_while_the_local_process_is_dialled_is_decided_again_before_the_answer(
    house, process, monkeypatch
):
    """Admitted at 7 must not happen after 8 is known."""
    import sidecar.passage

    dial = sidecar.passage.connect

    async def connect_while_the_assignment_moves_on(address):
        stream = await dial(address)
        house.authority.newest = EIGHT
        return stream

    monkeypatch.setattr(sidecar.passage, "connect_now", lambda _address: None)
    monkeypatch.setattr(sidecar.passage, "connect", connect_while_the_assignment_moves_on)
    controller, _, _ = await house.connect()
    async with controller:
        await controller.send_all(preface(answer=True) + b"PING")
        assert (await answer_of(controller)).verdict == "generation_stale"
        async with await process.accept() as upstream:
            assert await is_reset(upstream), "it was dialled, and got not one byte"
    await house.settled(("refused", Refused(Reason.GENERATION_STALE, "expected 7, this is 8")))
    assert house.authority.reads == 1


async def test_a_local_process_that_is_down_is_said_and_a_wrong_claim_is_told_first(house, process):
    await process.listener.aclose()
    for claim, verdict in ((CLAIM, "upstream_unavailable"), (WRONG, "identity_mismatch")):
        controller, _, _ = await house.connect()
        async with controller:
            await controller.send_all(preface(claim, answer=True))
            assert (await answer_of(controller)).verdict == verdict


async def test_when_all_places_are_taken_a_right_claim_is_told_to_retry(house, process):
    streams = []
    for _ in range(4):
        controller, _, _ = await house.connect()
        await controller.send_all(preface())
        streams += [controller, await process.accept()]
    controller, _, _ = await house.connect()
    async with controller:
        await controller.send_all(preface(answer=True))
        assert (await answer_of(controller)).verdict == "over_capacity"
    assert await process.untouched()
    for stream in streams:
        await stream.aclose()


async def test_while_draining_a_right_claim_is_refused_and_a_slow_preface_gets_a_second(house, patient_clock):
    house.state = State(draining=True)
    controller, _, _ = await house.connect()
    async with controller:
        await controller.send_all(preface(answer=True))
        assert (await answer_of(controller)).verdict == "draining"
    began = trio.current_time()
    controller, _, _ = await house.connect()
    async with controller:
        await controller.send_all(preface()[:10])
        assert await receive_all(controller) == b""
    assert trio.current_time() - began == pytest.approx(1, abs=0.3)
    await house.settled(("refused", Refused(Reason.DRAINING)), ("refused", Refused(Reason.DRAINING)))


async def test_a_cut_from_outside_resets_both_sides_and_is_counted_with_its_cause(house, process):
    controller, connection, _ = await house.connect()
    async with controller:
        await controller.send_all(preface() + b"x")
        async with await process.accept() as upstream:
            assert await upstream.receive_some() == b"x"
            assert connection.step is Step.ADMITTED
            connection.end(End.DRAIN_TIMEOUT)
            assert await is_reset(upstream)
            assert await is_reset(controller)
    await house.settled(("ended", End.DRAIN_TIMEOUT))
    assert house.counts()["ended"] == {"drain_timeout": 1}


@pytest.mark.parametrize("sent", [b"", preface()[:30]])
async def test_one_that_gives_way_is_refused_in_order(house, sent):
    controller, connection, _ = await house.connect()
    async with controller:
        await controller.send_all(sent)
        await wait_all_tasks_blocked(0.02)
        connection.end(Reason.OVER_CAPACITY)
        assert await receive_all(controller) == b""
    await house.settled(("refused", Refused(Reason.OVER_CAPACITY)))


async def test_one_that_is_ended_while_it_asks_the_authority_is_refused_with_that_reason(house):
    house.authority.may_answer = trio.Event()
    controller, connection, _ = await house.connect()
    async with controller:
        await controller.send_all(preface(answer=True))
        await wait_all_tasks_blocked(0.02)
        connection.end(Reason.DRAINING)
        assert (await answer_of(controller)).verdict == "draining"
    await house.settled(("refused", Refused(Reason.DRAINING)))


async def test_what_accept_has_decided_is_told_without_reading_a_byte(house):
    controller, _, _ = await house.connect(verdict=Refused(Reason.SOURCE_NOT_ALLOWED))
    async with controller:
        await controller.send_all(preface(answer=True))
        assert await receive_all(controller) == b""
    await house.settled(("refused", Refused(Reason.SOURCE_NOT_ALLOWED)))


class BrokenAuthority(ScriptedAuthority):
    async def read(self):
        raise ZeroDivisionError


async def test_a_fault_of_ours_is_this_connections_alone_and_the_dialler_is_told(house):
    house.gate = replace(house.gate, authority=BrokenAuthority(SEVEN))
    controller, _, _ = await house.connect()
    async with controller:
        await controller.send_all(preface(answer=True))
        assert (await answer_of(controller)).verdict == "internal_error"
    await house.roster.wait_empty()
    (fault, group), refused = house.journal.events
    assert fault == "fault"
    assert isinstance(group.exceptions[0], ZeroDivisionError)
    assert refused == ("refused", Refused(Reason.INTERNAL_ERROR))
    assert house.counts() == {"accepted": 1, "rejected": {"internal_error": 1}}


async def test_a_fault_after_the_admission_ends_the_connection_with_a_reset(house, process, monkeypatch):
    def broken_pump(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr(house.relay, "pump", broken_pump)
    controller, _, _ = await house.connect()
    async with controller:
        await controller.send_all(preface())
        async with await process.accept():
            assert await is_reset(controller)
    await house.roster.wait_empty()
    assert house.counts()["ended"] == {"internal_error": 1}


async def stages(house, process):
    """A connection in every stage of its life."""
    reading, _, _ = await house.connect()
    await reading.send_all(preface()[:20])
    admitted, _, _ = await house.connect()
    await admitted.send_all(preface())
    upstream = await process.accept()
    house.authority.may_answer = trio.Event()
    asking, _, _ = await house.connect()
    await asking.send_all(preface())
    leaving, _, _ = await house.connect()
    await leaving.send_all(preface(WRONG))
    await wait_all_tasks_blocked(0.05)
    assert [connection.step for connection in house.roster] == [
        Step.PREFACE,
        Step.ADMITTED,
        Step.AUTHORITY,
        Step.LEAVING,
    ]
    return [reading, admitted, upstream, asking, leaving]


@asynccontextmanager
async def own_nursery(process):
    async with trio.open_nursery() as nursery:
        yield House(nursery, process)


async def test_cancelling_everything_leaves_nothing_behind_at_any_stage(process):
    async with own_nursery(process) as house:
        streams = await stages(house, process)
        house.nursery.cancel_scope.cancel()
    assert len(house.roster) == 0
    for stream in streams:
        with trio.fail_after(1):
            await is_reset(stream)
        await stream.aclose()
