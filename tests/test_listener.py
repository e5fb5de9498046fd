"""The accept loop: who is refused before a byte, and that no error of the kernel ends it."""

from __future__ import annotations

import errno
import socket
from contextlib import ExitStack
from ipaddress import ip_network
from types import SimpleNamespace

import pytest
import trio
import trio.testing
from prometheus_client import CollectorRegistry

from sidecar.accept import AcceptFailed
from sidecar.bind import BACKLOG
from sidecar.listener import BACK_OFF_SECONDS, SAY_AGAIN_SECONDS, Listener
from sidecar.metrics import Metrics
from sidecar.reasons import Reason, Refused
from sidecar.roster import Roster


class RecordingGate:
    """Keeps what it is given to serve."""

    def __init__(self, metrics, roster):
        self.metrics, self.roster = metrics.listener("compute"), roster
        self.times = SimpleNamespace(keepalive=30.0)
        self.clock = trio.current_time
        self.relay = SimpleNamespace(arrived=lambda: None)
        self.served = []
        self.serve_ended = trio.Event()


def record(_nursery, gate, sock, connection, verdict):
    """Stands where the spine does."""
    with sock:
        gate.served.append((connection, verdict))
        gate.serve_ended.set()
    gate.roster.leave(connection)


@pytest.fixture(autouse=True)
def no_spine(monkeypatch):
    monkeypatch.setattr("sidecar.listener.begin", record)


class RecordingLogger:
    def __init__(self):
        self.warnings = []

    def warning(self, event, **fields):
        self.warnings.append((trio.current_time(), event, fields))


@pytest.fixture
def registry():
    return CollectorRegistry()


@pytest.fixture
def logger():
    return RecordingLogger()


def listener(registry, logger, *, sources=(), connections=9):
    metrics = Metrics(registry, listeners=["compute"], wall_clock=lambda: 0.0)
    gate = RecordingGate(metrics, Roster(connections=connections, pending=9))
    return Listener("compute", [ip_network(each) for each in sources], lambda: gate, metrics, logger), gate


async def dial(each, gate):
    (listening,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listening, trio.open_nursery() as nursery:
        nursery.start_soon(each.serve, listening, nursery)
        with socket.create_connection(listening.socket.getsockname()) as client:
            with trio.fail_after(5):
                await gate.serve_ended.wait()
            name = client.getsockname()
        nursery.cancel_scope.cancel()
    return name


async def test_a_connection_gets_its_place_and_its_task(registry, logger):
    each, gate = listener(registry, logger)
    name = await dial(each, gate)
    ((connection, verdict),) = gate.served
    assert verdict is None
    assert connection.listener == "compute"
    assert (str(connection.peer.host), connection.peer.port) == name
    labels = {"listener": "compute"}
    assert registry.get_sample_value("identity_sidecar_connections_accepted_total", labels) == 1


@pytest.mark.parametrize(
    ("sources", "verdict"),
    [
        (["127.0.0.0/8"], None),
        (["10.0.0.0/8", "127.0.0.1/32"], None),
        (["10.0.0.0/8"], Refused(Reason.SOURCE_NOT_ALLOWED)),
        (["::1/128"], Refused(Reason.SOURCE_NOT_ALLOWED)),
    ],
)
async def test_an_address_that_may_not_connect_is_refused_before_it_says_anything(registry, logger, sources, verdict):
    each, gate = listener(registry, logger, sources=sources)
    await dial(each, gate)
    assert [given for _, given in gate.served] == [verdict]


async def test_when_every_place_is_taken_a_connection_is_refused_at_accept(registry, logger):
    each, gate = listener(registry, logger, connections=1)
    holder = gate.roster.enter("compute", None, None, 0.0)
    assert gate.roster.take_place(holder)
    await dial(each, gate)
    assert [given for _, given in gate.served] == [Refused(Reason.OVER_CAPACITY)]


async def test_those_in_the_queue_are_taken_before_it_is_closed(registry, logger, nursery):
    each, gate = listener(registry, logger)
    (listening,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listening:
        with ExitStack() as clients:
            for _ in range(3):
                clients.enter_context(socket.create_connection(listening.socket.getsockname()))
            each.take_last(listening, nursery)
        await trio.testing.wait_all_tasks_blocked()
    assert len(gate.served) == 3


class FailingAcceptor:
    """Has no connection to give: the same error every time."""

    def __init__(self, number):
        self._number = number
        self.attempts = 0

    def __call__(self, _listening):
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def keep_alive(self, seconds):
        pass

    async def wait(self):
        await trio.lowlevel.checkpoint()
        if self.attempts > 10_000:
            await trio.sleep_forever()  # a loop that doesn't wait would otherwise never let the clock jump

    def accept(self):
        self.attempts += 1
        raise AcceptFailed(OSError(self._number, "Too many open files"))


@pytest.fixture
def failing(monkeypatch):
    def install(number):
        acceptor = FailingAcceptor(number)
        monkeypatch.setattr("sidecar.listener.Acceptor", acceptor)
        return acceptor

    return install


async def test_an_error_while_the_queue_is_taken_costs_no_one_else(registry, logger, nursery, failing):
    each, _ = listener(registry, logger)
    acceptor = failing(errno.ECONNABORTED)
    each.take_last(None, nursery)
    assert acceptor.attempts == BACKLOG, "and one who goes on coming doesn't hold up the end"


async def test_out_of_descriptors_it_waits_and_says_so_once_a_second(
    registry, logger, nursery, failing, autojump_clock
):
    each, _ = listener(registry, logger)
    acceptor = failing(errno.EMFILE)
    nursery.start_soon(each.serve, None, nursery)
    await trio.sleep(5.05)
    nursery.cancel_scope.cancel()
    attempts = acceptor.attempts
    assert attempts == pytest.approx(5 / BACK_OFF_SECONDS, abs=2)
    assert len(logger.warnings) == pytest.approx(5 / SAY_AGAIN_SECONDS, abs=1)
    assert logger.warnings[0][1:] == ("accept_failed", {"listener": "compute", "error": "Too many open files"})
    labels = {"kind": "emfile"}
    assert registry.get_sample_value("identity_sidecar_accept_errors_total", labels) == attempts


async def test_an_error_of_one_connection_makes_it_wait_for_nothing(registry, logger, nursery, failing, autojump_clock):
    each, _ = listener(registry, logger)
    acceptor = failing(errno.ECONNABORTED)
    nursery.start_soon(each.serve, None, nursery)
    await trio.sleep(1)
    nursery.cancel_scope.cancel()
    assert acceptor.attempts > 1000
    assert len(logger.warnings) == 1
