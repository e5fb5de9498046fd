"""The first verdict where it takes time or stands in for something: files that lag, a silent authority, the shadow."""

from __future__ import annotations

from dataclasses import replace

import pytest
import trio
from OpenSSL import SSL
from trio.testing import wait_all_tasks_blocked

from sidecar.admission import State
from sidecar.assignment import Unavailable
from sidecar.identity import Generation
from sidecar.peer_names import Rule
from sidecar.proof import Prover
from sidecar.reasons import Probe, Reason, Refused
from sidecar.spiffe import Pattern
from sidecar.tls.contexts import server_context
from sidecar.tls.peer_certificate import PeerCertificates
from sidecar.tls.rotation import Served
from sidecar.tls.stream import TlsStream
from tests.certificates import CA, CONTROLLER, now
from tests.house import EIGHT, SEVEN, answer_of
from tests.names import CLAIM, U1, U2, WRONG, preface
from tests.tls_handshakes import material, plain_client
from tests.wires import receive_all

ROOT = CA()
OWN = material(ROOT.issue(), ROOT)
SERVED = Served(OWN, server_context(OWN), PeerCertificates(OWN.roots))
STRANGER = "spiffe://example.org/other"

AHEAD = replace(CLAIM, generation=Generation(8))


def timed(house, **times):
    house.gate = replace(house.gate, times=replace(house.gate.times, **times))


async def test_a_claim_ahead_of_a_file_waits_for_it_to_catch_up(house, process, patient_clock):
    timed(house, ahead=2)
    controller, _, _ = await house.connect()
    async with controller:
        await controller.send_all(preface(AHEAD))
        await trio.sleep(1)
        house.authority.newest = EIGHT
        with trio.fail_after(0.5):
            await (await process.accept()).aclose()
    assert 5 < house.authority.reads < 20, "it looks now and then, and doesn't spin"


async def test_a_claim_that_stays_ahead_is_refused_after_its_wait(house, process, patient_clock):
    timed(house, ahead=2)
    controller, _, _ = await house.connect()
    began = trio.current_time()
    async with controller:
        await controller.send_all(preface(AHEAD, answer=True))
        assert (await answer_of(controller)).verdict == "generation_ahead"
    assert trio.current_time() - began == pytest.approx(2, abs=0.3)


async def test_a_budget_that_ends_within_that_wait_leaves_its_reason(house, patient_clock):
    timed(house, ahead=60)
    controller, _, _ = await house.connect()
    began = trio.current_time()
    async with controller:
        await controller.send_all(preface(AHEAD, answer=True))
        assert (await answer_of(controller)).verdict == "generation_ahead"
    assert trio.current_time() - began == pytest.approx(5, abs=0.3)


async def test_without_such_a_wait_it_is_refused_at_once(house):
    controller, _, _ = await house.connect()
    async with controller:
        await controller.send_all(preface(AHEAD, answer=True))
        assert (await answer_of(controller)).verdict == "generation_ahead"
    assert house.authority.reads == 1


class Silent:
    """Makes the authority silent after it has said seven."""

    def __init__(self, house, remembered):
        house.authority.remembered = remembered
        self._reading = Unavailable("down")
        house.authority.read = self._read

    async def _read(self):
        await trio.lowlevel.checkpoint()
        return self._reading


async def test_the_last_known_assignment_admits_a_claim_that_equals_it(house, process):
    Silent(house, SEVEN)
    controller, _, _ = await house.connect()
    async with controller:
        await controller.send_all(preface())
        await (await process.accept()).aclose()
    await house.roster.wait_empty()
    assert house.counts()["admitted"] == {"last_known": 1}


@pytest.mark.parametrize("claim", [replace(CLAIM, generation=Generation(6)), replace(CLAIM, instance=U2), AHEAD])
async def test_the_last_known_assignment_never_refuses(house, process, claim):
    """What differs from a memory differs from nothing that is known to hold."""
    Silent(house, SEVEN)
    controller, _, _ = await house.connect()
    async with controller:
        await controller.send_all(preface(claim, answer=True))
        assert (await answer_of(controller)).verdict == "authority_unavailable"
    assert await process.untouched()


