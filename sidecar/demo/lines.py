"""A byte stream as lines of text, for the demo's replica and controller.

Owns the framing; knows no meaning of a line.
"""

from __future__ import annotations

from typing import Final

import trio

from sidecar.tls.stream import TlsStream

_CHUNK: Final = 4096  # bytes; lines of the demo have some tens


class Lines:
    """One end of a conversation in lines. Closing it closes the stream."""

    def __init__(self, stream: trio.SocketStream | TlsStream) -> None:
        self._stream = stream
        self._buffer = bytearray()

    async def send(self, line: str) -> None:
        """Send *line*. Raises trio.BrokenResourceError."""
        await self._stream.send_all(f"{line}\n".encode())

    async def receive(self) -> str | None:
        """The next line; None: the peer has ended the conversation. Raises trio.BrokenResourceError."""
        while b"\n" not in self._buffer:
            data = await self._stream.receive_some(_CHUNK)
            if not data:
                return None
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode(errors="backslashreplace")

    def close(self) -> None:
        """End the conversation. Never waits, so that whoever is cancelled can do it too."""
        transport = self._stream.transport if isinstance(self._stream, TlsStream) else self._stream
        assert isinstance(transport, trio.SocketStream), "the demo dials over TCP"  # noqa: S101
        transport.socket.close()
