"""The assignment that stands in the configuration."""

import trio

from sidecar.assignment import Assignment
from sidecar.authority.values import Values
from sidecar.identity import Generation
from tests.names import U1


async def test_what_is_read_is_what_was_configured():
    assignment = Assignment(Generation(7), U1)
    assert await Values(assignment).read() is assignment
    assert Values(assignment).pending() == []


async def test_there_is_never_a_hint_of_a_change(autojump_clock):
    with trio.move_on_after(100_000 // 2) as scope:
        await Values(Assignment()).wait_hint()
    assert scope.cancelled_caught


async def test_a_read_is_a_checkpoint_like_any_other():
    with trio.CancelScope() as scope:
        scope.cancel()
        await Values(Assignment()).read()
    assert scope.cancelled_caught


def test_they_are_known_without_being_read():
    assigned = Assignment(Generation(7))
    assert Values(assigned).now() is assigned