async def test_a_higher_generation_makes_it_forget(house, process):
    Silent(house, SEVEN)
    for claim, verdict in ((AHEAD, "authority_unavailable"), (CLAIM, "authority_unavailable")):
        controller, _, _ = await house.connect()
        async with controller:
            await controller.send_all(preface(claim, answer=True))
            assert (await answer_of(controller)).verdict == verdict
    assert house.authority.remembered is None


async def test_without_a_memory_a_silent_authority_admits_nobody(house, process):
    Silent(house, None)
    controller, _, _ = await house.connect()
    async with controller:
        await controller.send_all(preface(answer=True))
        assert (await answer_of(controller)).verdict == "authority_unavailable"


@pytest.fixture
def shadow(house):
    house.gate = replace(house.gate, shadow=True, times=replace(house.gate.times, shadow=0.25))
    return house


def shadowed(house):
    return [event for event in house.journal.events if event[0] == "shadowed"]


async def test_in_the_shadow_a_wrong_claim_is_counted_and_let_through(shadow, process):
    controller, _, _ = await shadow.connect()
    async with controller:
        await controller.send_all(preface(WRONG, answer=True) + b"PING")
        async with await process.accept() as upstream:
            assert await upstream.receive_some() == b"PING"
            await upstream.send_eof()
            answer = await answer_of(controller)
    assert (answer.verdict, str(answer.identity), answer.instance) == ("admitted", "prod-eu/replica-a/2", U1)
    await shadow.roster.wait_empty()
    counts = shadow.counts()
    assert counts["admitted"] == {"shadow": 1}
    assert counts["shadow_rejected"] == {"identity_mismatch": 1}
    assert "rejected" not in counts
    assert shadowed(shadow) == [("shadowed", Refused(Reason.IDENTITY_MISMATCH, "ordinal: expected 3, this is 2"))]


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "preface_missing"),
        (b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nPING", "preface_malformed"),
        (b"\r\n\r\n\0\r\nQUIT\x0bPING", "preface_malformed"),
        (b"PRO", "preface_malformed"),
    ],
)
async def test_in_the_shadow_a_client_without_a_preface_is_let_through_with_every_byte(shadow, process, sent, reason):
    controller, _, _ = await shadow.connect()
    async with controller:
        await controller.send_all(sent)
        if sent == b"PRO":  # an end within a preface: what it would have been can't be known
            await controller.send_eof()
            assert await receive_all(controller) == b""
            assert await process.untouched()
            return
        await controller.send_eof()
        async with await process.accept() as upstream:
            assert await receive_all(upstream) == sent
    await shadow.roster.wait_empty()
    assert shadow.counts()["shadow_rejected"] == {reason: 1}


async def test_in_the_shadow_a_client_that_waits_for_the_server_to_speak_is_let_through(shadow, process, patient_clock):
    controller, _, _ = await shadow.connect()
    began = trio.current_time()
    async with controller, await process.accept() as upstream:
        assert trio.current_time() - began == pytest.approx(0.25, abs=0.1)
        await upstream.send_all(b"220 ready")
        assert await controller.receive_some() == b"220 ready"
        await controller.send_all(b"late")
        assert await upstream.receive_some() == b"late"
    await shadow.roster.wait_empty()
    assert shadow.counts()["shadow_rejected"] == {"preface_missing": 1}


@pytest.mark.parametrize("sent", [preface()[:20], bytes.fromhex("0d0a0d0a000d0a515549540a311100")])
async def test_in_the_shadow_a_preface_that_was_begun_is_waited_for_and_refused_as_ever(shadow, process, sent):
    controller, _, _ = await shadow.connect()
    async with controller:
        await controller.send_all(sent)
        await controller.send_eof()
        assert await receive_all(controller) == b""
    await shadow.roster.wait_empty()
    assert shadow.counts()["rejected"] == {"preface_malformed": 1}
    assert await process.untouched()


