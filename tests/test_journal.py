"""A connection's line in the log: what it says, whose words, and that one event is one line."""

from __future__ import annotations

import gc
import io
import json
import weakref

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from sidecar.assignment import Assignment, Unassigned, Unavailable
from sidecar.identity import ControllerName, Epoch, Generation, Instance
from sidecar.journal import Journal
from sidecar.log import RefusalLog, build_logger, to_json
from sidecar.preface.address import UnixAddress
from sidecar.preface.claim import Malformed, ReceivedClaim
from sidecar.reasons import End, Probe, Reason, Refused
from sidecar.relay import Traffic
from sidecar.roster import Connection
from tests.names import OTHER, OWN, U1, inet


class Known:
    """An authority of which only the newest reading is asked."""

    def __init__(self, newest):
        self.newest = newest


class House:
    def __init__(self, *, level="info", form="json", per_second=10, reading=Assignment(Generation(7), U1)):  # noqa: B008
        self.stream = io.StringIO()
        logger = build_logger(form, level, self.stream)
        refusals = RefusalLog(logger, per_second=per_second, clock=trio.current_time, on_suppressed=lambda: None)
        self.refusals = refusals
        self.journal = Journal(logger, refusals, OWN, Known(reading))

    @property
    def lines(self):
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def refusals_without_age(self):
        return [{k: v for k, v in each.items() if k != "seconds_ago"} for each in self.refusals.recent()]


def connection(claim=None):
    each = Connection(4, "compute", inet("192.0.2.9", 51000), inet("127.0.0.1", 7101), trio.current_time())
    each.claim = claim
    each.claimed_source = inet("198.51.100.7", 1)
    return each


async def test_a_refusal_says_both_sides_and_both_addresses_in_one_line(mock_clock):
    house = House()
    claim = ReceivedClaim(OTHER, Generation(7), U1, Epoch(5))
    house.journal.refused(connection(claim), Refused(Reason.IDENTITY_MISMATCH, "ordinal: expected 3, this is 2"))
    (line,) = house.lines
    del line["timestamp"]
    assert line == {
        "level": "info",
        "event": "connection_refused",
        "reason": "identity_mismatch",
        "detail": "ordinal: expected 3, this is 2",
        "advice": "re-resolve",
        "listener": "compute",
        "connection": 4,
        "peer": "192.0.2.9:51000",
        "local": "127.0.0.1:7101",
        "claimed_source": "198.51.100.7:1",
        "claim": {"identity": "prod-eu/replica-a/3", "generation": "7", "instance": str(U1)},
        "own": "prod-eu/replica-a/2",
        "generation": "7",
        "instance": str(U1),
        "epoch": "5",
        "seconds": 0.0,
    }


async def test_a_handshake_that_failed_says_what_was_wrong_for_people():
    house = House()
    each = connection()
    each.tls_fault = "depth 0: CN=c1: valid until 2024-01-01T00:00:00Z"
    house.journal.refused(each, Refused(Reason.TLS_FAILED, "cert_expired"))
    (line,) = house.lines
    assert (line["reason"], line["detail"], line["tls"]) == ("tls_failed", "cert_expired", each.tls_fault)
    (remembered,) = house.refusals_without_age()
    assert remembered["tls"] == each.tls_fault


@pytest.mark.parametrize("form", ["json", "text"])
async def test_control_bytes_in_a_claim_stay_within_their_line(form):
    house = House(form=form)
    claim = ReceivedClaim(Malformed(b"a\r\nevent=admitted\x1b[2J\0\xff", "has bytes outside ASCII"))
    house.journal.refused(connection(claim), Refused(Reason.IDENTITY_MALFORMED, "has bytes outside ASCII"))
    text = house.stream.getvalue()
    assert text.count("\n") == 1
    assert all(character == "\n" or character.isprintable() for character in text)


async def test_an_end_says_what_went_through(mock_clock):
    house = House()
    each = connection(ReceivedClaim(OWN))
    each.traffic.up, each.traffic.down = 10, 20
    house.journal.ended(each, End.CLIENT_CLOSED)
    (line,) = house.lines
    assert (line["event"], line["end"]) == ("connection_ended", "client_closed")
    assert (line["bytes_up"], line["bytes_down"]) == (10, 20)


async def test_probes_and_admissions_are_for_those_who_debug():
    for level, lines in (("info", 0), ("debug", 2)):
        house = House(level=level)
        house.journal.probe(connection(), Probe.LOCAL)
        house.journal.admitted(connection(ReceivedClaim(OWN)))
        assert len(house.lines) == lines


async def test_a_fault_carries_its_traceback():
    house = House()
    try:
        raise ZeroDivisionError("here")
    except ZeroDivisionError as error:
        house.journal.fault(connection(), error)
    (line,) = house.lines
    assert (line["level"], line["event"], line["step"]) == ("error", "internal_error", "preface")
    assert "test_journal.py" in line["exception"]


