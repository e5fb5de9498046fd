"""``sidecar status``: a summary for people, and the admin server's own words for programs."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import trio

from sidecar.assignment import Assignment
from sidecar.cli import status
from sidecar.cli.admin_client import NoAdminError
from sidecar.identity import ControllerName
from sidecar.journal import Journal
from sidecar.log import RefusalLog, build_logger
from sidecar.preface.claim import ReceivedClaim
from sidecar.reasons import Reason, Refused
from sidecar.roster import Connection
from tests.admin_servers import Process, call, parsed, running
from tests.house import ScriptedAuthority
from tests.names import OTHER, OWN, inet


async def test_the_summary_says_who_this_is_how_it_fares_and_who_is_here(capsys: pytest.CaptureFixture[str]) -> None:
    async with running(Process()) as address:
        assert await call(status, "--admin", address) == 0

    assert capsys.readouterr().out.splitlines() == [
        "prod-eu/replica-a/2  generation 7",
        "draining; not ready: draining",
        "",
        "compute  0.0.0.0:7101 [::]:7101",
        "  accepted 3",
        "  admitted: authority 2",
        "  rejected: draining 1",
        "",
        "id  listener  state     peer            seconds  up  down  claim",
        "17  compute   admitted  10.0.0.7:41000  1.2      10  20    identity=x\\x1b[2J",
        "",
        "refused  listener  peer            claim                               reason             detail",
        *(
            f"{100 - n}s ago  compute   10.0.0.{n}:41000  identity=prod-eu/replica-a/\\x1b[2J  identity_mismatch  "
            "ordinal: expected 3, this is 2"
            for n in range(2, 6)
        ),
        "0s ago   compute   unix            -                                   preface_missing",
    ]


async def test_where_nobody_was_refused_nothing_is_said_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    class Peaceful(Process):
        def refusals(self) -> Sequence[Mapping[str, object]]:
            return []

    async with running(Peaceful()) as address:
        assert await call(status, "--admin", address) == 0

    assert "refused" not in capsys.readouterr().out


async def test_the_refusals_of_a_real_log_can_be_shown(capsys: pytest.CaptureFixture[str]) -> None:
    class Refusing(Process):
        def refusals(self) -> Sequence[Mapping[str, object]]:
            logger = build_logger("json", "error", io.StringIO())
            refusals = RefusalLog(logger, per_second=1, clock=trio.current_time, on_suppressed=lambda: None)
            journal = Journal(logger, refusals, OWN, ScriptedAuthority(Assignment()))
            early, late = (
                Connection(number, "compute", inet("10.0.0.7", 41000), None, trio.current_time()) for number in (1, 2)
            )
            late.claim = ReceivedClaim(OTHER, controller=ControllerName("c-1"))
            journal.refused(early, Refused(Reason.PREFACE_TIMEOUT))
            journal.refused(late, Refused(Reason.IDENTITY_MISMATCH, "ordinal: expected 3, this is 2"))
            return refusals.recent()

    async with running(Refusing()) as address:
        assert await call(status, "--admin", address) == 0

    early, late = (line.split() for line in capsys.readouterr().out.splitlines()[-2:])
    assert early == ["0s", "ago", "compute", "10.0.0.7:41000", "-", "preface_timeout"]
    assert late[3:7] == ["10.0.0.7:41000", f"identity={OTHER}", "controller=c-1", "identity_mismatch"]
    assert " ".join(late[7:]) == "ordinal: expected 3, this is 2"


async def test_programs_get_json(capsys: pytest.CaptureFixture[str]) -> None:
    async with running(Process()) as address:
        assert await call(status, "--json", "--admin", address) == 0

    assert json.loads(capsys.readouterr().out)["connections"][0]["id"] == 17


def test_nobody_there_is_an_error() -> None:
    options = parsed(status, "--admin", "unix:/nowhere/admin.sock")

    with pytest.raises(NoAdminError, match=r"no sidecar answers at unix:/nowhere/admin\.sock"):
        status.run(options)


async def test_another_version_of_the_page_is_no_traceback() -> None:
    @dataclass
    class Other:
        cluster: str = "prod-eu"

    class OtherProcess(Process):
        def status(self) -> Any:
            return Other()

    async with running(OtherProcess()) as address:
        with pytest.raises(NoAdminError, match="not as a sidecar of this version"):
            await call(status, "--admin", address)
