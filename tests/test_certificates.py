"""The certificates that the listeners serve, and what comes of a change."""

from __future__ import annotations

import io
import json
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest
import trio
from prometheus_client import CollectorRegistry

from sidecar.certificates import Certificates
from sidecar.config import load
from sidecar.errors import StartError
from sidecar.log import LogSwitch, build_logger
from sidecar.metrics import Metrics, State
from sidecar.presented import Presented
from tests.certificates import HOUR, now, pem
from tests.tls_volumes import ROOT, write_all

TEXT = """
identity: {{cluster: prod-eu, replica: replica-a, ordinal: 2}}
assignment: {{instance: u-1}}
tls: {{certificate: {0}/tls.crt, key: {0}/tls.key, client_ca: {0}/ca.crt, crl: "{1}", allow: ["spiffe://example.org/**"]}}
listeners:
  - {{name: a, listen: ":7101", upstream: "127.0.0.1:2101"}}
  - {{name: b, listen: ":7102", upstream: "127.0.0.1:2102", tls: {{allow: ["spiffe://example.org/x"]}}}}
  - {{name: c, listen: ":7103", upstream: "127.0.0.1:2103", tls: {{min_version: "1.2"}}}}
  - {{name: d, listen: ":7104", upstream: "127.0.0.1:2104", tls: none}}
"""


class House:
    def __init__(self, folder, *, crl="", leaf=None, text=TEXT):
        self.folder = folder
        write_all(folder, leaf or ROOT.issue())
        self.config = load(text.format(folder, crl), file="test.yaml", environ={})
        self.stream, self.registry, self.cuts = io.StringIO(), CollectorRegistry(), []
        logger = build_logger("json", "info", self.stream, LogSwitch(self.stream))
        metrics = Metrics(self.registry, listeners=["a", "b", "c", "d"], wall_clock=now)
        self.offset = 0.0
        roster = SimpleNamespace(cut_outdated=lambda: self.cuts.append(trio.current_time()))
        self.each = Certificates(self.config, metrics, logger, roster, lambda: now() + self.offset)

    def prover(self, name):
        return self.each.prover(next(each for each in self.config.listeners if each.name == name))

    def value(self, name, **labels):
        return self.registry.get_sample_value(f"identity_sidecar_{name}", labels)

    def lines(self, event):
        lines = [json.loads(line) for line in self.stream.getvalue().splitlines()]
        return [line for line in lines if line["event"] == event]

    @asynccontextmanager
    async def running(self):
        with trio.fail_after(30):
            await self.each.begin()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.each.run)
                yield self
                nursery.cancel_scope.cancel()

    async def until(self, happened):
        while not happened():
            await trio.sleep(0.02)


async def test_listeners_with_the_same_files_serve_the_same_context(tmp_path):
    async with House(tmp_path).running() as house:
        assert house.prover("a").served is house.prover("b").served
        assert house.prover("a").served is not house.prover("c").served
        assert house.prover("d") is None
        assert len(house.lines("certificate_served")) == 2


async def test_what_is_served_is_shown(tmp_path):
    leaf = ROOT.issue(start=-HOUR, end=2 * HOUR)
    async with House(tmp_path, leaf=leaf).running() as house:
        certificate = leaf.certificate
        assert house.value("certificate_not_before_timestamp_seconds") == certificate.not_valid_before_utc.timestamp()
        expiry = certificate.not_valid_after_utc.timestamp()
        assert house.value("certificate_expiry_timestamp_seconds", kind="served") == expiry
        ca = ROOT.certificate.not_valid_after_utc.timestamp()
        assert house.value("certificate_expiry_timestamp_seconds", kind="ca") == ca
        assert house.value("tls_reloads_total", result="ok") == 0


async def test_a_change_is_counted_and_only_that_of_a_list_looks_at_who_is_here(tmp_path):
    crl = tmp_path / "crl.pem"
    crl.write_bytes(pem(ROOT.crl()))
    async with House(tmp_path, crl=str(crl)).running() as house:
        write_all(tmp_path, ROOT.issue())
        await house.until(lambda: house.value("tls_reloads_total", result="ok") == 2)
        assert house.cuts == []
        crl.write_bytes(pem(ROOT.crl(number=2)))
        await house.until(lambda: len(house.cuts) == 2)
        assert house.value("tls_reloads_total", result="ok") == 4


async def test_what_cant_be_used_is_counted_and_said_and_changes_nothing(tmp_path):
    async with House(tmp_path).running() as house:
        before = house.prover("a").served
        (tmp_path / "tls.key").write_bytes(b"")
        await house.until(lambda: house.value("tls_reloads_total", result="failed") == 2)
        assert house.prover("a").served is before
        line = house.lines("certificate_refused")[0]
        assert line["problems"][0].startswith(f"{tmp_path}/tls.key: holds no private key")


