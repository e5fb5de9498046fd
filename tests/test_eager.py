"""Coroutines that run as calls, borrow a task while they wait, and give it back."""

from __future__ import annotations

import pytest
import trio
import trio.lowlevel
from trio.testing import wait_all_tasks_blocked

from sidecar.eager import borrow_task, parked, start


class Parking:
    """Takes what is parked, and goes on with it when the test says so."""

    def __init__(self):
        self.resume = None

    def begin(self, resume):
        self.resume = resume


def refuse(_resume):
    raise OSError("no room")


async def test_what_waits_for_nothing_is_over_when_the_call_returns_and_had_no_task(nursery):
    done = []

    async def work():
        done.append("here")

    start(nursery, work())
    assert done == ["here"]
    assert not nursery.child_tasks


async def test_what_must_wait_goes_on_in_a_task_of_its_own(nursery, autojump_clock):
    steps = []

    async def work():
        steps.append("before")
        await borrow_task()
        steps.append(trio.lowlevel.current_task())
        await trio.sleep(5)
        await borrow_task()  # it has one already
        steps.append("after")

    start(nursery, work())
    assert steps == ["before"]
    await wait_all_tasks_blocked()
    (task,) = nursery.child_tasks
    assert steps == ["before", task]
    await trio.sleep(6)
    assert steps[-1] == "after"
    assert not nursery.child_tasks


async def test_what_is_parked_has_no_task_and_goes_on_in_the_call_that_resumes_it(nursery):
    parking, steps = Parking(), []

    async def work():
        await borrow_task()
        await trio.lowlevel.checkpoint()
        steps.append(await parked(parking.begin))

    start(nursery, work())
    await wait_all_tasks_blocked()
    assert not nursery.child_tasks
    assert steps == []
    parking.resume("result")
    assert steps == ["result"]


async def test_one_that_was_parked_may_borrow_a_task_again_and_park_again(nursery):
    parking, steps = Parking(), []

    async def work():
        for _ in range(3):
            steps.append(await parked(parking.begin))
            await borrow_task()
            await trio.lowlevel.checkpoint()

    start(nursery, work())
    for number in range(3):
        parking.resume(number)
        await wait_all_tasks_blocked()
    assert steps == [0, 1, 2]
    assert not nursery.child_tasks


async def test_it_may_be_resumed_before_begin_has_returned(nursery):
    steps = []

    async def work():
        steps.append(await parked(lambda resume: resume("at once")))
        steps.append("on")

    start(nursery, work())
    assert steps == ["at once", "on"]


@pytest.mark.parametrize("in_a_task", [False, True])
async def test_what_cannot_be_begun_is_raised_where_it_was_asked_for(nursery, in_a_task):
    caught = []

    async def work():
        if in_a_task:
            await borrow_task()
        try:
            await parked(refuse)
        except OSError as error:
            caught.append(str(error))

    start(nursery, work())
    await wait_all_tasks_blocked()
    assert caught == ["no room"]


async def test_where_no_task_can_be_had_any_more_that_is_raised_where_it_was_asked_for():
    caught = []

    async def work():
        try:
            await borrow_task()
        except RuntimeError as error:
            caught.append(error)

    async with trio.open_nursery() as closed:
        pass
    start(closed, work())
    assert len(caught) == 1


async def test_to_wait_without_a_task_is_an_error_where_it_happens(nursery):
    caught = []

    async def work():
        try:
            await trio.lowlevel.checkpoint()
        except RuntimeError as error:
            caught.append(str(error))

    start(nursery, work())
    assert caught == ["awaited without a borrowed task"]


async def test_cancelling_the_nursery_reaches_what_waits_in_a_task():
    steps = []

    async def work():
        await borrow_task()
        try:
            await trio.sleep_forever()
        finally:
            steps.append("left")

    async with trio.open_nursery() as nursery:
        start(nursery, work())
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert steps == ["left"]


async def test_what_trio_throws_can_be_handled_and_the_rest_goes_on(nursery, autojump_clock):
    steps = []

    async def work():
        await borrow_task()
        with trio.move_on_after(1) as scope:
            await trio.sleep_forever()
        steps.append(scope.cancelled_caught)
        steps.append(await parked(lambda resume: resume("and parked")))

    start(nursery, work())
    await trio.sleep(2)
    assert steps == [True, "and parked"]
