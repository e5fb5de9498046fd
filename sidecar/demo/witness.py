"""Does what the story tells, and sees whether it comes out as told.

Owns the comparison: nothing is shown as admitted or refused that wasn't, and what was done at each pod is kept to be
compared with what its sidecar counted. The first difference ends the demo (``DiffersError``).
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from sidecar.demo import stranger
from sidecar.demo.controller import Controller
from sidecar.demo.difference import DiffersError
from sidecar.demo.fleet import Fleet
from sidecar.demo.pod import Pod
from sidecar.demo.record import Record
from sidecar.demo.scrape import Counts
from sidecar.demo.screen import Screen
from sidecar.dialler import DialError
from sidecar.reasons import ADVICE, End, Probe, Reason

ADMITTED: Final = "admitted"


class Witness:
    """Who dials, looks, and tells the screen."""

    def __init__(self, fleet: Fleet, screen: Screen) -> None:
        self._fleet = fleet
        self._screen = screen
        self._counts: dict[int, Counts] = {}
        self._reached: Counter[int] = Counter()

    async def admitted(self, controller: Controller, ordinal: int) -> None:
        """The controller dials the slot, is admitted, and has a command carried out by the right life."""
        record = controller.known[ordinal]
        error = await controller.dial(ordinal)
        self._note(record, ADMITTED if error is None else error.reason)
        same(f"dialling {record}", ADMITTED, ADMITTED if error is None else f"refused: {error}")
        self._screen.verdict("admitted", str(record), await controller.command(ordinal))

    async def refused(self, controller: Controller, ordinal: int, reason: Reason, detail: str = "") -> None:
        """The controller dials the slot and is refused for *reason*, with the advice that goes with it."""
        record = controller.known[ordinal]
        error = await controller.dial(ordinal)
        self._note(record, ADMITTED if error is None else error.reason)
        told = f"{reason}, advice {ADVICE[reason]}: {detail}"
        happened = f"{error.reason}, advice {error.advice}: {_difference(error)}" if error else ADMITTED
        same(f"dialling {record}", told, happened)
        self._screen.verdict("refused", str(record), f"{reason} -> {ADVICE[reason]}", detail)

    async def cut(self, controller: Controller, ordinal: int, cause: End) -> None:
        """The oldest stream to the slot is cut: the controller sees a reset, and the sidecar counts it as *cause*."""
        record = controller.known[ordinal]
        pod = self._fleet.at(record.host)
        reset = await controller.notice_end(ordinal)
        same(f"the end of the stream to {record}", "a reset", "a reset" if reset else "an end in order")
        pod.cut[str(cause)] += 1
        await self._compare(pod)
        self._screen.verdict("cut", str(record), f"reset, {cause}")

    async def http_is_refused(self, ordinal: int) -> None:
        """A client that speaks HTTP gets not a byte, and is counted."""
        pod = self._fleet[ordinal]
        received = await stranger.speak_http(pod.record.host, self._fleet.ports.shard)
        same("what an HTTP client gets", b"", received)
        await self._counted(pod, Reason.TLS_FAILED)
        self._screen.verdict("refused", f"{pod.record.host} by an HTTP client", f"{Reason.TLS_FAILED}, no answer")

    async def probe_is_no_refusal(self, ordinal: int) -> None:
        """A health check is counted as what it is."""
        pod = self._fleet[ordinal]
        await stranger.connect_and_close(pod.record.host, self._fleet.ports.shard)
        await self._counted(pod, Probe.CLOSED_BEFORE_PREFACE)
        self._screen.verdict(
            "probe", f"{pod.record.host} by a health check", f"{Probe.CLOSED_BEFORE_PREFACE}: no refusal"
        )

    def untouched(self, *ordinals: int) -> None:
        """No connection has got through to these replicas since their sidecars were started."""
        for ordinal in ordinals:
            same(f"new connections that replica {ordinal} has seen", 0, self._fleet[ordinal].reached)

    async def reconcile(self, *ordinals: int) -> None:
        """Compare what these pods' sidecars have counted with what was done there, before they go."""
        for ordinal in ordinals:
            pod = self._fleet[ordinal]
            counts = await self._compare(pod)
            self._counts[ordinal] = self._counts.get(ordinal, Counts(0, Counter())) + counts
            same(f"new connections that replica {ordinal} has seen", counts.settled[ADMITTED], pod.reached)
            same(f"connections that replica {ordinal} has seen reset", counts.ended.total(), pod.resets)
            self._reached[ordinal] += pod.reached

    def totals(self, ordinal: int) -> tuple[Counts, int]:
        """Of the slot, as far as reconciled: what its sidecars counted, and how many connections its replicas saw."""
        return self._counts[ordinal], self._reached[ordinal]

    def _note(self, record: Record, outcome: str) -> None:
        self._fleet.at(record.host).dialled[str(outcome)] += 1

    async def _counted(self, pod: Pod, outcome: Reason | Probe) -> None:
        pod.dialled[str(outcome)] += 1
        await self._compare(pod)

    async def _compare(self, pod: Pod) -> Counts:
        expected = Counts(pod.dialled.total(), Counter(pod.dialled), Counter(pod.cut))
        counts = await pod.counts(expected)
        same(f"the counters of {pod.record}", expected, counts)
        return counts


def _difference(error: DialError) -> str:
    """What differs, without who the sidecar says it is."""
    return error.detail.partition("it is identity ")[0].removesuffix("; ")


def same(what: str, expected: object, happened: object) -> None:
    """Raise DiffersError unless *expected* is what happened."""
    if expected != happened:
        raise DiffersError(what, expected=expected, happened=happened)
