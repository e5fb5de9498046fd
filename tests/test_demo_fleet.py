from dataclasses import replace
from typing import ClassVar

import pytest
import trio

from sidecar.demo import fleet as module
from sidecar.demo.difference import DiffersError
from sidecar.demo.fleet import HOSTS, Fleet, choose_ports, new_instance
from sidecar.identity import Generation


class PodWithoutProcess:
    """Keeps what happens to it, and sees to it that an address is free before somebody comes there."""

    taken: ClassVar = set()

    def __init__(self, record, files):
        self.record = record
        self.names = []
        self.ended = False
        self._come(files)

    @classmethod
    async def launch(cls, record, ports, certificates, files, nursery):
        await trio.lowlevel.checkpoint()
        return cls(record, files)

    async def leave(self):
        await trio.lowlevel.checkpoint()
        self.taken.remove(self.record.host)

    async def arrive(self, host, files):
        await trio.lowlevel.checkpoint()
        self.record = replace(self.record, host=host)
        self._come(files)

    def move_on(self, generation):
        self.record = replace(self.record, generation=generation)

    async def end(self):
        await self.leave()
        self.ended = True

    def _come(self, files):
        assert self.record.host not in self.taken
        self.taken.add(self.record.host)
        self.names.append(files.name)


@pytest.fixture
async def fleet(monkeypatch, nursery, tmp_path):
    monkeypatch.setattr(module, "Pod", PodWithoutProcess)
    monkeypatch.setattr(PodWithoutProcess, "taken", set())
    return await Fleet.launch(tmp_path, nursery)


async def test_each_slot_has_its_address_and_a_first_life_of_its_own(fleet):
    records = [pod.record for pod in fleet]
    assert [record.host for record in records] == list(HOSTS)
    assert [str(record.identity) for record in records] == [f"demo/replica-a/{n}" for n in range(3)]
    assert {record.generation for record in records} == {Generation(1)}
    assert len({record.instance for record in records}) == 3


async def test_a_swap_moves_pods_and_ends_none(fleet):
    first, second, third = (pod.record for pod in fleet)
    before = list(fleet)
    await fleet.swap_addresses(0, 1)
    assert fleet.look_up(0) == replace(first, host=second.host)
    assert fleet.look_up(1) == replace(second, host=first.host)
    assert fleet.look_up(2) == third
    assert fleet.at(first.host) is fleet[1]
    assert list(fleet) == before
    assert not any(pod.ended for pod in fleet)


async def test_a_relaunch_is_a_new_life_at_the_same_address(fleet):
    before, old = fleet.look_up(2), fleet[2]
    await fleet.relaunch(2)
    now = fleet.look_up(2)
    assert now == replace(before, generation=Generation(2), instance=now.instance)
    assert now.instance != before.instance
    assert old.ended
    assert fleet[2] is not old


async def test_a_pod_that_moves_on_is_the_same_one_in_its_next_generation(fleet):
    before = fleet.look_up(1)
    fleet.move_on(1)
    assert fleet.look_up(1) == replace(before, generation=Generation(2))
    assert fleet[1].names == ["replica-1-start-1"]
    assert not fleet[1].ended


async def test_every_start_has_a_name_of_its_own(fleet):
    await fleet.swap_addresses(0, 1)
    await fleet.relaunch(2)
    assert fleet[0].names == ["replica-0-start-1", "replica-0-start-2"]
    assert fleet[2].names == ["replica-2-start-2"]


def test_instances_differ():
    assert new_instance() != new_instance()


async def test_the_ports_are_three_and_free_at_every_address():
    ports = await choose_ports()
    assert len({ports.shard, ports.telemetry, ports.admin}) == 3
    for host in HOSTS:
        for port in (ports.shard, ports.telemetry, ports.admin):
            (listener,) = await trio.open_tcp_listeners(port, host=host)
            await listener.aclose()


async def test_an_address_that_is_not_this_hosts_is_a_difference(monkeypatch):
    monkeypatch.setattr(module, "HOSTS", ("127.0.0.2", "192.0.2.1"))  # TEST-NET-1: nobody's
    with pytest.raises(DiffersError, match="ports on loopback"):
        await choose_ports()
