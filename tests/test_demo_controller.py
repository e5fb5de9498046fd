import pytest
import trio
from demo_fakes import UIDS, FakeSidecar, record, refusal

from sidecar.demo import controller as module
from sidecar.demo.controller import Controller
from sidecar.demo.difference import DiffersError
from sidecar.demo.replica import reply
from sidecar.identity import ControllerName
from sidecar.reasons import Advice


async def dialled(nursery, sidecar, **known):
    controller = Controller("c-1", [record(2, **known)], await sidecar.serve(nursery))
    assert await controller.dial(2) is None
    return controller


async def test_it_claims_what_its_map_says(nursery):
    sidecar = FakeSidecar()
    controller = await dialled(nursery, sidecar, generation=7)
    (claim,) = sidecar.claims
    known = record(2, generation=7)
    assert (claim.identity, claim.generation, claim.instance) == (known.identity, known.generation, known.instance)
    assert claim.controller == ControllerName("c-1")
    controller.hang_up()
    nursery.cancel_scope.cancel()


async def test_what_it_learns_replaces_what_it_knew(nursery):
    sidecar = FakeSidecar(refusal=refusal("generation_stale", "expected 1, this is 2"))
    controller = Controller("c-1", [record(2)], await sidecar.serve(nursery))
    await controller.dial(2)
    controller.learn(record(2, generation=2, instance=UIDS[1]))
    await controller.dial(2)
    assert [str(claim.generation) for claim in sidecar.claims] == ["1", "2"]
    nursery.cancel_scope.cancel()


async def test_a_refusal_is_an_outcome_and_leaves_no_stream(nursery):
    sidecar = FakeSidecar(refusal=refusal("generation_stale", "expected 1, this is 2"))
    controller = Controller("c-1", [record(2)], await sidecar.serve(nursery))
    error = await controller.dial(2)
    assert (error.reason, error.advice, error.detail) == ("generation_stale", Advice.REFRESH, "expected 1, this is 2")
    assert not controller.commands
    nursery.cancel_scope.cancel()


async def test_commands_are_counted_as_they_are_answered(nursery):
    controller = await dialled(nursery, FakeSidecar(replies=[reply(2, 1, 1), reply(2, 1, 2)]))
    assert [await controller.command(2), await controller.command(2)] == [reply(2, 1, 1), reply(2, 1, 2)]
    assert controller.commands == {record().life: 2}
    controller.hang_up()
    nursery.cancel_scope.cancel()


async def test_the_commands_of_a_life_go_on_where_it_is_dialled_again_and_another_life_begins_anew(nursery):
    sidecar = FakeSidecar()
    controller = Controller("c-1", [], await sidecar.serve(nursery))
    other = record(2, generation=2)  # in place: the same pod
    for life, expected in ((record(2), reply(2, 1, 1)), (record(2), reply(2, 1, 2)), (other, reply(2, 2, 1))):
        sidecar.replies = [expected]
        controller.learn(life)
        assert await controller.dial(2) is None
        assert await controller.command(2) == expected
        controller.hang_up()
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "replies",
    [
        [reply(1, 1, 1)],  # another shard
        [reply(2, 8, 1)],  # another life
        [reply(2, 1, 2)],  # somebody else's command came first
        [],  # the end
    ],
)
async def test_any_reply_but_the_next_one_of_this_life_is_a_difference(nursery, replies):
    controller = await dialled(nursery, FakeSidecar(replies=replies))
    with pytest.raises(DiffersError, match="shard 2, generation 1, command 1"):
        await controller.command(2)
    controller.hang_up()
    nursery.cancel_scope.cancel()


async def test_it_notices_the_end_of_a_stream(nursery):
    controller = await dialled(nursery, FakeSidecar())
    assert not await controller.notice_end(2)
    controller.hang_up()  # nothing is left to close
    nursery.cancel_scope.cancel()


async def test_it_tells_a_reset_from_an_end_in_order(nursery):
    class Resetting(FakeSidecar):
        async def _serve_one(self, stream):
            await super()._serve_one(stream)
            stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            stream.socket.close()

    controller = await dialled(nursery, Resetting())
    assert await controller.notice_end(2)
    nursery.cancel_scope.cancel()


async def test_where_it_has_dialled_again_the_older_stream_ends_and_the_newer_one_is_driven(nursery):
    sidecar = FakeSidecar()
    controller = await dialled(nursery, sidecar)
    sidecar.replies = [reply(2, 1, 1)]
    assert await controller.dial(2) is None
    assert not await controller.notice_end(2)
    assert await controller.command(2) == reply(2, 1, 1)
    controller.hang_up()
    nursery.cancel_scope.cancel()


async def test_a_stream_that_goes_on_is_a_difference_where_an_end_is_told(nursery, monkeypatch):
    monkeypatch.setattr(module, "END_SECONDS", 0.05)
    controller = await dialled(nursery, FakeSidecar(replies=["never asked for"]))
    with pytest.raises(DiffersError, match="it is still open"):
        await controller.notice_end(2)
    nursery.cancel_scope.cancel()


async def test_hanging_up_ends_every_stream(nursery):
    ended = trio.Event()

    class Watching(FakeSidecar):
        async def _serve_one(self, stream):
            await super()._serve_one(stream)
            assert await stream.receive_some() == b""
            ended.set()

    controller = await dialled(nursery, Watching())
    controller.hang_up()
    await ended.wait()
    nursery.cancel_scope.cancel()
