"""The one place: who holds it, and when takeovers come too often."""

import trio

from sidecar.exclusive import MOST_TAKEOVERS, WITHIN_SECONDS, Exclusive
from sidecar.identity import ControllerName, Epoch
from sidecar.roster import Connection


def connection(number):
    each = Connection(number, "compute", None, None, 0.0)
    each.controller, each.epoch = ControllerName("c"), Epoch(5)
    return each


async def test_nobody_holds_it_until_somebody_is_given_it():
    exclusive = Exclusive()
    assert exclusive.state() is None
    exclusive.give(connection(1))
    state = exclusive.state()
    assert (state.controller, state.epoch, state.flapping) == (ControllerName("c"), Epoch(5), False)


async def test_only_the_holder_gives_it_up_by_leaving():
    exclusive, first, second = Exclusive(), connection(1), connection(2)
    exclusive.give(first)
    exclusive.give(second)
    exclusive.leave(first)
    assert exclusive.holder is second
    exclusive.leave(second)
    assert exclusive.holder is None


async def test_takeovers_without_epochs_flap_when_they_come_too_often_and_calm_down(autojump_clock):
    exclusive = Exclusive()
    exclusive.give(connection(1))
    for _ in range(MOST_TAKEOVERS):
        assert not exclusive.state().flapping
        exclusive.taken_over(by_epoch=False)
        await trio.sleep(1)
    assert exclusive.state().flapping
    await trio.sleep(WITHIN_SECONDS - MOST_TAKEOVERS)
    assert not exclusive.state().flapping


async def test_takeovers_by_a_higher_epoch_never_flap():
    exclusive = Exclusive()
    exclusive.give(connection(1))
    for _ in range(10 * MOST_TAKEOVERS):
        exclusive.taken_over(by_epoch=True)
    assert not exclusive.state().flapping
