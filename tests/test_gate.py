"""What a connection's steps share."""

from dataclasses import replace

from sidecar.admission import Holder, Requirement
from sidecar.assignment import Assignment, Unavailable
from sidecar.exclusive import Exclusive
from sidecar.gate import Visit
from sidecar.handshake import Wait
from sidecar.identity import ControllerName, Epoch
from sidecar.metrics import Basis
from sidecar.reasons import Reason, Refused
from sidecar.roster import Connection
from tests.names import CLAIM, preface


def visit(house, claim=None):
    each = Visit(house.gate, None, house.enter())
    if claim is not None:
        assert each.handshake.receive(preface(claim), house.gate.state()) is Wait.AUTHORITY
    return each


async def test_the_state_of_an_exclusive_listener_names_who_holds_it(house):
    assert house.gate.state().holder is None
    place = Exclusive()
    holder = Connection(1, "compute", None, None, 0.0)
    holder.controller = ControllerName("c")
    place.give(holder)
    house.gate = replace(house.gate, exclusive=place)
    assert house.gate.state().holder == Holder(ControllerName("c"), None)


async def test_an_epoch_counts_as_checked_only_where_epochs_are_required(house):
    claim = replace(CLAIM, epoch=Epoch(5))
    assert visit(house, claim).checked_epoch is None
    house.require(also={Requirement.EPOCH})
    assert visit(house, claim).checked_epoch == Epoch(5)
    assert visit(house).checked_epoch is None


async def test_without_a_record_this_side_is_known_by_its_name_alone(house):
    house.authority.newest = Unavailable("down")
    assert visit(house).assignment == Assignment()


async def test_the_shadow_counts_a_connection_once_whatever_else_is_wrong_with_it(house):
    house.gate = replace(house.gate, shadow=True)
    each = visit(house)
    assert each.shadow_passes(Refused(Reason.IDENTITY_MISMATCH))
    assert each.shadow_passes(Refused(Reason.GENERATION_STALE))
    assert each.basis is Basis.SHADOW
    assert house.counts()["shadow_rejected"] == {"identity_mismatch": 1}


async def test_what_is_no_wrong_claim_passes_in_no_mode(house):
    assert not visit(house).shadow_passes(Refused(Reason.IDENTITY_MISMATCH))
    house.gate = replace(house.gate, shadow=True)
    for reason in (Reason.DRAINING, Reason.OVER_CAPACITY, Reason.PREFACE_TIMEOUT, Reason.UPSTREAM_UNAVAILABLE):
        assert not visit(house).shadow_passes(Refused(reason))
