"""What stands in the way of readiness, and the floor that decisions are taken on."""

from types import SimpleNamespace

import pytest

from sidecar.admission import Floor
from sidecar.assignment import Assignment, Regressed, Unassigned, Unavailable
from sidecar.floor import FloorInMemory
from sidecar.identity import Epoch, Generation
from sidecar.metrics import State
from sidecar.standing import Obstacle, Standing

SEVEN = Assignment(Generation(7))


def standing(newest, *, latest=None, pending=(), fault="", trouble="", keeper=None):
    source = SimpleNamespace(pending=lambda: list(pending))
    front = SimpleNamespace(newest=newest, latest=latest or newest, floor_fault=fault, floor_trouble=trouble or fault)
    return Standing(source, front, keeper or FloorInMemory())


def test_an_assignment_leaves_nothing_in_the_way():
    assert standing(SEVEN).obstacles() == []


def test_an_authority_that_falls_silent_later_changes_nothing():
    assert standing(SEVEN, latest=Unavailable("down")).obstacles() == []


@pytest.mark.parametrize(
    ("case", "obstacles"),
    [
        (
            {"newest": Unassigned(pending=True), "pending": ["/etc/podinfo/generation"]},
            [Obstacle(State.PENDING, "pending: /etc/podinfo/generation")],
        ),
        (
            {"newest": Unavailable("connection refused")},
            [Obstacle(State.PENDING, "pending: connection refused")],
        ),
        ({"newest": Unassigned(pending=False)}, [Obstacle(State.NOT_ASSIGNED, "this slot has no assignment")]),
        (
            {"newest": SEVEN, "latest": Regressed("6 after 7")},
            [Obstacle(State.REGRESSED, "authority_regressed: 6 after 7")],
        ),
        (
            {"newest": SEVEN, "fault": "disk full"},
            [Obstacle(State.FLOOR_UNAVAILABLE, "disk full")],
        ),
        (
            {"newest": SEVEN, "trouble": "an epoch can't be written: disk full"},
            [Obstacle(State.FLOOR_UNAVAILABLE, "an epoch can't be written: disk full")],
        ),
    ],
)
def test_each_obstacle_is_named(case, obstacles):
    assert standing(case.pop("newest"), **case).obstacles() == obstacles


async def test_the_floor_is_the_scopes_and_unknown_where_it_cannot_be_kept():
    keeper = FloorInMemory()
    await keeper.raise_generation(Generation(7))
    await keeper.raise_epoch("s", Epoch(5))
    assert standing(SEVEN, keeper=keeper).floor("s") == Floor(Generation(7), Epoch(5))
    assert standing(SEVEN, keeper=keeper).floor("other") == Floor(Generation(7), None)
    assert standing(SEVEN, keeper=keeper, fault="disk full").floor("s") is None
    assert standing(SEVEN, keeper=keeper, trouble="disk full").floor("s") == Floor(Generation(7), Epoch(5))
    assert standing(SEVEN, keeper=SimpleNamespace(current=None, fault="")).floor("s") is None