async def test_a_start_with_files_that_cant_be_used_says_which(tmp_path):
    house = House(tmp_path)
    (tmp_path / "ca.crt").unlink()
    with pytest.raises(StartError, match=r"ca.crt: doesn't exist"):
        await house.each.begin()


async def test_readiness_hangs_on_a_certificate_in_date(tmp_path):
    async with House(tmp_path, leaf=ROOT.issue(end=HOUR)).running() as house:
        assert house.each.obstacles() == []
        house.offset = 2 * HOUR
        (obstacle,) = house.each.obstacles()
        assert obstacle.state is State.CERTIFICATE_UNUSABLE
        assert "no certificate in date" in obstacle.words


async def test_a_certificate_of_tomorrow_is_said_to_wait_and_nothing_is_ready_meanwhile(tmp_path):
    async with House(tmp_path, leaf=ROOT.issue(start=HOUR, end=2 * HOUR)).running() as house:
        assert house.prover("a").served is None
        assert [each.state for each in house.each.obstacles()] == [State.CERTIFICATE_UNUSABLE]
        assert house.lines("certificate_served") == []
        line = house.lines("certificate_waits")[0]
        assert line["certificate"] == f"{tmp_path}/tls.crt"
        house.offset = HOUR + 1
        await house.until(lambda: house.prover("a").served is not None and house.prover("c").served is not None)
        assert house.each.obstacles() == []
        served = house.lines("certificate_served")[0]
        assert served["not_before"] == line["not_before"]
        assert len(house.lines("certificate_served")) == 2
        assert house.value("tls_reloads_total", result="ok") == 0, "the first is no reload"


async def test_what_is_served_is_said_by_serial_and_time(tmp_path):
    leaf = ROOT.issue(start=-HOUR, end=2 * HOUR)
    async with House(tmp_path, leaf=leaf).running() as house:
        line = house.lines("certificate_served")[0]
        assert line["serial"] == f"{leaf.certificate.serial_number:x}"
        assert line["not_before"] == f"{leaf.certificate.not_valid_before_utc:%Y-%m-%dT%H:%M:%SZ}"
        assert line["not_after"] == f"{leaf.certificate.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}"


async def test_a_poke_says_once_more_what_is_wrong(tmp_path):
    async with House(tmp_path).running() as house:
        (tmp_path / "tls.key").write_bytes(b"")
        await house.until(lambda: house.value("tls_reloads_total", result="failed") == 2)
        house.each.poke()
        await house.until(lambda: house.value("tls_reloads_total", result="failed") == 4)


async def test_peers_are_looked_at_each_second_where_one_listener_asks_for_that(tmp_path):
    house = House(tmp_path, text=TEXT.replace('min_version: "1.2"', "close_on_certificate_expiry: true"))
    async with house.running():
        await house.until(lambda: len(house.cuts) == 3)
    first, second, third = house.cuts
    assert min(second - first, third - second) >= 0.9


async def test_where_none_does_nobody_is_looked_at(tmp_path):
    async with House(tmp_path).running() as house:
        await trio.sleep(1.2)
        assert house.cuts == []


async def test_a_listeners_own_rule_holds_for_what_the_same_files_prove(tmp_path):
    async with House(tmp_path).running() as house:
        shown = Presented(
            uris=("spiffe://example.org/y",),
            dns_names=(),
            signs=False,
            not_after=now() + HOUR,
            revocable=(),
            trust_domains=frozenset(),
        )
        served = SimpleNamespace(peers=SimpleNamespace(of=lambda _connection: shown))
        proven = {each: house.prover(each).proved(SimpleNamespace(connection=None), served)[1].proven for each in "abc"}
        assert proven == {"a": True, "b": False, "c": True}


async def test_a_fault_of_ours_is_counted_and_said(tmp_path, monkeypatch):
    house = House(tmp_path)

    def broken(_crls):
        raise ZeroDivisionError("here")

    async with house.running():
        monkeypatch.setattr("sidecar.tls.rotation.check_crls", broken)
        write_all(tmp_path, ROOT.issue())
        await house.until(lambda: house.value("tls_reloads_total", result="failed") == 2)
    line = house.lines("internal_error")[0]
    assert line["step"] == "certificates"
    assert "ZeroDivisionError" in line["exception"]


async def test_without_tls_nothing_is_read_and_nothing_is_in_the_way(tmp_path):
    plain = "\n".join(
        line for line in TEXT.format(tmp_path, "").splitlines() if "tls: {" not in line and "name: a" not in line
    )
    config = load(plain, file="test.yaml", environ={})
    each = Certificates(config, None, None, None, now)
    await each.begin()
    assert each.obstacles() == []
