"""A local process that takes connections over from its sidecar and serves the clients itself: an echo.

    python examples/handoff/replica.py /run/replica/handoff.sock

The sidecar's configuration has ``upstream: handoff:`` and that path. Bytes don't pass through the sidecar any more; it
only watches the connection, and can still cut it.
"""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType

from sidecar.handoff import Handed, Receiver


def echo(handed: Handed) -> None:
    """Send a client's bytes back until it ends."""
    with handed:
        print(f"{handed.about.peer} means {handed.about.identity}", flush=True)
        try:
            data = handed.first or handed.socket.recv(65536)  # what the sidecar has read already comes first
            while data:
                handed.socket.sendall(data)
                data = handed.socket.recv(65536)
        except OSError as error:
            print(f"{handed.about.peer} is gone: {error}", flush=True)  # also where the sidecar has cut it


def end(_number: int, _frame: FrameType | None) -> None:
    """End the process: as the first one of a container it would otherwise not heed SIGTERM at all."""
    sys.exit()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, end)
    with Receiver(sys.argv[1]) as receiver:
        print("ready", flush=True)
        for connection in receiver:
            threading.Thread(target=echo, args=[connection], daemon=True).start()