async def test_in_a_drain_the_shadow_lets_nobody_through(shadow, process):
    shadow.state = State(draining=True)
    controller, _, _ = await shadow.connect()
    async with controller:
        await controller.send_all(b"GET / HTTP/1.1\r\n\r\n")
        assert await receive_all(controller) == b""
    assert await process.untouched()
    await shadow.roster.wait_empty()
    assert shadow.counts()["rejected"] == {"preface_missing": 1}, "the row above the drain's"
    assert "shadow_rejected" not in shadow.counts()


async def test_in_the_shadow_a_right_claim_is_admitted_as_ever(shadow, process):
    controller, _, _ = await shadow.connect()
    async with controller:
        await controller.send_all(preface())
        await (await process.accept()).aclose()
    await shadow.roster.wait_empty()
    assert shadow.counts()["admitted"] == {"authority": 1}
    assert shadowed(shadow) == []


async def test_the_shadow_takes_no_place_beyond_the_limit(shadow, process):
    streams = []
    for _ in range(4):
        controller, _, _ = await shadow.connect()
        await controller.send_all(preface(WRONG))
        streams += [controller, await process.accept()]
    controller, _, _ = await shadow.connect()
    async with controller:
        await controller.send_all(preface(WRONG, answer=True))
        assert (await answer_of(controller)).verdict == "over_capacity"
    for stream in streams:
        await stream.aclose()
    await wait_all_tasks_blocked()


async def test_the_shadow_of_an_authority_that_is_down_is_let_through_too(shadow, process):
    shadow.authority.newest = Unavailable("down")
    controller, _, _ = await shadow.connect()
    async with controller:
        await controller.send_all(preface())
        await (await process.accept()).aclose()
    await shadow.roster.wait_empty()
    assert shadow.counts()["shadow_rejected"] == {"authority_unavailable": 1}


@pytest.fixture
def tls(house):
    rule = Rule(allow=(Pattern.parse("spiffe://example.org/prod-eu/controller/*"),))
    house.served = SERVED
    prover = Prover(lambda: house.served, rule, now, ends_with_certificate=False)
    house.gate = replace(house.gate, prover=prover)
    return house


async def shaken(house, uri=CONTROLLER):
    """A controller that has shown a certificate with this name."""
    controller, connection, _ = await house.connect()
    stream = TlsStream(controller, SSL.Connection(plain_client(ROOT.issue(uris=(uri,)))))
    with trio.fail_after(5):
        await stream.do_handshake()
    return stream, connection


def failures(house):
    """The handshakes that failed, by cause."""
    name = "identity_sidecar_tls_handshake_failures_total"
    samples = (each for family in house.registry.collect() for each in family.samples if each.name == name)
    return {each.labels["cause"]: int(each.value) for each in samples if each.value}


async def test_a_claim_is_read_through_tls(tls, process):
    controller, connection = await shaken(tls)
    async with controller:
        await controller.send_all(preface() + b"PING")
        async with await process.accept() as upstream:
            assert await upstream.receive_some(4) == b"PING"
            assert connection.controller is not None
            assert str(connection.controller) == "c1"
            await controller.send_eof()
            assert await upstream.receive_some() == b""
    await tls.roster.wait_empty()


async def test_who_goes_before_the_first_byte_of_tls_is_a_probe(tls):
    controller, _, _ = await tls.connect()
    await controller.aclose()
    await tls.settled(("probe", Probe.CLOSED_BEFORE_PREFACE))
    assert failures(tls) == {}


