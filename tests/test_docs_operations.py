"""docs/operations.md says what the code does: the fields of a connection's line in the log are those written."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import trio

from sidecar.assignment import Assignment
from sidecar.identity import ControllerName, Epoch, Generation
from sidecar.journal import Journal
from sidecar.log import RefusalLog, build_logger
from sidecar.preface.claim import ReceivedClaim
from sidecar.reasons import End, Probe, Reason, Refused
from sidecar.roster import Connection
from tests.house import ScriptedAuthority
from tests.names import OWN, U1, inet

DOCUMENT = (Path(__file__).resolve().parent.parent / "docs" / "operations.md").read_text()
ON_EVERY_LINE = {"timestamp", "level", "event"}


async def test_every_field_of_a_connections_line_is_listed_and_no_other() -> None:
    stream, now = io.StringIO(), [0.0]
    logger = build_logger("json", "debug", stream)
    refusals = RefusalLog(logger, per_second=1, clock=lambda: now[0], on_suppressed=lambda: None)
    journal = Journal(logger, refusals, OWN, ScriptedAuthority(Assignment(Generation(7), U1)))
    connection = Connection(4, "compute", inet("192.0.2.9", 51000), inet("127.0.0.1", 7101), trio.current_time())
    connection.claim = ReceivedClaim(OWN, Generation(7), U1, Epoch(3), ControllerName("c-1"))
    connection.claimed_source = inet("198.51.100.7", 1)
    connection.tls_fault = "what was wrong"
    for _ in range(2):  # the second has no line, so that the next one says so
        journal.refused(connection, Refused(Reason.DRAINING, "a detail"))
    journal.probe(connection, Probe.LOCAL)
    journal.admitted(connection)
    journal.ended(connection, End.IDLE)
    now[0] = 2.0
    journal.refused(connection, Refused(Reason.DRAINING, "a detail"))

    (table,) = re.findall(r"^\| field \|.*\n\|[-|]+\|\n((?:\|.*\n)+)", DOCUMENT, flags=re.MULTILINE)
    listed = {name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])}
    written = {field for line in stream.getvalue().splitlines() for field in json.loads(line)}
    assert listed == written - ON_EVERY_LINE
    assert all(f"`{field}`" in DOCUMENT for field in ON_EVERY_LINE)
