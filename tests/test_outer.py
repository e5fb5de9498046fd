"""A load balancer's header: whose address stands for the peer's, and what is wrong with one."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_network

import pytest
import trio

from sidecar.preface.proxy_v2 import Command, write_header
from sidecar.reasons import Probe, Reason, Refused
from tests.house import House, LocalProcess
from tests.names import inet, preface

DIALLER = inet("203.0.113.9", 40001)
HEADER = write_header(source=DIALLER, destination=inet("192.0.2.1", 7101))
EVERYBODY = ()


@pytest.fixture
def process():
    each = LocalProcess()
    yield each
    each.server.close()


class Balanced(House):
    """A house behind a load balancer; the controllers' ends are closed after the test."""

    def __init__(self, nursery, process):
        super().__init__(nursery, process)
        self.gate = replace(self.gate, outer_sources=EVERYBODY)
        self.controllers = []

    async def dial(self):
        controller, connection, _ = await self.connect()
        self.controllers.append(controller)
        return controller, connection


@pytest.fixture
async def house(nursery, process):
    each = Balanced(nursery, process)
    yield each
    for controller in each.controllers:
        await trio.aclose_forcefully(controller)


@pytest.mark.parametrize("cut", [1, 12, len(HEADER) - 1, len(HEADER), len(HEADER) + 5])
async def test_it_may_come_in_pieces_and_with_what_follows_it(house, process, cut):
    controller, connection = await house.dial()
    data = HEADER + preface() + b"payload"
    await controller.send_all(data[:cut])
    await trio.testing.wait_all_tasks_blocked()
    await controller.send_all(data[cut:])
    async with await process.accept() as upstream:
        with trio.fail_after(5):
            assert await upstream.receive_some(100) == b"payload"
        assert connection.peer == DIALLER


@pytest.mark.parametrize(
    ("data", "refused"),
    [
        (b"\x16\x03\x01", Refused(Reason.PREFACE_MISSING, "outer_missing")),
        (b"\r\n\r\n\x00\r\nQUIX", Refused(Reason.PREFACE_MALFORMED, "outer_bad_signature")),
        (HEADER[:20], Refused(Reason.PREFACE_MALFORMED, "outer_truncated")),
    ],
)
async def test_its_faults_say_that_they_are_its_own(house, data, refused):
    controller, _ = await house.dial()
    await controller.send_all(data)
    await controller.send_eof()
    await house.settled(("refused", refused))


async def test_a_health_check_by_it_is_a_probe(house):
    controller, _ = await house.dial()
    await controller.send_all(write_header(source=None, destination=None, command=Command.LOCAL))
    await controller.send_eof()
    await house.settled(("probe", Probe.LOCAL))


async def test_an_end_before_the_first_byte_is_one_too(house):
    controller, _ = await house.dial()
    await controller.send_eof()
    await house.settled(("probe", Probe.CLOSED_BEFORE_PREFACE))


async def test_sources_go_by_the_address_in_it(house):
    house.gate = replace(house.gate, outer_sources=(ip_network("198.51.100.0/24"),))
    controller, connection = await house.dial()
    await controller.send_all(HEADER + preface())
    await controller.send_eof()
    await house.settled(("refused", Refused(Reason.SOURCE_NOT_ALLOWED)))
    assert connection.peer == DIALLER


async def test_one_that_never_comes_is_a_preface_that_never_came(house, mock_clock):
    controller, _ = await house.dial()
    await controller.send_all(HEADER[:7])
    await trio.testing.wait_all_tasks_blocked()
    mock_clock.jump(5.1)
    await controller.send_eof()
    with trio.fail_after(60):
        await house.roster.wait_empty()
    assert house.journal.events == [("refused", Refused(Reason.PREFACE_TIMEOUT, "outer_header"))]


async def test_who_waits_counts_against_whom_it_names(house):
    controller, connection = await house.dial()
    await controller.send_all(HEADER[:7])
    await trio.testing.wait_all_tasks_blocked()
    assert house.roster._undecided.keys() == {inet("127.0.0.1", 1).host}
    await controller.send_all(HEADER[7:])
    await trio.testing.wait_all_tasks_blocked()
    assert house.roster._undecided.keys() == {DIALLER.host}
    await controller.send_eof()
    with trio.fail_after(5):
        await house.roster.wait_empty()
    assert connection.peer == DIALLER
