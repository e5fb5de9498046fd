"""What a sidecar has counted: its own ``/metrics`` page, as numbers.

Owns reading a telemetry page over HTTP and the few metrics that the demo compares. Knows nothing of what they should
be.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

import trio

LOOK_AGAIN_SECONDS: Final = 0.02
READ_SECONDS: Final = 5.0  # for one page

_SAMPLE = re.compile(r"identity_sidecar_(\w+)\{(.*)\} (\S+)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_WORD_IS_THE_LABEL: Final = {
    "connections_rejected_total": "reason",
    "probes_total": "kind",
    "connections_ended_total": "cause",
}


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of the connections that a sidecar accepted.

    ``settled`` has how many came out in which way, zeros left out: ``admitted``, or the reason of the refusal, or the
    kind of probe. These words are all different. ``ended`` has how many of the admitted are over, by cause.
    """

    accepted: int
    settled: Counter[str]
    ended: Counter[str] = field(default_factory=Counter)

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.accepted + other.accepted, self.settled + other.settled, self.ended + other.ended)

    def __str__(self) -> str:
        ended = f", of them ended: {_in_words(self.ended)}" if self.ended else ""
        return f"{self.accepted} accepted ({_in_words(self.settled) or 'none settled'}){ended}"


async def page(host: str, port: int, path: str) -> tuple[int, str]:
    """A page's status and text. Raises OSError: nobody answers there, or not in time, or not in HTTP."""
    answer = bytearray()
    try:
        with trio.fail_after(READ_SECONDS):
            async with await trio.open_tcp_stream(host, port) as stream:
                await stream.send_all(f"GET {path} HTTP/1.0\r\nHost: {host}\r\n\r\n".encode())
                async for data in stream:
                    answer += data
        head, _, body = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]), body.decode()
    except (trio.BrokenResourceError, trio.TooSlowError, IndexError, ValueError) as error:
        raise OSError(f"http://{host}:{port}{path} gave no page") from error


async def counts(host: str, port: int) -> Counts:
    """What the sidecar with this telemetry address has counted so far. Raises OSError."""
    _, text = await page(host, port, "/metrics")
    accepted = 0
    settled: Counter[str] = Counter()
    ended: Counter[str] = Counter()
    for name, labels, value in _SAMPLE.findall(text):
        number = int(float(value))
        if name == "connections_accepted_total":
            accepted += number
        elif name == "connections_admitted_total":
            settled["admitted"] += number
        elif name in _WORD_IS_THE_LABEL:
            words = ended if name == "connections_ended_total" else settled
            words[dict(_LABEL.findall(labels))[_WORD_IS_THE_LABEL[name]]] += number
    return Counts(accepted, +settled, +ended)


def _in_words(numbers: Counter[str]) -> str:
    return ", ".join(f"{word} {number}" for word, number in sorted(numbers.items()))
