"""``sidecar shutdown``: one button of the admin server."""

from __future__ import annotations

import pytest

from sidecar.cli import shutdown
from sidecar.cli.admin_client import NoAdminError
from tests.admin_servers import Process, call, parsed, running


async def test_it_presses_the_button_and_says_what_happens(capsys: pytest.CaptureFixture[str]) -> None:
    process = Process()
    async with running(process) as address:
        assert await call(shutdown, "--admin", address) == 0

    assert process.buttons == ["shutdown"]
    assert capsys.readouterr().out == "shutting down\n"


def test_nobody_there_is_an_error() -> None:
    with pytest.raises(NoAdminError, match="no sidecar answers at unix:/nowhere"):
        shutdown.run(parsed(shutdown, "--admin", "unix:/nowhere"))
