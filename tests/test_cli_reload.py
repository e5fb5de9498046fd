"""``sidecar reload``: in effect, or refused with every reason."""

from __future__ import annotations

import pytest

from sidecar.cli import reload
from sidecar.cli.admin_client import NoAdminError
from tests.admin_servers import Process, call, parsed, running


async def test_it_says_that_the_configuration_is_in_effect(capsys: pytest.CaptureFixture[str]) -> None:
    process = Process()
    async with running(process) as address:
        assert await call(reload, "--admin", address) == 0

    assert process.buttons == ["reload"]
    assert capsys.readouterr().out == "reloaded\n"


async def test_a_configuration_that_is_refused_is_said_with_every_reason_a_line_each(
    capsys: pytest.CaptureFixture[str],
) -> None:
    process = Process()
    process.problems = ["sidecar.yaml:3:1: identity: is missing", "identity can't be changed by a reload\x1b[2J"]
    async with running(process) as address:
        assert await call(reload, "--admin", address) == 1

    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.splitlines() == [
        "sidecar.yaml:3:1: identity: is missing",
        r"identity can't be changed by a reload\x1b[2J",
    ]


def test_nobody_there_is_an_error() -> None:
    with pytest.raises(NoAdminError, match="no sidecar answers at unix:/nowhere"):
        reload.run(parsed(reload, "--admin", "unix:/nowhere"))
