"""The story: what happens to a controller and its replicas, step by step.

Owns the order of events and the words. What is done and whether it comes out as told is the witness's. Each step says
what would have happened without sidecars, since that is what nobody sees in their own logs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final

import trio

from sidecar.demo.controller import Controller
from sidecar.demo.fleet import Fleet
from sidecar.demo.front import POLL_MILLISECONDS
from sidecar.demo.scrape import Counts
from sidecar.demo.screen import Screen, Style
from sidecar.demo.witness import ADMITTED, Witness, same
from sidecar.reasons import End, Probe, Reason

NAME: Final = "controller"

_ALL: Final = (0, 1, 2)


class Story:
    """One telling, with the fleet that it happens to. Everything raises DiffersError."""

    def __init__(self, fleet: Fleet, screen: Screen) -> None:
        self._fleet = fleet
        self._screen = screen
        self._witness = Witness(fleet, screen)
        known = [fleet.look_up(ordinal) for ordinal in _ALL]
        port, proof = fleet.ports.shard, fleet.certificates
        self._controller = Controller(NAME, known, port, proof.tls(NAME))
        self._sleeper = Controller("sleeper", known, port, proof.tls("sleeper"))  # keeps this map until step 5

    async def tell(self) -> None:
        """All of it. The controller's streams are open at the end."""
        await self._connect()
        await self._swap_addresses()
        await self._relaunch()
        await self._revoke()
        await self._wake_the_sleeper()
        await self._let_it_look_up()
        await self._let_strangers_in()
        await self._count()

    def close(self) -> None:
        """The controller goes."""
        self._controller.hang_up()

    async def _connect(self) -> None:
        self._screen.step(
            1, "The controller dials each address, names the slot and life it expects, and sends a command."
        )
        for ordinal in _ALL:
            await self._witness.admitted(self._controller, ordinal)

    async def _swap_addresses(self) -> None:
        self._screen.step(
            2, "Two pods come back with each other's address; their replicas ran on. The map is now wrong."
        )
        moved = (0, 1)
        await self._end_of(moved, self._fleet.swap_addresses)
        for ordinal, found in zip(moved, reversed(moved), strict=True):
            await self._witness.refused(
                self._controller, ordinal, Reason.IDENTITY_MISMATCH, f"ordinal: expected {ordinal}, this is {found}"
            )
        self._witness.untouched(*moved)
        self._screen.note("Neither replica has seen a new connection. The controller looks the addresses up again:")
        pids = [pod.pid for pod in self._fleet]
        for ordinal in moved:
            self._controller.learn(self._fleet.look_up(ordinal))
            await self._witness.admitted(self._controller, ordinal)
        same("the sidecars' process ids", pids, [pod.pid for pod in self._fleet])
        self._aside("Without sidecars each shard would have carried out the other's commands, and reported success.")

    async def _relaunch(self) -> None:
        self._screen.step(
            3, "Pod 2 is replaced: same name, same address, empty memory. It is generation 2 of its slot."
        )
        before = self._controller.known[2]
        await self._end_of((2,), self._fleet.relaunch)
        now = self._fleet.look_up(2)
        await self._witness.refused(
            self._controller,
            2,
            Reason.GENERATION_STALE,
            f"expected {before.generation}, this is at least {now.generation}",
        )
        self._controller.learn(replace(now, instance=before.instance))
        await self._witness.refused(
            self._controller, 2, Reason.INSTANCE_MISMATCH, f"expected {before.instance}, this is {now.instance}"
        )
        self._witness.untouched(2)
        self._screen.note("Stale in part is stale. With the whole of what the registry says:")
        self._controller.learn(now)
        await self._witness.admitted(self._controller, 2)
        self._aside("Without sidecars the controller would have gone on as if the shard still held its data.")

    async def _revoke(self) -> None:
        self._screen.step(
            4, "Pod 1 is reset in place: same process, empty memory, generation 2. A stream to it is open."
        )
        self._fleet.move_on(1)
        self._screen.note(
            "A file in the pod says its generation, as Kubernetes mounts it. The sidecar looks every "
            f"{POLL_MILLISECONDS} ms:"
        )
        await self._witness.cut(self._controller, 1, End.GENERATION_STALE)
        await self._witness.refused(self._controller, 1, Reason.GENERATION_STALE, "expected 1, this is at least 2")
        self._controller.learn(self._fleet.look_up(1))
        await self._witness.admitted(self._controller, 1)
        await self._command(0, 2)
        self._screen.note("The streams to the other pods went on.")
        self._aside("Without sidecars the open stream would have gone on, into a shard that has lost its data.")

    async def _wake_the_sleeper(self) -> None:
        self._screen.step(
            5, "A second controller wakes up. It has slept since step 1, and dials everything by its old map."
        )
        await self._command(*_ALL)
        for ordinal, reason, detail in (
            (0, Reason.IDENTITY_MISMATCH, "ordinal: expected 0, this is 1"),
            (1, Reason.IDENTITY_MISMATCH, "ordinal: expected 1, this is 0"),
            (2, Reason.GENERATION_STALE, "expected 1, this is at least 2"),
        ):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._witness.refused, self._sleeper, ordinal, reason, detail)
                await self._command(*_ALL)
        await self._command(*_ALL)
        self._screen.note("The first controller's streams went on throughout: no command lost, none slipped in.")
        self._aside("Without sidecars two controllers would now drive the same shards, one of them the wrong ones.")

    async def _let_it_look_up(self) -> None:
        self._screen.step(6, "It looks pod 2 up, and is right now. But a shard here takes one controller at a time.")
        self._sleeper.learn(self._fleet.look_up(2))
        await self._witness.refused(self._sleeper, 2, Reason.EXCLUSIVE_CONFLICT)
        await self._command(2)
        self._screen.note("The first controller's stream went on. It may dial again itself; its old stream gives way:")
        await self._witness.admitted(self._controller, 2)
        await self._witness.cut(self._controller, 2, End.SUPERSEDED)
        self._aside("Without sidecars whoever came last would have driven the shard, or both at once.")

    async def _let_strangers_in(self) -> None:
        self._screen.step(
            7, "Others find the ports: a client that speaks HTTP, without a certificate, and a health check."
        )
        await self._witness.http_is_refused(0)
        await self._witness.probe_is_no_refusal(1)
        self._aside("Without sidecars a shard would have tried to read the request as commands.")

    async def _count(self) -> None:
        self._screen.step(
            8, "What the sidecars' /metrics have counted: exactly what happened here, to the last connection."
        )
        await self._witness.reconcile(*_ALL)
        rows: list[Sequence[object]] = []
        all_of_them = Counts(0, Counter())
        for ordinal in _ALL:
            counts, reached = self._witness.totals(ordinal)
            all_of_them += counts
            settled = counts.settled
            rows.append(
                (
                    self._fleet.look_up(ordinal).identity,
                    counts.accepted,
                    settled[ADMITTED],
                    reached,
                    counts.ended.total(),
                    settled[Probe.CLOSED_BEFORE_PREFACE],
                    sum(settled[reason] for reason in Reason),
                )
            )
        self._screen.table(("slot", "accepted", "admitted", "reached", "cut", "probes", "refused"), rows)
        self._screen.note(
            "Reached is how many connections the replicas themselves have seen: those admitted, and no other."
        )
        for what, words, numbers in (("Refused", Reason, all_of_them.settled), ("Cut", End, all_of_them.ended)):
            self._screen.note(f"{what}: {', '.join(f'{word} {numbers[word]}' for word in words if numbers[word])}.")

    async def _end_of(self, ordinals: Sequence[int], change: Callable[..., Awaitable[None]]) -> None:
        """Let *change* happen to the pods; the controller notices that they end."""
        await self._witness.reconcile(*ordinals)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(change, *ordinals)
            for ordinal in ordinals:
                await self._controller.notice_end(ordinal)

    async def _command(self, *ordinals: int) -> None:
        """One command for each shard; the controller sees whether the reply is the next one."""
        for ordinal in ordinals:
            await self._controller.command(ordinal)

    def _aside(self, text: str) -> None:
        self._screen.note(text, Style.ASIDE)
