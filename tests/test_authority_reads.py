"""Shared reads: fresh for everybody, few for the store."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from sidecar.authority.reads import MAX_UNDER_WAY, SharedReads


class Store:
    """Reads take until they are let go; each result is the number of the read."""

    def __init__(self):
        self.under_way = {}
        self.most = 0
        self.begun = 0

    async def read(self, number):
        self.begun += 1
        self.under_way[number] = trio.Event()
        self.most = max(self.most, len(self.under_way))
        await self.under_way[number].wait()
        del self.under_way[number]
        return number

    async def release(self, *numbers):
        for number in numbers:
            self.under_way[number].set()
        await wait_all_tasks_blocked()


@pytest.fixture
async def store(nursery):
    return Store()


@pytest.fixture
async def reads(nursery, store):
    reads = SharedReads(store.read)
    nursery.start_soon(reads.run)
    await wait_all_tasks_blocked()
    return reads


async def ask(reads, nursery, answers):
    async def one():
        answers.append(await reads.fresh())

    nursery.start_soon(one)
    await wait_all_tasks_blocked()


async def test_those_who_wait_together_share_at_most_two_reads(reads, store, nursery):
    answers = []
    for _ in range(100):
        await ask(reads, nursery, answers)
    assert len(store.under_way) == MAX_UNDER_WAY
    await store.release(1, 2)
    await store.release(3)
    assert len(answers) == 100
    assert store.most == MAX_UNDER_WAY
    assert store.begun == 3


async def test_nobody_gets_the_result_of_a_read_that_began_before_the_question(reads, store, nursery):
    first, second = [], []
    await ask(reads, nursery, first)
    await ask(reads, nursery, second)
    await store.release(1)
    assert (first, second) == ([1], [])
    await store.release(2)
    assert second == [2]


async def test_a_third_read_begins_as_soon_as_one_of_two_has_ended_whichever_it_is(reads, store, nursery):
    for _ in range(3):
        await ask(reads, nursery, [])
    await store.release(2)
    assert sorted(store.under_way) == [1, 3]


async def test_one_that_gives_up_ends_no_read_of_others(reads, store, nursery):
    answers = []
    with trio.move_on_after(0) as impatient:
        await reads.fresh()
    assert impatient.cancelled_caught
    await wait_all_tasks_blocked()
    assert list(store.under_way) == [1]
    await ask(reads, nursery, answers)
    await store.release(1)
    await store.release(2)
    assert answers == [2]


async def test_one_who_asks_before_it_runs_waits_until_it_does(store, nursery):
    reads, answers = SharedReads(store.read), []
    await ask(reads, nursery, answers)
    assert store.begun == 0
    nursery.start_soon(reads.run)
    await wait_all_tasks_blocked()
    await store.release(1)
    assert answers == [1]


async def test_without_anybody_asking_nothing_is_read(reads, store):
    await wait_all_tasks_blocked()
    assert store.begun == 0
