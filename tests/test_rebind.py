"""A Unix listener whose file is removed comes back at its path; whatever else stands there is left alone."""

from __future__ import annotations

import io
import itertools
import json
import socket
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing

from sidecar.bind import Bound, bind
from sidecar.config import HostPort, UnixPath
from sidecar.errors import StartError
from sidecar.log import build_logger
from sidecar.rebind import LOOK_SECONDS, SAY_AGAIN_SECONDS, Door

WHAT = "listeners.compute.listen"


@pytest.fixture
def quick_clock(mock_clock):
    """A clock that runs fast. One that jumps would do so while a thread binds a path."""
    mock_clock.rate = 200
    return mock_clock


class House:
    """A door at *address*, whose visitors get a byte, and what it logs."""

    def __init__(self, bound, address):
        self.first = bound
        self.stream = io.StringIO()
        again = partial(bind, address, what=WHAT, mode=0o660, clear_left_over=False)
        self.logger = build_logger("json", "info", self.stream)
        self.door = Door(bound, again, listener="compute", logger=self.logger)

    @property
    def said(self):
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    async def wait_said(self, event, *, times=1):
        with trio.fail_after(2000):
            while [line["event"] for line in self.said].count(event) < times:
                await trio.sleep(0.5)

    async def accept(self, listening):
        while True:
            async with await listening.accept() as stream:
                await stream.send_all(b"x")


@asynccontextmanager
async def house(address):
    """One that serves, and is closed at the end."""
    one = House(await bind(address, what=WHAT, mode=0o660), address)
    async with one.door, trio.open_nursery() as nursery:
        nursery.start_soon(one.door.serve, one.accept)
        yield one
        nursery.cancel_scope.cancel()


async def is_served(path: Path) -> bool:
    async with await trio.open_unix_socket(path) as client:
        return await client.receive_some(1) == b"x"


async def test_a_listener_whose_file_was_removed_is_bound_again(tmp_path, quick_clock):
    path = tmp_path / "compute.sock"
    async with house(UnixPath(str(path))) as one:
        assert await is_served(path)
        before = one.door.listeners
        path.unlink()
        await one.wait_said("listening_again")
        assert await is_served(path)
        await trio.testing.wait_all_tasks_blocked()
        assert path.stat().st_mode & 0o777 == 0o660
        assert one.door.listeners != before
        assert [each.socket.fileno() for each in before] == [-1], "the socket that nobody finds any more is closed"
        assert one.door.addresses == (f"unix:{path}",)
        (line,) = one.said
        assert (line["level"], line["listener"], line["addresses"]) == ("warning", "compute", [f"unix:{path}"])
    assert not path.exists()


async def test_it_is_bound_again_every_time(tmp_path, quick_clock):
    path = tmp_path / "compute.sock"
    async with house(UnixPath(str(path))) as one:
        for times in range(1, 4):
            path.unlink()
            await one.wait_said("listening_again", times=times)
            assert await is_served(path)


async def test_connections_that_were_accepted_live_on(tmp_path, quick_clock):
    path = tmp_path / "compute.sock"
    held = []
    one = House(await bind(UnixPath(str(path)), what=WHAT), UnixPath(str(path)))

    async def hold(listening):
        while True:
            held.append(await listening.accept())

    async with one.door, trio.open_nursery() as nursery:
        nursery.start_soon(one.door.serve, hold)
        async with await trio.open_unix_socket(path) as client:
            await trio.testing.wait_all_tasks_blocked()
            path.unlink()
            await one.wait_said("listening_again")
            async with held[0] as server:
                await server.send_all(b"x")
                assert await client.receive_some(1) == b"x"
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("kind", ["file", "live socket", "dead socket"])
async def test_what_somebody_else_put_there_is_left_alone_until_it_has_gone(tmp_path, autojump_clock, kind):
    path = tmp_path / "compute.sock"
    async with house(UnixPath(str(path))) as one:
        path.unlink()
        with socket.socket(socket.AF_UNIX) as stranger:
            if kind == "file":
                path.write_text("data")
            else:
                stranger.bind(str(path))
                stranger.listen()
            if kind == "dead socket":
                stranger.close()
            there = path.stat().st_ino
            await one.wait_said("listener_unreachable", times=2)
            assert path.stat().st_ino == there
            error = one.said[0]
            assert (error["level"], error["listener"]) == ("error", "compute")
            assert str(path) in error["error"]
            if kind == "live socket":
                stranger.settimeout(0)
                with pytest.raises(BlockingIOError):
                    stranger.accept()  # nobody knocked to see who it is
        path.unlink()
        await one.wait_said("listening_again")
        assert await is_served(path)


