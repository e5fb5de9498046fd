"""The local process of the demo: a shard that answers commands, and counts who reaches it.

Owns its count, the proof of the demo: a refused connection never gets here. It checks nothing itself, as most stateful
programs do, and takes every command for its own. Each life is a new object: it begins with an empty memory.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import trio

from sidecar.demo.lines import Lines

HOST: Final = "127.0.0.1"


class Replica:
    """One life of one shard.

    Attributes:
        connections: how many it has accepted.
        commands: how many it has carried out, over all connections.
    """

    def __init__(self, ordinal: int, generation: int) -> None:
        self._ordinal = ordinal
        self._generation = generation
        self._life = trio.CancelScope()
        self.connections = 0
        self.commands = 0

    async def serve(self, *, task_status: trio.TaskStatus[int]) -> None:
        """Serve until ``end``, at the port that ``nursery.start`` returns."""
        with self._life:
            listeners = await trio.open_tcp_listeners(0, host=HOST)
            task_status.started(listeners[0].socket.getsockname()[1])
            await trio.serve_listeners(self._converse, listeners)

    def end(self) -> None:
        """End this life, and every connection with it."""
        self._life.cancel()

    async def _converse(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        lines = Lines(stream)
        with suppress(trio.BrokenResourceError):  # a controller that was cut, or has gone: no matter of the shard's
            while await lines.receive() is not None:
                self.commands += 1
                await lines.send(reply(self._ordinal, self._generation, self.commands))


def reply(ordinal: int, generation: int, number: int) -> str:
    """What a shard says when it has carried out its *number*-th command."""
    return f"shard {ordinal}, generation {generation}, command {number}"
