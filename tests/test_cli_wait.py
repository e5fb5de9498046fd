"""``sidecar wait``: until ready, or until the time is over."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.testing

from sidecar.cli import wait
from sidecar.cli.wait import NotReadyError
from sidecar.config import UnixPath
from sidecar.metrics import State
from tests.admin_servers import Process, call, parsed, running


async def test_a_ready_sidecar_is_not_waited_for() -> None:
    async with running(Process()) as address:
        assert await call(wait, "--admin", address, "--timeout", "0") == 0


async def test_a_sidecar_is_waited_for_until_it_is_ready() -> None:
    async with running(Process(["assignment: pending"], ["assignment: pending"])) as address:
        assert await call(wait, "--admin", address) == 0


async def test_when_the_time_is_over_it_says_what_is_missing() -> None:
    async with running(Process(["listeners: pending", "assignment: pending"])) as address:
        with pytest.raises(
            NotReadyError, match=r"^not ready after 0 seconds: listeners: pending; assignment: pending$"
        ):
            await call(wait, "--admin", address, "--timeout", "0")


@pytest.mark.parametrize("state", [State.DRAINING, State.STOPPING])
async def test_a_sidecar_that_is_on_its_way_out_is_not_waited_for(state: State) -> None:
    async with running(Process([state, "assignment: pending"])) as address:
        with pytest.raises(NotReadyError, match=f"^it is {state}, and won't be ready again until it is restarted$"):
            await call(wait, "--admin", address)


async def test_what_a_stranger_lacks_is_escaped_and_shortened() -> None:
    async with running(Process(["\x1b[2J" + "x" * 5000])) as address:
        with pytest.raises(NotReadyError) as caught:
            await call(wait, "--admin", address, "--timeout", "0")
    assert str(caught.value) == rf"not ready after 0 seconds: \x1b[2J{'x' * 390}..."


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
