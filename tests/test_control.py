"""What the HTTP servers see of the process is what the flow's objects say."""

import io

import trio
from prometheus_client import CollectorRegistry

from sidecar.assignment import Assignment, Unassigned
from sidecar.control import ProcessControl
from sidecar.identity import Generation
from sidecar.lifecycle import Lifecycle
from sidecar.log import RefusalLog, build_logger
from sidecar.metrics import Metrics
from sidecar.preface.claim import ReceivedClaim
from sidecar.reasons import Reason
from sidecar.roster import Roster, Step
from tests.names import OWN, U1, inet


class Reloading:
    """A configuration whose file is wrong."""

    async def from_file(self):
        return ["no"]


class Known:
    """An authority of which only the newest reading is asked."""

    def __init__(self, newest):
        self.newest = newest


def control(reading=Assignment(Generation(7), U1)):  # noqa: B008
    roster = Roster(connections=9, pending=9)
    lifecycle = Lifecycle(roster, obstacles=list, delay=0, timeout=25, on_state=lambda _: None)
    refusals = RefusalLog(
        build_logger("json", "info", io.StringIO()), per_second=9, clock=trio.current_time, on_suppressed=lambda: None
    )
    metrics = Metrics(CollectorRegistry(), listeners=["compute"], wall_clock=lambda: 0.0)
    addresses = {"compute": ["127.0.0.1:7101"]}
    return ProcessControl(OWN, Known(reading), lifecycle, roster, metrics, refusals, addresses, Reloading())


async def test_the_status_says_who_this_is_and_what_it_does():
    each = control()
    each.lifecycle.start()
    status = each.status()
    assert (status.identity, status.generation, status.instance) == ("prod-eu/replica-a/2", 7, str(U1))
    assert (status.state, status.not_ready, status.draining) == ("ready", [], False)
    (listener,) = status.listeners
    assert (listener.name, listener.addresses) == ("compute", ["127.0.0.1:7101"])
    assert listener.counts == each.metrics.listener("compute").counts()


async def test_the_status_shows_each_live_connection(autojump_clock):
    each = control()
    now = trio.current_time()
    connection = each.roster.enter("compute", inet("192.0.2.9", 5), inet("127.0.0.1", 7101), now)
    connection.claim = ReceivedClaim(OWN, Generation(7))
    connection.step = Step.ADMITTED
    connection.traffic.up, connection.traffic.down = 10, 20
    each.roster.enter("compute", None, None, now)
    await trio.sleep(3)
    first, second = each.status().connections
    assert (first.peer, first.local, first.state, first.seconds) == ("192.0.2.9:5", "127.0.0.1:7101", "admitted", 3.0)
    assert first.claim == {"identity": "prod-eu/replica-a/2", "generation": "7"}
    assert (first.bytes_up, first.bytes_down) == (10, 20)
    assert (second.peer, second.claim, second.state) == ("unix", {}, "preface")


async def test_what_is_not_known_is_none():
    status = control(Unassigned(pending=True)).status()
    assert (status.generation, status.instance) == (None, None)


async def test_health_and_buttons_are_the_lifecycles():
    each = control()
    assert not each.started()
    each.lifecycle.start()
    assert each.started()
    assert each.not_ready() == []
    each.drain()
    assert each.status().draining
    assert each.not_ready() == ["draining"]
    each.shutdown()
    assert each.not_ready() == ["stopping"]


async def test_a_reload_says_what_is_wrong():
    assert await control().reload() == ["no"]


async def test_refusals_are_those_that_were_logged():
    each = control()
    each.log.refused("connection_refused", Reason.DRAINING, lambda: {"peer": "192.0.2.9:5"})
    (refusal,) = each.refusals()
    assert (refusal["reason"], refusal["peer"]) == ("draining", "192.0.2.9:5")
