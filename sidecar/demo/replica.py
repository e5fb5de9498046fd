"""The local process of the demo: a shard that answers commands, and counts who reaches it.

Owns its count, the proof of the demo: a refused connection never gets here. It checks nothing itself, as most stateful
programs do, and takes every command for its own. Each life begins with an empty memory.
"""

from __future__ import annotations

from typing import Final

import trio

from sidecar.demo.lines import Lines

HOST: Final = "127.0.0.1"


class Replica:
    """One shard.

    Attributes:
        connections: how many it has accepted.
        resets: how many of them were reset, and not closed.
        commands: how many it has carried out in this life, over all connections.
    """

    def __init__(self, ordinal: int, generation: int) -> None:
        self._ordinal = ordinal
        self._generation = generation
        self._process = trio.CancelScope()
        self.connections = 0
        self.resets = 0
        self.commands = 0

    async def serve(self, *, task_status: trio.TaskStatus[int]) -> None:
        """Serve until ``end``, at the port that ``nursery.start`` returns."""
        with self._process:
            listeners = await trio.open_tcp_listeners(0, host=HOST)
            task_status.started(listeners[0].socket.getsockname()[1])
            await trio.serve_listeners(self._converse, listeners)

    def begin_anew(self, generation: int) -> None:
        """Begin another life in place: the memory is emptied, and connections go on."""
        self._generation = generation
        self.commands = 0

    def end(self) -> None:
        """End, and every connection with it."""
        self._process.cancel()

    async def _converse(self, stream: trio.SocketStream) -> None:
        self.connections += 1
        lines = Lines(stream)
        try:
            while await lines.receive() is not None:
                self.commands += 1
                await lines.send(reply(self._ordinal, self._generation, self.commands))
        except trio.BrokenResourceError:  # a controller that was cut, or has gone
            self.resets += 1


def reply(ordinal: int, generation: int, number: int) -> str:
    """What a shard says when it has carried out its *number*-th command."""
    return f"shard {ordinal}, generation {generation}, command {number}"
