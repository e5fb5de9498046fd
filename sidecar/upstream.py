"""Dialling the local process.

Owns the one way in to it, and the translation of every failure on that way into :class:`UpstreamUnavailable`. Knows
nothing of claims and verdicts; called by ``connection`` once a claim has passed. The caller bounds the time.
"""

from __future__ import annotations

import trio

from sidecar.config import HostPort, UnixPath
from sidecar.errors import SidecarError
from sidecar.sockets import abort, connect_unix, failure_words, is_connected_to_itself


class UpstreamUnavailable(SidecarError):
    """The local process doesn't answer. The text says which address and what the kernel said."""


async def connect(address: HostPort | UnixPath) -> trio.SocketStream:
    """A connection to the local process.

    Raises:
        UpstreamUnavailable: nothing listens at *address*, its name doesn't resolve, ...
    """
    try:
        if isinstance(address, UnixPath):
            return await connect_unix(address.path)
        stream = await trio.open_tcp_stream(address.host or "localhost", address.port)
        if not is_connected_to_itself(stream):
            return stream
    except OSError as error:
        raise UpstreamUnavailable(f"{address}: {failure_words(error)}") from error
    abort(stream)  # by an RST: TIME_WAIT would keep the local process off its port
    raise UpstreamUnavailable(f"{address}: nothing listens there")
