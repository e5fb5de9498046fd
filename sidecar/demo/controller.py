"""Who drives the replicas: it keeps a map of where they are, dials by it, and sends each shard its commands.

Owns the map, which it renews only when it is told to look again, and one stream a shard. It believes nothing: every
reply must be the next one of the life that it dialled, so that a lost, doubled or foreign command shows. Called by the
witness and the story.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import trio

from sidecar.client import open_connection
from sidecar.demo.difference import DiffersError
from sidecar.demo.lines import Lines
from sidecar.demo.record import Record
from sidecar.demo.replica import reply
from sidecar.dialler import DialError
from sidecar.identity import ControllerName, Instance

END_SECONDS: Final = 10.0  # for the end of a pod to reach those who are connected to it


class Controller:
    """One controller.

    Attributes:
        known: where it believes the slots to be, by ordinal.
        commands: how many of its commands each life of a shard has answered.
    """

    def __init__(self, name: str, known: Iterable[Record], port: int) -> None:
        self._name = ControllerName(name)
        self._port = port
        self._streams: dict[int, Lines] = {}
        self.known = {record.ordinal: record for record in known}
        self.commands: Counter[Instance] = Counter()

    def learn(self, record: Record) -> None:
        """Replace what it believes of a slot."""
        self.known[record.ordinal] = record

    async def dial(self, ordinal: int) -> DialError | None:
        """Dial by the map. None: admitted, and there is a stream to the shard."""
        record = self.known[ordinal]
        try:
            stream = await open_connection((record.host, self._port), record.claim(self._name))
        except DialError as error:
            return error
        self._streams[ordinal] = Lines(stream)
        return None

    async def command(self, ordinal: int) -> str:
        """Have the shard carry out one more command. Its reply. Raises DiffersError."""
        stream, record, number = (
            self._streams[ordinal],
            self.known[ordinal],
            self.commands[self.known[ordinal].instance] + 1,
        )
        expected = reply(ordinal, record.generation.value, number)
        try:
            await stream.send(f"command {number}")
            answered = await stream.receive()
        except trio.BrokenResourceError as error:
            raise DiffersError(f"the stream to {record}", expected=expected, happened="it broke") from error
        if answered != expected:
            happened = "it ended" if answered is None else f"it said {answered!r}"
            raise DiffersError(f"the stream to {record}", expected=expected, happened=happened)
        self.commands[record.instance] = number
        return answered

    async def notice_end(self, ordinal: int) -> None:
        """Wait until the stream to the shard has ended, and close it. Raises DiffersError."""
        stream, said = self._streams.pop(ordinal), None
        with trio.move_on_after(END_SECONDS) as patience:
            with suppress(trio.BrokenResourceError):  # an end as well
                said = await stream.receive()
        stream.close()
        if said is not None or patience.cancelled_caught:
            happened = "it is still open" if said is None else f"it said {said!r}"
            raise DiffersError(f"the stream to {self.known[ordinal]}", expected="its end", happened=happened)

    def hang_up(self) -> None:
        """Close every stream."""
        while self._streams:
            self._streams.popitem()[1].close()