async def test_what_is_not_known_is_left_out():
    house = House(reading=Unavailable("down"))
    house.journal.refused(connection(), Refused(Reason.PREFACE_TIMEOUT))
    (line,) = house.lines
    assert not {"generation", "instance", "claim", "controller", "epoch", "detail", "tls"} & line.keys()


async def test_refusals_beyond_the_limit_are_counted_and_said(autojump_clock):
    house = House(per_second=3)
    for _ in range(1000):
        house.journal.refused(connection(), Refused(Reason.GENERATION_STALE))
    house.refusals.flush()
    lines = house.lines
    assert len(lines) == 4
    assert lines[-1]["suppressed"] == 997


# The fields are written as JSON directly. This is what they are as values.


def fields_of(each, newest):
    claimed = each.claim.as_text() if each.claim is not None else {}
    controller, epoch = claimed.pop("controller", None), claimed.pop("epoch", None)
    own = newest if isinstance(newest, Assignment) else Assignment()
    return {
        "listener": each.listener,
        "connection": each.id,
        "peer": each.peer,
        "local": each.local,
        "claimed_source": each.claimed_source,
        "claim": claimed or None,
        "own": OWN,
        "generation": own.generation,
        "instance": own.instance,
        "controller": controller,
        "epoch": epoch,
        "seconds": round(trio.current_time() - each.accepted_at, 6),
    }


tokens = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=128)
malformed = st.builds(Malformed, st.binary(max_size=200), st.just("is wrong"))
claims = st.builds(
    ReceivedClaim,
    st.sampled_from([None, OWN]) | malformed,
    st.sampled_from([None, Generation(7)]) | malformed,
    st.none() | st.builds(Instance, tokens) | malformed,
    st.sampled_from([None, Epoch(5)]) | malformed,
    st.none() | st.builds(ControllerName, tokens) | malformed,
)
readings = st.builds(Assignment, st.sampled_from([None, Generation(7)]), st.none() | st.builds(Instance, tokens))
ends = st.sampled_from([None, inet("192.0.2.9", 51000), inet("2001:db8::1", 1), inet('fe80::1%a"b', 1)])
sources = ends | st.builds(UnixAddress, st.binary(max_size=100).filter(lambda path: not path.endswith(b"\0")))


@given(
    listener=st.text(max_size=20),
    peers=st.tuples(ends, ends),
    source=sources,
    claim=st.none() | claims,
    newest=readings | st.just(Unassigned(pending=True)),
    age=st.floats(0, 1e6),
    traffic=st.tuples(st.integers(0, 2**64), st.integers(0, 2**64)),
)
def test_a_line_is_what_its_values_would_make(listener, peers, source, claim, newest, age, traffic):
    async def ended_and_refused():
        house = House(reading=newest)
        each = Connection(4, listener, *peers, trio.current_time() - age)
        each.claim, each.claimed_source, each.traffic = claim, source, Traffic(*traffic)
        known = fields_of(each, newest)
        house.journal.ended(each, End.IDLE)
        house.journal.refused(each, Refused(Reason.FENCED, "expired"))
        return known, house.stream.getvalue().splitlines(), house.refusals_without_age()

    known, lines, (remembered,) = trio.run(ended_and_refused, clock=trio.testing.MockClock())
    moved = {"bytes_up": traffic[0], "bytes_down": traffic[1]}
    why = {"reason": Reason.FENCED, "detail": "expired", "advice": "re-resolve"}
    expected = [
        {"level": "info", "event": "connection_ended", "end": End.IDLE, **known, **moved},
        {"level": "info", "event": "connection_refused", **why, **known},
    ]
    assert [line[line.index('"level"') :] for line in lines] == [
        to_json({k: v for k, v in each.items() if v is not None})[1:] for each in expected
    ]
    assert to_json(remembered) == to_json({k: v for k, v in (why | known).items() if v is not None})


async def test_a_refusal_that_left_no_line_is_remembered_as_it_was_then(mock_clock):
    house = House(per_second=0)
    each = connection(ReceivedClaim(OWN, Generation(7)))
    mock_clock.jump(0.5)
    house.journal.refused(each, Refused(Reason.FENCED))
    each.claim = None
    house.journal.authority.newest = Unavailable("down")
    mock_clock.jump(60)
    (remembered,) = house.refusals_without_age()
    assert (remembered["seconds"], remembered["generation"]) == (0.5, "7")
    assert remembered["claim"] == {"identity": str(OWN), "generation": "7"}


async def test_the_memory_of_a_refusal_keeps_no_connection_alive():
    house = House(per_second=0)
    each = connection(ReceivedClaim(OWN))
    each.recheck = lambda: None
    alive = weakref.ref(each.recheck)
    house.journal.refused(each, Refused(Reason.FENCED))
    del each
    gc.collect()
    assert alive() is None
