"""Many pairs at once in the relay's own thread, of which any may break off or be cut at any moment."""

from __future__ import annotations

import random

import pytest
import trio

from sidecar.reasons import End
from sidecar.relay import Fence, Relay, RelayTimes, Terms, Traffic
from sidecar.sockets import abort
from tests.turns import descriptors
from tests.wires import closed, plain, tcp_pair

SIZES = (1, 7, 1000, 65536, 300_000)
FOREVER = RelayTimes(half_close=None, idle=None, lifetime=None)
STREAM = random.Random(3).randbytes(1 << 20)


class Party:
    """One pair, what becomes of it, and what came through."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.fate = self.rng.choice(["ends", "ends", "client breaks off", "process breaks off", "is cut"])
        self.size = {name: self.rng.randint(1, len(STREAM)) for name in ("up", "down")}
        self.last_word_at = self.rng.randint(0, sum(self.size.values()))
        self.got = {"up": bytearray(), "down": bytearray()}
        self.traffic, self.outcomes, self.over = Traffic(), [], trio.Event()

    async def live(self, relay, total):
        controller, client = await tcp_pair()
        process, upstream = await tcp_pair()
        self.streams = {"client": controller, "process": process}
        client, upstream = plain(client), plain(upstream)

        def ended(outcome):
            assert closed(client)
            assert closed(upstream)
            self.outcomes.append(outcome)
            self.over.set()

        self.pumped = relay.pump(
            client,
            upstream,
            answer=b"",
            header=b"",
            to_upstream=b"",
            terms=Terms(FOREVER, Fence(), self.traffic, total),
            ended=ended,
        )
        self.relay = relay
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.send, controller, self.size["up"])
            nursery.start_soon(self.send, process, self.size["down"])
            nursery.start_soon(self.receive, process, self.got["up"])
            nursery.start_soon(self.receive, controller, self.got["down"])
            await self.over.wait()
        await controller.aclose()
        await process.aclose()

    async def send(self, stream, size):
        sent = 0
        try:
            while sent < size:
                upto = min(size, sent + self.rng.choice(SIZES))
                await stream.send_all(STREAM[sent:upto])
                sent = upto
            await stream.send_eof()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    async def receive(self, stream, got):
        try:
            while data := await stream.receive_some(self.rng.choice(SIZES)):
                got += data
                if sum(map(len, self.got.values())) >= self.last_word_at:
                    self.meet_its_fate()
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass

    def meet_its_fate(self):
        if self.fate == "is cut":
            self.relay.cut(self.pumped, End.SUPERSEDED)
        elif self.fate != "ends":
            abort(self.streams[self.fate.partition(" ")[0]].socket)

    def check(self):
        (outcome,) = self.outcomes
        assert outcome.fault is None
        for name in ("up", "down"):
            assert STREAM.startswith(self.got[name])
            assert len(self.got[name]) <= getattr(self.traffic, name) <= self.size[name]
        if self.fate == "ends":
            assert outcome.end in {End.CLIENT_CLOSED, End.UPSTREAM_CLOSED}
            assert {name: len(got) for name, got in self.got.items()} == self.size
        return outcome.end


@pytest.mark.parametrize("pairs", [60, pytest.param(1000, marks=pytest.mark.soak)])
@pytest.mark.parametrize("pipes", [0, 3])
async def test_whatever_becomes_of_the_others_each_pair_gets_its_own_bytes_and_one_outcome(pairs, pipes):
    before, total = descriptors(), Traffic()
    parties = [Party(seed) for seed in range(pairs)]
    async with trio.open_nursery() as house:
        relay = Relay(pipes=pipes)
        house.start_soon(relay.run)
        places = trio.CapacityLimiter(200)

        async def live(party):
            async with places:
                relay.arrived()
                await party.live(relay, total)

        with trio.fail_after(120):
            async with trio.open_nursery() as nursery:
                for party in parties:
                    nursery.start_soon(live, party)
        assert relay.statistics().pipes == 0
        house.cancel_scope.cancel()
    ends = {party.check() for party in parties}
    assert ends >= {End.CLIENT_RESET, End.UPSTREAM_RESET, End.SUPERSEDED}
    assert total.up == sum(party.traffic.up for party in parties)
    assert total.down == sum(party.traffic.down for party in parties)
    assert descriptors() == before
