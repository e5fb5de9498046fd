"""A local process for the example: one shard that counts the commands that reach it, over all its connections.

    POD_NAME=replica-a-0 POD_UID=first python examples/replica.py 127.0.0.1:2101

It takes every line for a command and every peer for its controller, as most stateful programs do: which slot and which
life of it a connection means is its sidecar's to check. So it listens where nobody but its sidecar can reach it.
"""

from __future__ import annotations

import os
import signal
import socketserver
import sys
import threading
from types import FrameType


class Shard(socketserver.ThreadingTCPServer):
    """The process's memory, and the socket before it."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, address: tuple[str, int], pod: str, life: str) -> None:
        super().__init__(address, Conversation)
        self.number = pod.rpartition("-")[2]  # replica-a-2 is shard 2
        self.name = f"{pod}/{life}"
        self.commands = 0
        self._lock = threading.Lock()

    def carry_out(self) -> str:
        """Do one more command; what there is to say about it."""
        with self._lock:
            self.commands += 1
            return f"shard {self.number}, command {self.commands}, {self.name}"


class Conversation(socketserver.StreamRequestHandler):
    """One connection: a line in, a line out."""

    server: Shard

    def handle(self) -> None:
        """Until the peer has ended it."""
        print(f"{self.server.name}: a connection", flush=True)
        try:
            for _ in self.rfile:
                self.wfile.write(f"{self.server.carry_out()}\n".encode())
        except OSError as error:
            print(f"{self.server.name}: a connection broke: {error}", flush=True)


def end(_number: int, _frame: FrameType | None) -> None:
    """End the process: as the first one of a container it would otherwise not heed SIGTERM at all."""
    sys.exit()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, end)
    host, _, port = sys.argv[1].rpartition(":")
    with Shard((host, int(port)), os.environ["POD_NAME"], os.environ["POD_UID"]) as shard:
        print(f"{shard.name}: ready", flush=True)
        shard.serve_forever()