async def test_what_is_in_the_way_is_told_once_a_minute_and_looked_at_more_often(tmp_path, autojump_clock):
    path = tmp_path / "compute.sock"
    one = House(await bind(UnixPath(str(path)), what=WHAT), UnixPath(str(path)))
    attempts = []

    async def bind_again():
        attempts.append(trio.current_time())
        raise StartError("in the way")

    one.door = Door(one.first, bind_again, listener="compute", logger=one.logger)
    path.unlink()
    begun = trio.current_time()
    async with one.door:
        with trio.move_on_after(2.5 * SAY_AGAIN_SECONDS):
            await one.door.serve(one.accept)
    assert [line["event"] for line in one.said] == ["listener_unreachable"] * 3
    assert attempts[0] - begun <= 10
    assert max(later - earlier for earlier, later in itertools.pairwise(attempts)) <= 10


async def test_a_folder_that_was_removed_is_waited_for(tmp_path, quick_clock):
    folder = tmp_path / "volume"
    folder.mkdir()
    path = folder / "compute.sock"
    async with house(UnixPath(str(path))) as one:
        path.unlink()
        folder.rmdir()
        await one.wait_said("listener_unreachable")
        folder.mkdir()
        await one.wait_said("listening_again")
        assert await is_served(path)


async def test_a_file_that_is_put_back_serves_as_before(tmp_path, quick_clock):
    path = tmp_path / "compute.sock"
    async with house(UnixPath(str(path))) as one:
        path.rename(tmp_path / "aside")
        path.write_text("data")
        await one.wait_said("listener_unreachable")
        (tmp_path / "aside").replace(path)
        await trio.sleep(3 * SAY_AGAIN_SECONDS)
        assert [line["event"] for line in one.said] == ["listener_unreachable"]
        assert one.door.listeners == one.first.listeners
        assert await is_served(path)


async def test_closing_leaves_what_somebody_else_put_there(tmp_path, quick_clock):
    path = tmp_path / "compute.sock"
    async with house(UnixPath(str(path))):
        path.unlink()
        path.write_text("data")
    assert path.read_text() == "data"


async def test_a_tcp_listener_stays_as_it_is(quick_clock):
    async with house(HostPort(None, 0)) as one:
        await trio.sleep(10 * LOOK_SECONDS)
        assert one.door.listeners == one.first.listeners
        assert len(one.door.listeners) == 2
        assert one.said == []


async def test_an_end_while_it_is_bound_again_leaves_no_socket_open(tmp_path, quick_clock):
    """The accept loop doesn't stop at once, and the end comes while it is waited for."""
    path = tmp_path / "compute.sock"
    one = House(await bind(UnixPath(str(path)), what=WHAT), UnixPath(str(path)))
    replaced = trio.Event()

    async def linger(listening):
        try:
            await trio.sleep_forever()
        finally:
            replaced.set()
            with trio.CancelScope(shield=True):
                await trio.sleep(1)

    async with one.door:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.door.serve, linger)
            path.unlink()
            await replaced.wait()
            nursery.cancel_scope.cancel()
        new: Bound = one.door._bound
        assert new is not one.first
        assert one.first.listeners[0].socket.fileno() == -1
    assert new.listeners[0].socket.fileno() == -1
    assert not path.exists()
