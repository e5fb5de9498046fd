"""The metrics page of a running sidecar: bounded, well-formed, and right at any moment."""

from __future__ import annotations

import itertools
import random
import socket
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from functools import partial
from ipaddress import ip_address

import pytest
from conftest import Start
from kernel import receive_all, reset
from names import CLAIM, WRONG, preface
from processes import eventually
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from replica import LocalProcess, Scrape, Sidecar

from sidecar.identity import Identity
from sidecar.preface.proxy_v2 import Command, write_header

KiB = 1 << 10
PLAIN = "text/plain; version=0.0.4; charset=utf-8"


def test_ten_thousand_strangers_make_no_new_series(start: Start) -> None:
    sidecar = start(log={"level": "info", "refusals_per_second": 1})
    before = sidecar.scrape()
    strangers = (
        (str(ip_address("127.2.0.0") + number), replace(CLAIM, identity=Identity("stranger", f"r-{number}", number)))
        for number in range(10_000)
    )
    with sidecar.counting(identity_mismatch=10_000):
        while some := list(itertools.islice(strangers, 50)):
            with ExitStack() as open_until_read:
                clients = [open_until_read.enter_context(sidecar.dial(claim, source=source)) for source, claim in some]
                assert all(receive_all(client) == b"" for client in clients)
    after = sidecar.scrape()
    assert series(after) == series(before)
    assert len(sidecar.page("/metrics").body) < 64 * KiB


def series(scrape: Scrape) -> set[tuple[str, str]]:
    return {(sample.name, str(sorted(sample.labels.items()))) for sample in scrape.samples}


def test_free_text_in_a_label_survives_the_page(start: Start) -> None:
    instance = 'pod"7\\n{a="b"},'
    sidecar = start(assignment={"instance": instance})
    assert sidecar.scrape().total("assignment_info", identity="prod-eu/replica-a/2", pod_uid=instance) == 1


@pytest.mark.parametrize(
    "accept",
    ["", "*/*", "text/plain", "text/plain;version=0.0.4", "nonsense", "application/json, text/html;q=0.5", ";;;,q="],
)
def test_the_plain_format_goes_to_everybody_who_does_not_ask_for_another(accept: str, sidecar: Sidecar) -> None:
    page = sidecar.page("/metrics", accept=accept) if accept else sidecar.page("/metrics")
    assert (page.status, page.content_type) == (200, PLAIN)
    assert not page.body.endswith("# EOF\n")
    assert Scrape.parse(page.body).total("build_info") == 1


def test_openmetrics_goes_to_who_asks_for_it_and_is_what_it_says(sidecar: Sidecar) -> None:
    page = sidecar.page("/metrics", accept="application/openmetrics-text;version=1.0.0,text/plain;q=0.5")
    assert (page.status, page.content_type) == (200, "application/openmetrics-text; version=1.0.0; charset=utf-8")
    assert page.body.endswith("# EOF\n")
    assert sum(len(family.samples) for family in parse_openmetrics(page.body)) > 100


def test_every_connection_is_in_exactly_one_place_at_every_scrape(
    start: Start, own_local_process: LocalProcess
) -> None:
    sidecar = start(assignment={"timeout": "300ms"}, timeouts={"preface": "500ms"})
    chance = random.Random(1)
    visitors = Visitors(sidecar, own_local_process)
    with closing(visitors):
        for _ in range(150):
            chance.choice(visitors.doings)()
            add_up(sidecar.scrape())
    assert eventually(lambda: sidecar.scrape().total("connections_active") == 0)
    last = sidecar.scrape()
    add_up(last)
    assert last.total("connections_accepted_total") == visitors.came


def add_up(scrape: Scrape) -> None:
    admitted = scrape.total("connections_admitted_total")
    pending = scrape.total("connections_active", state="pending")
    settled = admitted + scrape.total("connections_rejected_total") + scrape.total("probes_total")
    assert scrape.total("connections_accepted_total") == settled + pending
    assert scrape.total("connections_active", state="admitted") == admitted - scrape.total("connections_ended_total")


class Visitors:
    """Connections of every kind that come, stay for a while, and go in one way or another."""

    def __init__(self, sidecar: Sidecar, local_process: LocalProcess) -> None:
        self._sidecar = sidecar
        self._local_process = local_process
        self._here: list[socket.socket] = []
        self.came = 0
        self.doings: list[Callable[[], None]] = [
            self.come_and_stay,
            self.go_in_order,
            self.go_with_a_reset,
            *(partial(self.come_and_say, data) for data in SAYINGS),
        ]

    def come_and_say(self, data: bytes) -> None:
        client = self._sidecar.connect()
        client.sendall(data)
        self._here.append(client)
        self.came += 1

    def come_and_stay(self) -> None:
        self._here += self._sidecar.admit(self._local_process)
        self.came += 1

    def go_in_order(self) -> None:
        if self._here:
            self._here.pop(0).close()

    def go_with_a_reset(self) -> None:
        if self._here:
            reset(self._here.pop())

    def close(self) -> None:
        """All go."""
        for sock in self._here:
            sock.close()


SAYINGS = [
    b"",
    preface()[:20],
    preface(WRONG),
    preface(WRONG, answer=True) + b"more",
    b"GET / HTTP/1.1\r\n\r\n",
    write_header(source=None, destination=None, command=Command.LOCAL),
]
