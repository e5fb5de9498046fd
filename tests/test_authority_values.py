"""The assignment that stands in the configuration."""

import trio

from sidecar.admission import Assignment
from sidecar.authority.values import Values
from sidecar.identity import Generation
from tests.names import U1


async def test_what_is_read_is_what_was_configured_and_it_is_known_without_reading():
    assignment = Assignment(Generation(7), U1)
    authority = Values(assignment)
    assert authority.newest is assignment
    assert await authority.read() is assignment


async def test_a_read_is_a_checkpoint_like_any_other():
    with trio.CancelScope() as scope:
        scope.cancel()
        await Values(Assignment()).read()
    assert scope.cancelled_caught
