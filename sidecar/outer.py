"""A load balancer's own PROXY v2 header, in front of everything that the dialler sends, TLS included.

It carries addresses and nothing else that counts: the one that it names stands for the peer's from then on, in lists,
limits and the log. It is believed only from the senders that the listener lists; ``listener`` lets no others come this
far. Its faults are those of a preface, with ``outer_`` in front of their detail.

What follows the header may be TLS, which reads the socket itself; so not one byte is read past it. Called by
``arrival``, as a connection's first step.
"""

from __future__ import annotations

from collections.abc import Sequence

import trio

from sidecar.config import Network
from sidecar.gate import Visit
from sidecar.preface.proxy_v2 import (
    Command,
    Header,
    InetAddress,
    PrefaceError,
    bytes_wanted,
    check_end,
    read_header,
)
from sidecar.reasons import Probe, Reason, Refused
from sidecar.sockets import receive_now


async def introduced(visit: Visit, sources: Sequence[Network]) -> Refused | Probe | None:
    """Take the header. None: it is through, and its address stands for the peer's. Raises Interrupted.

    Args:
        visit: the connection's.
        sources: networks that may connect, by the header's address; empty: all.
    """
    try:
        header = await _header(visit)
    except PrefaceError as error:
        refused = error.refused
        return Refused(refused.reason, f"outer_{error.fault}")
    except trio.TooSlowError:
        if visit.connection.deadline < visit.ends_at:
            return Refused(Reason.DRAINING)
        return Refused(Reason.PREFACE_TIMEOUT, "outer_header")
    if header is None:
        return Probe.CLOSED_BEFORE_PREFACE
    if header.command is Command.LOCAL:
        return Probe.LOCAL
    visit.outer_length = header.length
    if isinstance(header.source, InetAddress):
        visit.gate.roster.comes_from(visit.connection, header.source)
        host = header.source.host
        if sources and not any(host in network for network in sources):
            return Refused(Reason.SOURCE_NOT_ALLOWED)
    visit.began_at = visit.gate.clock()
    return None


async def _header(visit: Visit) -> Header | None:
    """None: the sender has gone before its first byte. Raises PrefaceError."""
    buffer = b""
    while (header := read_header(buffer)) is None:
        data = receive_now(visit.client, bytes_wanted(buffer))
        if data is None:
            await visit.wait(trio.lowlevel.wait_readable, visit.client, until=visit.connection.deadline)
        elif data:
            buffer += data
        else:
            visit.peer_ended = True
            check_end(buffer)
            return None
    return header
