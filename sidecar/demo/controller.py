"""Who drives the replicas: it keeps a map of where they are, dials by it, and sends each shard its commands.

Owns the map, which it renews only when it is told to look again, and its streams. It believes nothing: every reply must
be the next one of the life that it dialled, so that a lost, doubled or foreign command shows. Called by the witness and
the story.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from typing import Final

import trio

from sidecar.client import open_connection
from sidecar.demo.difference import DiffersError
from sidecar.demo.lines import Lines
from sidecar.demo.record import Life, Record
from sidecar.demo.replica import reply
from sidecar.dialler import DialError
from sidecar.identity import ControllerName
from sidecar.tls.client import ClientTls

END_SECONDS: Final = 10.0  # for the end of a pod to reach those who are connected to it


class Controller:
    """One controller.

    Attributes:
        known: where it believes the slots to be, by ordinal.
        commands: how many of its commands each life of a shard has answered.
    """

    def __init__(self, name: str, known: Iterable[Record], port: int, tls: ClientTls | None = None) -> None:
        self._name = ControllerName(name)
        self._port = port
        self._tls = tls
        self._streams: defaultdict[int, deque[Lines]] = defaultdict(deque)  # by ordinal, the newest last
        self.known = {record.ordinal: record for record in known}
        self.commands: Counter[Life] = Counter()

    def learn(self, record: Record) -> None:
        """Replace what it believes of a slot."""
        self.known[record.ordinal] = record

    async def dial(self, ordinal: int) -> DialError | None:
        """Dial by the map. None: admitted, and there is a stream to the shard."""
        record = self.known[ordinal]
        try:
            stream = await open_connection((record.host, self._port), record.claim(self._name), tls=self._tls)
        except DialError as error:
            return error
        self._streams[ordinal].append(Lines(stream))
        return None

    async def command(self, ordinal: int) -> str:
        """Have the shard carry out one more command, over the newest stream. Its reply. Raises DiffersError."""
        stream, record, number = (
            self._streams[ordinal][-1],
            self.known[ordinal],
            self.commands[self.known[ordinal].life] + 1,
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
        self.commands[record.life] = number
        return answered

    async def notice_end(self, ordinal: int) -> bool:
        """Wait until the oldest stream to the shard has ended, and close it. Raises DiffersError: it doesn't end.

        Returns:
            Whether it was reset, rather than ended in order.
        """
        stream, said, reset = self._streams[ordinal].popleft(), None, False
        with trio.move_on_after(END_SECONDS) as patience:
            try:
                said = await stream.receive()
            except trio.BrokenResourceError:
                reset = True
        stream.close()
        if said is not None or patience.cancelled_caught:
            happened = "it is still open" if said is None else f"it said {said!r}"
            raise DiffersError(f"the stream to {self.known[ordinal]}", expected="its end", happened=happened)
        return reset

    def hang_up(self) -> None:
        """Close every stream."""
        for streams in self._streams.values():
            while streams:
                streams.pop().close()
