"""The story against real sidecars, where something is otherwise than it tells. As it should be: test_cli_demo."""

import io

import trio
from demo_fakes import processes_naming

from sidecar.demo import controller
from sidecar.demo.difference import DiffersError
from sidecar.demo.fleet import Fleet
from sidecar.demo.screen import Screen
from sidecar.demo.story import Story


async def tell(directory, kind):
    """What is shown of the story until it ends."""
    shown = io.StringIO()
    async with trio.open_nursery() as pods:
        fleet = await kind.launch(directory, pods)
        story = Story(fleet, Screen(shown, color=False))
        try:
            await story.tell()
        except DiffersError as difference:
            shown.write(f"DIFFERS {difference}\n")
        story.close()
        pods.cancel_scope.cancel()
    assert processes_naming(directory) == []
    return shown.getvalue()


class WithoutSwap(Fleet):
    """Pods come back where they were."""

    async def swap_addresses(self, one, other):
        for ordinal in (one, other):
            await self[ordinal].leave()
            await self[ordinal].arrive(self.look_up(ordinal).host, self._files(ordinal))


class RoundTheSidecar(Fleet):
    """Somebody reaches the replica without passing its new sidecar."""

    async def swap_addresses(self, one, other):
        await super().swap_addresses(one, other)
        self[one].replica.connections += 1


class Forgetful(Fleet):
    """Pods that come back have lost their memory."""

    async def swap_addresses(self, one, other):
        await super().swap_addresses(one, other)
        self[one].replica.commands = 0


class WithoutRecord(Fleet):
    """A pod is reset in place, and the record that its sidecar reads stays as it was."""

    def move_on(self, ordinal):
        self[ordinal].replica.begin_anew(2)


async def test_a_stream_that_outlives_its_life_is_found_out(tmp_path, monkeypatch):
    monkeypatch.setattr(controller, "END_SECONDS", 1.0)
    shown = await tell(tmp_path, WithoutRecord)
    last = shown.splitlines()[-1]
    assert last.startswith("DIFFERS the stream to 127.0.0.2 as demo/replica-a/1, generation 1")
    assert last.endswith("expected its end, but it is still open")
    assert "   cut  " not in shown


async def test_pods_that_keep_their_addresses_are_found_out(tmp_path):
    shown = await tell(tmp_path, WithoutSwap)
    last = shown.splitlines()[-1]
    assert last.startswith("DIFFERS dialling 127.0.0.2 as demo/replica-a/0, generation 1")
    assert last.endswith("expected identity_mismatch, advice re-resolve: ordinal: expected 0, this is 1, but admitted")
    assert "refused" not in shown


async def test_a_replica_that_is_reached_round_its_sidecar_is_found_out(tmp_path):
    shown = await tell(tmp_path, RoundTheSidecar)
    assert shown.splitlines()[-1] == "DIFFERS new connections that replica 0 has seen: expected 0, but 1"
    assert shown.count("identity_mismatch") == 2


async def test_a_replica_that_has_lost_its_memory_in_the_same_life_is_found_out(tmp_path):
    shown = await tell(tmp_path, Forgetful)
    last = shown.splitlines()[-1]
    assert last.startswith("DIFFERS the stream to 127.0.0.3 as demo/replica-a/0, generation 1")
    assert last.endswith("expected shard 0, generation 1, command 2, but it said 'shard 0, generation 1, command 1'")
