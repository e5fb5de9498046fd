"""A connection's line in the log: what it says, whose words, and that one event is one line."""

from __future__ import annotations

import io
import json

import pytest
import trio

from sidecar.assignment import Assignment, Unavailable
from sidecar.identity import Epoch, Generation
from sidecar.journal import Journal
from sidecar.log import RefusalLog, build_logger
from sidecar.preface.claim import Malformed, ReceivedClaim
from sidecar.reasons import End, Probe, Reason, Refused
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
    assert not {"generation", "instance", "claim", "controller", "epoch", "detail"} & line.keys()


async def test_refusals_beyond_the_limit_are_counted_and_said(autojump_clock):
    house = House(per_second=3)
    for _ in range(1000):
        house.journal.refused(connection(), Refused(Reason.GENERATION_STALE))
    house.refusals.flush()
    lines = house.lines
    assert len(lines) == 4
    assert lines[-1]["suppressed"] == 997