@pytest.mark.parametrize(("sent", "cause"), [(preface(), "protocol"), (b"\x16\x03\x01", "eof")])
async def test_what_is_no_handshake_is_counted_by_its_cause_and_has_words_for_people(tls, process, sent, cause):
    controller, connection, _ = await tls.connect()
    await controller.send_all(sent)
    await controller.send_eof()
    await tls.settled(("refused", Refused(Reason.TLS_FAILED, cause)))
    await controller.aclose()
    assert failures(tls) == {cause: 1}
    assert connection.tls_fault
    assert await process.untouched()


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01"])
async def test_a_handshake_has_the_budget_of_the_preface_and_no_longer(tls, patient_clock, sent):
    began = trio.current_time()
    controller, _, _ = await tls.connect()
    async with controller:
        await controller.send_all(sent)
        assert await receive_all(controller) == b""
        await controller.send_eof()
        assert trio.current_time() - began == pytest.approx(5, abs=0.5)
    await tls.settled(("refused", Refused(Reason.TLS_FAILED, "timeout")))
    assert failures(tls) == {"timeout": 1}


async def test_in_a_drain_it_has_a_moment_and_fails_of_the_drain(tls, patient_clock):
    tls.state = State(draining=True)
    began = trio.current_time()
    controller, _, _ = await tls.connect()
    async with controller:
        assert await receive_all(controller) == b""
        assert trio.current_time() - began == pytest.approx(1, abs=0.5)
    await tls.settled(("refused", Refused(Reason.DRAINING)))
    assert failures(tls) == {}


async def test_with_nothing_in_date_to_show_nobody_gets_in(tls):
    tls.served = None
    controller, connection, _ = await tls.connect()
    async with controller:
        assert await receive_all(controller) == b""
    await tls.settled(("refused", Refused(Reason.TLS_FAILED, "cert_not_yet_valid")))
    assert "this side's own" in connection.tls_fault


async def test_a_name_that_isnt_allowed_is_told_so_in_the_answer(tls, process):
    controller, _ = await shaken(tls, STRANGER)
    async with controller:
        await controller.send_all(preface(answer=True))
        assert (await answer_of(controller)).verdict == "peer_not_allowed"
    assert await process.untouched()


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\n\r\n", b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\nPING", b""])
async def test_the_shadow_lets_no_stranger_in_without_a_preface(tls, process, patient_clock, sent):
    tls.gate = replace(tls.gate, shadow=True, times=replace(tls.gate.times, shadow=0.25))
    controller, _ = await shaken(tls, STRANGER)
    async with controller:
        await controller.send_all(sent)
        with trio.fail_after(5):
            assert await receive_all(controller) == b""
    await tls.roster.wait_empty()
    assert tls.counts()["rejected"] == {"peer_not_allowed": 1}
    assert "shadow_rejected" not in tls.counts()
    assert await process.untouched()


async def test_the_shadow_lets_an_allowed_one_in_without_a_preface(tls, process):
    tls.gate = replace(tls.gate, shadow=True, times=replace(tls.gate.times, shadow=0.25))
    controller, _ = await shaken(tls)
    async with controller:
        await controller.send_all(b"GET / HTTP/1.1\r\n\r\n")
        async with await process.accept() as upstream:
            assert await upstream.receive_some() == b"GET / HTTP/1.1\r\n\r\n"
    await tls.roster.wait_empty()
    assert tls.counts()["shadow_rejected"] == {"preface_missing": 1}


@pytest.mark.parametrize(
    ("sent", "reason"), [(b"GET / HTTP/1.1\r\n\r\n", "preface_missing"), (b"PROX", "preface_malformed")]
)
async def test_where_no_shadow_is_a_stranger_without_a_preface_is_refused_by_the_row_above(tls, process, sent, reason):
    controller, _ = await shaken(tls, STRANGER)
    async with controller:
        await controller.send_all(sent)
        await controller.send_eof()
        assert await receive_all(controller) == b""
    await tls.roster.wait_empty()
    assert list(tls.counts()["rejected"]) == [reason]
    assert await process.untouched()
