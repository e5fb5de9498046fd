"""Two file descriptors on one connection, as a pipe.

Owns the copying between them and how it ends; doesn't know what the connection is. Called by ``sidecar connect``.

The descriptors are read and written in threads: a terminal, a file and another program's pipe all work that way, and
none of them is left non-blocking for the shell that owns it.
"""

from __future__ import annotations

import os
from typing import Final

import trio

_CHUNK: Final = 65536  # bytes


async def pipe(stream: trio.abc.HalfCloseableStream, *, source: int, sink: int, leave_with_peer: bool = False) -> None:
    """Copy *source* to *stream*, whose sending side ends with it, and *stream* to *sink*, until both have ended.

    Args:
        stream: The connection.
        source: The descriptor that is read.
        sink: The descriptor that is written.
        leave_with_peer: Whether to return as soon as *stream* has ended, whatever *source* may still hold: a person
            who types is told at once that nobody listens any more.

    Raises:
        ExceptionGroup: Of OSError and trio.BrokenResourceError: a side broke, and what was under way is lost.
    """
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_send, stream, source)
        async for data in stream:
            # Abandoned like the other: a pager that pauses must not keep a Ctrl-C from ending the program.
            await trio.to_thread.run_sync(_write, sink, data, abandon_on_cancel=True)
        if leave_with_peer:
            nursery.cancel_scope.cancel()


async def _send(stream: trio.abc.HalfCloseableStream, source: int) -> None:
    # Abandoned when the connection breaks or ends: a terminal at which nobody types must not hold the program.
    while data := await trio.to_thread.run_sync(os.read, source, _CHUNK, abandon_on_cancel=True):
        await stream.send_all(data)
    await stream.send_eof()


def _write(sink: int, data: bytes | bytearray) -> None:
    while data:
        data = data[os.write(sink, data) :]
