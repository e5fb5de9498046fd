"""An admin server to run commands against: the real pages, over a process that tests make up."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import ModuleType

import trio

from sidecar import admin, telemetry
from sidecar.admin import ConnectionStatus, ListenerStatus, Status
from sidecar.bind import bind
from sidecar.config import HostPort, UnixPath
from sidecar.http_server import serve


class Process:
    """A process that is as ready as told, and remembers which buttons were pressed.

    Each look at its readiness uses up one of *until_ready*: what stands in the way at that look.
    """

    def __init__(self, *until_ready: Sequence[str]) -> None:
        self._until_ready = list(until_ready)
        self.buttons: list[str] = []
        self.problems: list[str] = []  # what a reload finds wrong

    def started(self) -> bool:
        return True

    def not_ready(self) -> Sequence[str]:
        return self._until_ready.pop(0) if self._until_ready else ()

    def render(self, _accept: str | None) -> tuple[bytes, str]:
        return b"", "text/plain"

    def status(self) -> Status:
        return Status(
            identity="prod-eu/replica-a/2",
            generation=7,
            instance=None,
            state="draining",
            not_ready=["draining"],
            draining=True,
            listeners=[
                ListenerStatus(
                    "compute",
                    ["0.0.0.0:7101", "[::]:7101"],
                    {"accepted": 3, "admitted": {"authority": 2}, "rejected": {"draining": 1}, "probes": {}},
                )
            ],
            connections=[
                ConnectionStatus(
                    17, "compute", "10.0.0.7:41000", "10.0.0.9:7101", {"identity": "x\x1b[2J"}, "admitted", 1.25, 10, 20
                )
            ],
        )

    def refusals(self) -> Sequence[Mapping[str, object]]:
        return [
            {
                "seconds_ago": 100.25 - number,
                "reason": "identity_mismatch",
                "listener": "compute",
                "peer": f"10.0.0.{number}:41000",
                "claim": {"identity": "prod-eu/replica-a/\x1b[2J"},
                "detail": "ordinal: expected 3, this is 2",
            }
            for number in range(6)
        ] + [{"seconds_ago": 0.2, "reason": "preface_missing", "listener": "compute"}]

    def drain(self) -> None:
        self.buttons.append("drain")

    async def reload(self) -> list[str]:
        self.buttons.append("reload")
        return self.problems

    def shutdown(self) -> None:
        self.buttons.append("shutdown")


@asynccontextmanager
async def running(
    process: Process,
    where: HostPort | UnixPath = HostPort("127.0.0.1", 0),  # noqa: B008  frozen
) -> AsyncIterator[str]:
    """The address of an admin server for *process*."""

    class Log:
        def warning(self, event: str, **fields: object) -> None:
            raise AssertionError(event, fields)

        exception = warning

    routes = admin.routes(telemetry.routes(process, process, clock=trio.current_time), process)
    async with await bind(where, what="admin.listen") as bound, trio.open_nursery() as nursery:

        async def run() -> None:
            await serve(bound.listeners, routes, log=Log(), on_accept_error=lambda error: None)

        nursery.start_soon(run)
        yield bound.addresses[0]
        nursery.cancel_scope.cancel()


def parsed(command: ModuleType, *arguments: str) -> argparse.Namespace:
    """The options that *command* reads from its *arguments*."""
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    return parser.parse_args([command.__name__.rpartition(".")[2], *arguments])


async def call(command: ModuleType, *arguments: str) -> int:
    """What *command* returns; it blocks, so it gets a thread."""
    options = parsed(command, *arguments)
    run: Callable[[argparse.Namespace], int] = options.run
    return await trio.to_thread.run_sync(run, options)
