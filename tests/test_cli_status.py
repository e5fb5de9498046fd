"""``sidecar status``: a summary for people, and the admin server's own words for programs."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from sidecar.cli import status
from sidecar.cli.admin_client import NoAdminError
from tests.admin_servers import Process, call, parsed, running


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
    ]


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
