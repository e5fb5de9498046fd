"""``sidecar wait``: until ready, or until the time is over."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.testing

from sidecar.cli import wait
from sidecar.cli.wait import NotReadyError
from sidecar.config import UnixPath
from tests.admin_servers import Process, call, parsed, running


async def test_a_ready_sidecar_is_not_waited_for() -> None:
    async with running(Process()) as address:
        assert await call(wait, "--admin", address, "--timeout", "0") == 0


async def test_a_sidecar_is_waited_for_until_it_is_ready() -> None:
    async with running(Process(["assignment: pending"], ["assignment: pending"])) as address:
        assert await call(wait, "--admin", address) == 0


async def test_when_the_time_is_over_it_says_what_is_missing() -> None:
    async with running(Process(["assignment: pending", "draining"])) as address:
        with pytest.raises(NotReadyError, match=r"^not ready after 0 seconds: assignment: pending; draining$"):
            await call(wait, "--admin", address, "--timeout", "0")


def test_a_sidecar_that_isnt_there_yet_may_still_come_until_the_time_is_over() -> None:
    with pytest.raises(NotReadyError, match=r"^not ready after 0\.3 seconds: no sidecar answers at unix:/nowhere"):
        wait.run(parsed(wait, "--admin", "unix:/nowhere", "--timeout", "0.3"))


async def test_a_sidecar_that_starts_later_is_waited_for(tmp_path: Path) -> None:
    where = UnixPath(str(tmp_path / "admin.sock"))
    with trio.fail_after(10):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, wait, "--admin", str(where))
            await trio.testing.wait_all_tasks_blocked(0.05)  # it has found nobody by now
            async with running(Process(), where):
                while nursery.child_tasks:
                    await trio.testing.wait_all_tasks_blocked(0.01)


@pytest.mark.parametrize("text", ["soon", "-1", "nan"])
def test_a_time_that_is_none_is_a_mistake_in_usage(text: str) -> None:
    with pytest.raises(SystemExit):
        parsed(wait, "--timeout", text)
