"""A relay without its thread: a reactor that the test turns by hand, on a clock that it sets, and pairs in it."""

from __future__ import annotations

import select
import socket
from contextlib import ExitStack
from pathlib import Path

from sidecar.relay.pair import Pair
from sidecar.relay.pipes import PipePool
from sidecar.relay.reactor import Reactor
from sidecar.relay.side import CHUNK, Shared
from sidecar.relay.terms import Fence, RelayTimes, Terms, Traffic

FOREVER = RelayTimes(half_close=None, idle=None, lifetime=None)


def tcp(*, buffers: int | None = None) -> tuple[socket.socket, socket.socket]:
    """Two ends of one TCP connection over loopback, neither of which blocks; *buffers*: bytes for each buffer."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.socket()
        for sock in (server, near):
            if buffers is not None:  # before connecting, so that the window is never announced larger
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffers)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffers)
        near.connect(server.getsockname())
        far, _ = server.accept()
    for sock in (near, far):
        sock.setblocking(False)
    return near, far


class Loop:
    """A reactor, a clock, and everything that a pair needs. The test is its thread."""

    def __init__(self, *, pipes: int = 4):
        self.now = 1000.0
        self.reactor = Reactor(lambda action: action(), clock=lambda: self.now)
        self.pipes = PipePool(pipes)
        self.shared = Shared(self.reactor, self.pipes, memoryview(bytearray(CHUNK)))
        self.fence = Fence()
        self.total = Traffic()
        self.closing = ExitStack()

    def turn(self, times: int = 20) -> None:
        """Let everything happen that is to happen now."""
        for _ in range(times):
            self.reactor.turn(0.002)

    def until(self, happened, *, turns: int = 3000) -> None:
        """Turn until *happened*."""
        for _ in range(turns):
            if happened():
                return
            self.now += 0.002
            self.reactor.turn(0.002)
        raise AssertionError("it never happened")

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.turn()

    def pair(self, *, times=FOREVER, answer=b"", header=b"", to_upstream=b"", buffers=None, unix=False, session=None):
        return Relayed(self, times, answer, header, to_upstream, buffers, unix, session)

    def close(self) -> None:
        self.reactor.close()
        self.pipes.close()
        self.closing.close()


def descriptors() -> int:
    """How many this process has open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def clog(loop: Loop, sock: socket.socket) -> int:
    """Send until nothing is taken any more: how much was."""
    sent = 0
    while True:
        try:
            sent += sock.send(bytes(65536))
        except BlockingIOError:
            return sent
        loop.turn(3)


class Relayed:
    """A pair in the loop, and the outer ends of both of its connections, which the test holds."""

    def __init__(self, loop, times, answer, header, to_upstream, buffers, unix, session):
        self.loop = loop
        self.client, self.far_client = tcp(buffers=buffers)
        if unix:
            self.process, self.far_process = socket.socketpair()
            self.process.setblocking(False)
            self.far_process.setblocking(False)
        else:
            self.process, self.far_process = tcp(buffers=buffers)
        for sock in (self.client, self.process):
            loop.closing.enter_context(sock)
        self.traffic = Traffic()
        self.outcomes = []
        terms = Terms(times, loop.fence, self.traffic, loop.total)
        self.session = None if session is None else session(self.far_client)
        self.pair = Pair(loop.shared, self.far_client, self.far_process, terms, self.outcomes.append, self.session)
        self.pair.begin(answer=answer, header=header, to_upstream=to_upstream)

    @property
    def end(self):
        return self.outcomes[0].end if self.outcomes else None

    @property
    def closed(self):
        return self.far_client.fileno() == self.far_process.fileno() == -1


def received(sock: socket.socket, most: int = 1 << 20) -> bytes | None:
    """What has come; empty at the end of the stream; None: nothing. Raises ConnectionResetError at an RST."""
    try:
        return sock.recv(most)
    except BlockingIOError:
        return None


def is_reset(sock: socket.socket) -> bool:
    """Whether the connection broke by an RST, whatever was there to be read before it."""
    poll = select.poll()
    poll.register(sock, 0)
    return any(events & select.POLLERR for _, events in poll.poll(200))
