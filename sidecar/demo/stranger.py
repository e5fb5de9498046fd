"""Who dials a sidecar and is no controller.

Owns the two that every port in a cluster meets: a client of another protocol, and a health check.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import trio

from sidecar.demo.difference import DiffersError

REQUEST: Final = b"GET / HTTP/1.1\r\nHost: shard\r\n\r\n"
CLOSED_SECONDS: Final = 10.0


async def speak_http(host: str, port: int) -> bytes:
    """Send an HTTP request; all that comes back until the other side closes. Raises DiffersError: it doesn't."""
    received = bytearray()
    with _in_order(f"an HTTP request to {host}:{port}"):
        async with await trio.open_tcp_stream(host, port) as stream:
            await stream.send_all(REQUEST)
            async for data in stream:
                received += data
    return bytes(received)


async def connect_and_close(host: str, port: int) -> None:
    """What many health checks do: see whether somebody accepts. Raises DiffersError: nobody does."""
    with _in_order(f"a health check of {host}:{port}"):
        async with await trio.open_tcp_stream(host, port):
            pass


@contextmanager
def _in_order(what: str) -> Iterator[None]:
    try:
        with trio.fail_after(CLOSED_SECONDS):
            yield
    except (OSError, trio.BrokenResourceError, trio.TooSlowError) as error:
        happened = str(error) or f"it took more than {CLOSED_SECONDS:g} seconds"
        raise DiffersError(what, expected="that it connects, and is closed in order", happened=happened) from error
