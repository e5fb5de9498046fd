"""What a sidecar has counted: its own ``/metrics`` page, as numbers.

Owns reading a telemetry page over HTTP and the few metrics that the demo compares. Knows nothing of what they should
be.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Final

import trio

LOOK_AGAIN_SECONDS: Final = 0.02
READ_SECONDS: Final = 5.0  # for one page

_SAMPLE = re.compile(r"identity_sidecar_(\w+)\{(.*)\} (\S+)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_WORD_IS_THE_LABEL: Final = {"connections_rejected_total": "reason", "probes_total": "kind"}


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of the connections that a sidecar accepted.

    ``settled`` has how many came out in which way, zeros left out: ``admitted``, or the reason of the refusal, or the
    kind of probe. These words are all different.
    """

    accepted: int
    settled: Counter[str]

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.accepted + other.accepted, self.settled + other.settled)

    def __str__(self) -> str:
        ways = ", ".join(f"{word} {number}" for word, number in sorted(self.settled.items()))
        return f"{self.accepted} accepted ({ways or 'none settled'})"


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
    for name, labels, value in _SAMPLE.findall(text):
        number = int(float(value))
        if name == "connections_accepted_total":
            accepted += number
        elif name == "connections_admitted_total":
            settled["admitted"] += number
        elif name in _WORD_IS_THE_LABEL:
            settled[dict(_LABEL.findall(labels))[_WORD_IS_THE_LABEL[name]]] += number
    return Counts(accepted, +settled)
