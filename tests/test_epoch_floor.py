"""Raising a scope's epoch floor: kept first, then whoever is below is cut."""

from sidecar.epoch_floor import EpochFloor
from sidecar.floor import BelowFloor, FloorInMemory, FloorRecord, FloorUnavailable
from sidecar.identity import Epoch


class RecordingRoster:
    """Notes what the floor was when everybody was decided again."""

    def __init__(self, keeper):
        self._keeper = keeper
        self.decided_at = []

    async def decide_again(self):
        self.decided_at.append(self._keeper.current.at("s").epoch)


def floor(keeper):
    roster = RecordingRoster(keeper)
    return EpochFloor("s", keeper, roster), roster


async def test_a_higher_epoch_is_kept_and_then_everybody_is_decided_again():
    keeper = FloorInMemory()
    each, roster = floor(keeper)
    assert await each.raise_to(Epoch(5))
    assert await each.raise_to(Epoch(6))
    assert roster.decided_at == [Epoch(5), Epoch(6)]


async def test_one_that_is_no_higher_changes_nothing():
    each, roster = floor(FloorInMemory())
    await each.raise_to(Epoch(5))
    assert await each.raise_to(Epoch(5))
    assert await each.raise_to(Epoch(4))
    assert roster.decided_at == [Epoch(5)]


async def test_a_floor_that_was_raised_without_a_cut_is_made_up_for():
    keeper = FloorInMemory()
    await keeper.raise_epoch("s", Epoch(5))
    each, roster = floor(keeper)
    assert await each.raise_to(Epoch(5))
    assert await each.raise_to(Epoch(5))
    assert roster.decided_at == [Epoch(5)]


async def test_scopes_have_floors_of_their_own():
    keeper = FloorInMemory()
    each, roster = floor(keeper)
    await keeper.raise_epoch("other", Epoch(9))
    assert await each.raise_to(Epoch(5))
    assert roster.decided_at == [Epoch(5)]
    assert keeper.current.at("other").epoch == Epoch(9)


class Failing(FloorInMemory):
    def __init__(self, error, record=FloorRecord()):  # noqa: B008
        super().__init__()
        self.current = record
        self._error = error

    async def raise_epoch(self, scope, epoch):
        raise self._error


async def test_what_cannot_be_kept_is_acted_on_by_nobody():
    for keeper in (Failing(FloorUnavailable("disk full")), Failing(None, record=None)):
        each, roster = floor(keeper)
        assert not await each.raise_to(Epoch(5))
        assert roster.decided_at == []


async def test_a_later_leader_that_was_faster_is_left_to_the_decision():
    each, roster = floor(Failing(BelowFloor("9 is there")))
    assert await each.raise_to(Epoch(5))
    assert roster.decided_at == []
