"""The relay with its thread: pairs go in, outcomes come out in trio's thread, and a rush is taken over by it."""

from __future__ import annotations

import threading

import pytest
import trio

from sidecar.reasons import End
from sidecar.relay import Fence, Relay, RelayTimes, Terms, Traffic
from sidecar.relay import relay as module
from tests.turns import descriptors
from tests.wires import is_reset, plain, tcp_pair

FOREVER = RelayTimes(half_close=None, idle=None, lifetime=None)


class Ended:
    """Is told the outcome, and in which thread."""

    def __init__(self):
        self.event, self.outcome, self.thread = trio.Event(), None, None

    def __call__(self, outcome):
        self.outcome, self.thread = outcome, threading.current_thread()
        self.event.set()

    async def end(self):
        with trio.fail_after(5):
            await self.event.wait()
        assert self.thread is threading.current_thread()
        return self.outcome.end


async def pumped(relay, times=FOREVER):
    controller, client = await tcp_pair()
    process, upstream = await tcp_pair()
    ended, terms = Ended(), Terms(times, Fence(), Traffic(), Traffic())
    pair = relay.pump(plain(client), plain(upstream), answer=b"", header=b"", to_upstream=b"", terms=terms, ended=ended)
    return controller, process, pair, ended


async def echo(controller, process, text):
    with trio.fail_after(5):
        await controller.send_all(text)
        assert await process.receive_some() == text
        await process.send_all(text)
        assert await controller.receive_some() == text


@pytest.fixture
async def relay(nursery):
    relay = Relay(pipes=4)
    nursery.start_soon(relay.run)
    return relay


async def test_bytes_pass_and_the_end_is_told_in_trios_thread(relay):
    controller, process, _, ended = await pumped(relay)
    async with controller, process:
        await echo(controller, process, b"hello")
        await controller.send_eof()
        assert await process.receive_some() == b""
        await process.send_eof()
        assert await ended.end() is End.CLIENT_CLOSED


async def test_a_cut_ends_a_pair_from_trios_thread(relay):
    controller, process, pair, ended = await pumped(relay)
    async with controller, process:
        await echo(controller, process, b"hello")
        relay.cut(pair, End.SUPERSEDED)
        assert await ended.end() is End.SUPERSEDED
        assert await is_reset(controller)
        assert await is_reset(process)


async def test_a_short_limit_is_kept_though_the_thread_sleeps_long(relay):
    controller, process, _, ended = await pumped(relay, RelayTimes(half_close=None, idle=None, lifetime=0.05))
    async with controller, process:
        assert await ended.end() is End.LIFETIME


async def test_many_at_once_each_get_their_own_bytes(relay):
    async def one(number):
        controller, process, _, ended = await pumped(relay)
        async with controller, process:
            for time in range(10):
                await echo(controller, process, b"%d %d" % (number, time))
            await controller.send_eof()
            await process.send_eof()
            assert await ended.end() in {End.CLIENT_CLOSED, End.UPSTREAM_CLOSED}

    async with trio.open_nursery() as together:
        for number in range(40):
            together.start_soon(one, number)


async def test_in_a_rush_trios_thread_takes_over_and_gives_back_when_it_is_calm(relay, monkeypatch):
    monkeypatch.setattr(module, "_CALM_SECONDS", 0.05)
    controller, process, pair, ended = await pumped(relay)
    drivers = []
    turn = relay._reactor.turn

    def noted(patience=None):
        drivers.append(threading.current_thread() is threading.main_thread())
        turn(patience)

    monkeypatch.setattr(relay._reactor, "turn", noted)
    async with controller, process:
        await echo(controller, process, b"calm")
        for _ in range(1000):
            relay.arrived()
        with trio.fail_after(5):
            while not any(drivers):
                await trio.sleep(0.001)
        await echo(controller, process, b"in the rush")
        with trio.fail_after(5):
            while relay._trio_wants:
                await trio.sleep(0.01)
        drivers.clear()
        await echo(controller, process, b"calm again")
        assert not any(drivers)
        relay.cut(pair, End.SUPERSEDED)
        assert await ended.end() is End.SUPERSEDED


async def test_few_connections_in_a_second_are_no_rush(relay):
    for _ in range(30):
        relay.arrived()
    await trio.testing.wait_all_tasks_blocked(0.05)
    assert not relay._trio_wants


@pytest.mark.parametrize("rush", [False, True])
async def test_when_it_ends_everything_is_reset_and_told_and_no_thread_or_descriptor_is_left(rush):
    before, threads = descriptors(), threading.active_count()
    async with trio.open_nursery() as nursery:
        relay = Relay(pipes=4)
        nursery.start_soon(relay.run)
        controller, process, _, ended = await pumped(relay)
        await echo(controller, process, b"hello")
        if rush:
            for _ in range(1000):
                relay.arrived()
            await trio.sleep(0.05)
        nursery.cancel_scope.cancel()
    assert ended.outcome.end is End.ABORTED
    assert await is_reset(controller)
    assert await is_reset(process)
    await controller.aclose()
    await process.aclose()
    assert descriptors() == before
    assert threading.active_count() <= threads + 1  # trio keeps its worker for the next one


async def test_it_says_how_late_its_thread_is_and_how_many_pipes_are_in_use(relay):
    relay.statistics()
    await trio.sleep(0.05)
    statistics = relay.statistics()
    assert 0 <= statistics.lag < 1
    assert statistics.pipes == 0
