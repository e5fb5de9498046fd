"""What a connection's steps share."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import trio

from sidecar.admission import Holder, Peer, Requirement
from sidecar.assignment import Assignment, Unavailable
from sidecar.exclusive import Exclusive
from sidecar.gate import Visit
from sidecar.handshake import Wait
from sidecar.identity import ControllerName, Epoch
from sidecar.metrics import Basis
from sidecar.reasons import End, Reason, Refused
from sidecar.roster import Connection
from tests.house import EIGHT
from tests.names import CLAIM, preface

NAMED = replace(CLAIM, controller=ControllerName("said"))


def visit(house, claim=None):
    each = Visit(house.gate, None, house.enter())
    if claim is not None:
        assert each.handshake.receive(preface(claim), house.gate.state()) is Wait.AUTHORITY
    return each


def proven(house, claim, controller=None, *, end=None):
    """One whose peer has shown a certificate; *end*: why that doesn't count any more."""
    house.gate = replace(house.gate, prover=SimpleNamespace(outdated={"shown": end}.get))
    each = visit(house)
    each.prove("session", "shown", Peer(proven=True, controller=controller))
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


@pytest.mark.parametrize("basis", list(Basis))
async def test_whom_a_certificate_names_is_believed_whatever_it_passes_on(house, basis):
    each = proven(house, CLAIM, ControllerName("shown"))
    each.basis = basis
    assert each.believed_controller == ControllerName("shown")


async def test_whom_only_the_claim_names_is_believed_where_the_claim_is(house):
    each = proven(house, NAMED)
    assert each.believed_controller == ControllerName("said")
    each.basis = Basis.SHADOW
    assert each.believed_controller is None
    assert visit(house).believed_controller is None, "no claim, no name"


async def test_from_the_end_of_the_handshake_on_bytes_go_through_it_and_time_counts_anew(house, mock_clock):
    each = visit(house)
    assert (each.stream, each.session) == (each.client, None)
    mock_clock.jump(2)
    each.prove("session", "shown", Peer(proven=True))
    assert each.stream == each.session == "session"
    assert (each.presented, each.handshake.peer) == ("shown", Peer(proven=True))
    assert each.began_at == trio.current_time() == each.connection.accepted_at + 2


async def test_without_a_certificate_there_is_none_to_be_outdated(house):
    assert visit(house, CLAIM).outdated() is None
    house.gate = replace(house.gate, prover=SimpleNamespace(outdated=None))
    assert visit(house, CLAIM).outdated() is None, "its handshake isn't over"


@pytest.mark.parametrize("basis", [Basis.AUTHORITY, Basis.SHADOW])
async def test_a_certificate_that_doesnt_count_any_more_comes_before_the_record(house, basis):
    house.gate = replace(house.gate, shadow=True)
    each = proven(house, CLAIM, end=End.CERTIFICATE_REVOKED)
    each.basis = basis
    house.authority.newest = EIGHT
    assert each.outdated() is each.recheck() is End.CERTIFICATE_REVOKED


async def test_one_that_counts_leaves_it_to_the_record(house):
    each = proven(house, CLAIM)
    assert each.recheck() is None
    house.authority.newest = EIGHT
    assert each.recheck() is End.GENERATION_STALE
