"""Gates follow the configuration in effect, and keep what must outlive a reload."""

from types import SimpleNamespace

import pytest
import trio
from prometheus_client import CollectorRegistry

from sidecar.assignment import Assignment
from sidecar.certificates import Certificates
from sidecar.config import load
from sidecar.epoch_floor import EpochFloor
from sidecar.floor import FloorInMemory
from sidecar.gates import Gates
from sidecar.metrics import Metrics
from sidecar.reasons import Advice, End
from sidecar.relay import boot_clock
from sidecar.roster import Roster, Step
from sidecar.standing import Standing

TEXT = """
identity: {cluster: prod-eu, replica: replica-a, ordinal: 2}
assignment: {instance: u-1, generation: {file: /etc/podinfo/generation}, ahead_wait: 3s}
listeners:
  - {name: a, listen: ":7101", upstream: "127.0.0.1:2101", tls: none, concurrency: exclusive}
  - {name: b, listen: ":7102", upstream: "127.0.0.1:2102", tls: none, unsafe_epoch: true, epoch_scope: s}
"""


def gates(text=TEXT):
    front = SimpleNamespace(newest=Assignment(), latest=Assignment(), floor_fault="")
    registry = CollectorRegistry()
    metrics = Metrics(registry, listeners=["a", "b"], wall_clock=lambda: 0.0)
    each = Gates(
        config(text),
        standing=Standing(SimpleNamespace(pending=list), front, FloorInMemory()),
        roster=Roster(connections=9, pending=9),
        lifecycle=SimpleNamespace(refusing=False),
        relay=None,
        lifelines={},
        parting=None,
        metrics=metrics,
        journal=None,
        certificates=Certificates(config(text), metrics, None, None, lambda: 0.0),
    )
    return each, registry


def config(text=TEXT):
    return load(text, file="test.yaml", environ={})


async def test_each_listener_has_its_own():
    each, _ = gates()
    assert each.of("a").exclusive is not None
    assert each.of("b").exclusive is None
    assert each.of("a").epoch_floor is None
    floor = each.of("b").epoch_floor
    assert isinstance(floor, EpochFloor)
    assert floor.scope == "s"
    assert str(each.of("b").upstream) == "127.0.0.1:2102"


async def test_files_catch_up_and_so_a_claim_that_is_ahead_waits_and_comes_again():
    each, _ = gates()
    assert each.of("a").times.ahead == 3
    assert each.of("a").rules.ahead_advice is Advice.RETRY
    each, _ = gates(TEXT.replace("{file: /etc/podinfo/generation}, ahead_wait: 3s", '"7"'))
    assert each.of("a").times.ahead == 0
    assert each.of("a").rules.ahead_advice is Advice.RE_RESOLVE


async def test_a_rebuild_puts_new_values_into_effect_and_keeps_the_one_place():
    each, registry = gates()
    before = each.of("a")
    each.rebuild(config(TEXT + "timeouts: {idle: 5m}\nenforcement: shadow\n"))
    after = each.of("a")
    assert (before.relay_times.idle, after.relay_times.idle) == (None, 300)
    assert (before.shadow, after.shadow) == (False, True)
    assert after.exclusive is before.exclusive
    labels = {"listener": "a", "mode": "shadow"}
    assert registry.get_sample_value("identity_sidecar_enforcement_info", labels) == 1


async def test_when_the_shadow_ends_an_exclusive_listener_has_one_connection_again():
    each, _ = gates(TEXT + "enforcement: shadow\n")
    roster = each._roster
    connections = [roster.enter(name, None, None, 0.0) for name in ("a", "a", "b")]
    for connection in connections:
        roster.take_place(connection)
        connection.step = Step.ADMITTED
    each.of("a").exclusive.give(connections[0])
    each.rebuild(config(TEXT + "enforcement: shadow\n"))
    assert [connection.ended_by for connection in connections] == [None, None, None]
    each.rebuild(config(TEXT))
    assert [connection.ended_by for connection in connections] == [None, End.SUPERSEDED, None]


async def test_the_state_is_the_moments():
    each, _ = gates()
    assert not each.of("a").state().draining
    each._lifecycle.refusing = True
    assert each.of("a").state().draining
    each._standing.front.floor_fault = "disk full"
    assert each.of("a").state().floor is None


async def test_the_relay_holds_itself_to_the_freshness_of_what_it_rests_on_but_not_in_the_shadow():
    each, _ = gates(TEXT + "enforcement: shadow\n")
    each.fence(trio.current_time() + 30)
    assert each.of("a").fence.until == float("inf")
    each.rebuild(config())
    assert each.of("a").fence.until == pytest.approx(boot_clock() + 30, abs=1)
    each.fence(trio.current_time() + 60)
    assert each.of("a").fence.until == pytest.approx(boot_clock() + 60, abs=1)
