"""Who keeps the floor: that it never falls, whatever fails."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import trio
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sidecar.errors import StartError
from sidecar.floor import keeper as keeper_module
from sidecar.floor import state_dir as state_dir_module
from sidecar.floor.keeper import FloorFile, FloorInMemory, FloorKeeper, read_floor
from sidecar.floor.record import BelowFloor, FloorDamaged, FloorRecord, FloorUnavailable, StoredFloor, encode
from sidecar.floor.state_dir import FILE, StateDir
from sidecar.identity import Epoch, Generation, Identity
from tests.failing_disk import STEPS, Disk
from tests.names import OTHER, OWN


def opened(path: Path, *, series: int = 1) -> FloorFile:
    return FloorFile.open(path, slot=OWN, series=series)


@pytest.fixture
def floor(tmp_path: Path) -> Iterator[FloorFile]:
    with closing(opened(tmp_path)) as floor:
        yield floor


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk(tmp_path)
    monkeypatch.setattr(state_dir_module, "os", disk)
    return disk


class Hanging(Disk):
    """A disk that doesn't answer until it is let go."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.answer = threading.Event()
        self.hung = threading.Semaphore(0)

    def rename(self, source: str, target: str, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        self.hung.release()
        self.answer.wait()
        super().rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)


@pytest.fixture(params=["file", "memory"])
def keeper(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FloorKeeper]:
    with closing(opened(tmp_path) if request.param == "file" else FloorInMemory()) as keeper:
        yield keeper


async def test_it_begins_without_a_floor_and_rises(keeper):
    assert keeper.fault == ""
    assert keeper.current == FloorRecord()
    await keeper.raise_generation(Generation(7))
    await keeper.raise_epoch("compute", Epoch(3))
    await keeper.raise_epoch("api", Epoch(1))
    await keeper.raise_generation(Generation(9))
    assert keeper.current == FloorRecord(Generation(9), {"compute": Epoch(3), "api": Epoch(1)})


async def test_below_the_floor_is_refused_and_changes_nothing(keeper):
    await keeper.raise_generation(Generation(7))
    await keeper.raise_epoch("compute", Epoch(3))
    with pytest.raises(BelowFloor, match="generation 6, floor 7"):
        await keeper.raise_generation(Generation(6))
    with pytest.raises(BelowFloor, match="epoch 2, floor 3"):
        await keeper.raise_epoch("compute", Epoch(2))
    assert keeper.current == FloorRecord(Generation(7), {"compute": Epoch(3)})


async def test_raising_is_a_checkpoint_whether_or_not_anything_changes(keeper):
    for _ in range(2):
        with trio.testing.assert_checkpoints():
            await keeper.raise_generation(Generation(7))


async def test_those_who_raise_at_once_end_at_the_highest(keeper):
    outcomes = []

    async def raise_to(epoch: int) -> None:
        try:
            await keeper.raise_epoch("compute", Epoch(epoch))
        except BelowFloor:
            outcomes.append("below")
        else:
            outcomes.append("raised")
            assert keeper.current.epochs["compute"] >= Epoch(epoch)

    async with trio.open_nursery() as nursery:
        for epoch in (3, 9, 1, 9, 5, 2):
            nursery.start_soon(raise_to, epoch)
    assert keeper.current == FloorRecord(None, {"compute": Epoch(9)})
    assert outcomes.count("raised") >= 2
    assert len(outcomes) == 6


async def test_equal_writes_nothing(floor, disk):
    await floor.raise_generation(Generation(7))
    del disk.calls[:]
    await floor.raise_generation(Generation(7))
    assert disk.calls == []


async def test_what_was_raised_is_there_after_a_restart(tmp_path):
    with closing(opened(tmp_path)) as floor:
        await floor.raise_generation(Generation(7))
        await floor.raise_epoch("compute", Epoch(3))
    with closing(opened(tmp_path)) as floor:
        assert floor.current == FloorRecord(Generation(7), {"compute": Epoch(3)})


def test_a_fresh_directory_is_this_slots_at_once(tmp_path):
    opened(tmp_path).close()
    assert read_floor(tmp_path) == StoredFloor(OWN, 1)
    with pytest.raises(StartError, match=f"the floor of {OWN}, and this sidecar holds {OTHER}"):
        FloorFile.open(tmp_path, slot=OTHER, series=1)
    opened(tmp_path).close()  # a start that failed keeps no lock


async def test_a_larger_series_begins_new_floors_and_an_old_one_cant_come_back(tmp_path):
    with closing(opened(tmp_path)) as floor:
        await floor.raise_generation(Generation(7))
    with closing(opened(tmp_path, series=3)) as floor:
        assert floor.current == FloorRecord()
    with pytest.raises(StartError, match="floor_series is 2, and the floor in state_dir is of series 3"):
        opened(tmp_path, series=2)


@pytest.mark.parametrize("series", [1, 2])
async def test_a_damaged_floor_starts_and_is_unavailable_until_it_is_reset(tmp_path, series):
    opened(tmp_path).close()
    damaged = (tmp_path / FILE).read_bytes().replace(b"null", b'"9"')
    (tmp_path / FILE).write_bytes(damaged)
    with closing(opened(tmp_path, series=series)) as floor:
        assert floor.current is None
        assert floor.fault == (
            f"{tmp_path / FILE} doesn't match its checksum: every claim is refused with floor_unavailable until "
            "`sidecar floor reset`"
        )
        for attempt in (floor.raise_generation(Generation(7)), floor.raise_epoch("compute", Epoch(3))):
            with pytest.raises(FloorUnavailable, match="doesn't match its checksum"):
                await attempt
    assert (tmp_path / FILE).read_bytes() == damaged


def test_what_cant_be_read_starts_and_is_unavailable_too(tmp_path):
    (tmp_path / FILE).mkdir()
    with closing(opened(tmp_path)) as floor:
        assert floor.current is None
        assert floor.fault == f"{tmp_path / FILE} can't be read: Is a directory"


def test_reading_alone_says_what_is_there_and_what_is_damaged(tmp_path):
    assert read_floor(tmp_path) is None
    (tmp_path / FILE).write_text("{}")
    with pytest.raises(FloorDamaged, match="isn't a floor: every claim is refused"):
        read_floor(tmp_path)


async def test_a_write_that_fails_changes_nothing_and_the_next_may_pass(floor, disk):
    await floor.raise_generation(Generation(7))
    for step in range(len(STEPS)):
        disk.fail(step, late=True)
        with pytest.raises(FloorUnavailable, match="can't be written: Input/output error"):
            await floor.raise_generation(Generation(8))
        assert floor.current == FloorRecord(Generation(7))
    await floor.raise_generation(Generation(8))
    assert floor.current == FloorRecord(Generation(8))


def test_a_start_that_cant_write_a_new_floor_ends(tmp_path, disk):
    disk.fail(0, late=False)
    with pytest.raises(StartError, match=f"state_dir: {tmp_path / FILE} can't be written: Input/output error: give"):
        opened(tmp_path)


def test_a_start_writes_nothing_where_there_is_a_floor(tmp_path, disk):
    """So that a full disk, which may refuse a later raise, doesn't end it."""
    opened(tmp_path).close()
    del disk.calls[:]
    opened(tmp_path).close()
    assert disk.calls == ["fsync"]


async def test_what_a_start_goes_on_from_outlives_a_power_failure(tmp_path, disk):
    """Although the process that wrote it ended before it was on disk."""
    with closing(opened(tmp_path)) as floor:
        disk.fail(len(STEPS) - 1, late=False)
        with pytest.raises(FloorUnavailable):
            await floor.raise_generation(Generation(7))
    with closing(opened(tmp_path)) as floor:
        assert floor.current == FloorRecord(Generation(7))
    disk.lose_power(lambda possible: possible[0])
    with closing(opened(tmp_path)) as floor:
        assert floor.current == FloorRecord(Generation(7))


async def test_a_claim_that_gives_up_leaves_the_write_to_finish_by_itself(tmp_path, monkeypatch):
    disk = Hanging(tmp_path)
    with closing(opened(tmp_path)) as floor:
        monkeypatch.setattr(state_dir_module, "os", disk)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(floor.raise_generation, Generation(7))
            await trio.to_thread.run_sync(disk.hung.acquire)
            nursery.cancel_scope.cancel()
        assert floor.current == FloorRecord()
        disk.answer.set()
        await floor.raise_epoch("compute", Epoch(3))
        assert floor.current == FloorRecord(Generation(7), {"compute": Epoch(3)})
        assert read_floor(tmp_path) == StoredFloor(OWN, 1, floor.current)


async def test_who_waits_for_a_disk_that_hangs_may_give_up_too(tmp_path, monkeypatch):
    disk = Hanging(tmp_path)
    with closing(opened(tmp_path)) as floor:
        monkeypatch.setattr(state_dir_module, "os", disk)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(floor.raise_generation, Generation(7))
            await trio.to_thread.run_sync(disk.hung.acquire)
            nursery.start_soon(floor.raise_generation, Generation(8))
            await trio.testing.wait_all_tasks_blocked()
            nursery.cancel_scope.cancel()
        disk.answer.set()
        await floor.raise_generation(Generation(9))
        assert disk.hung.acquire(blocking=False)
        assert not disk.hung.acquire(blocking=False), "the write of 8 never began"


async def test_the_directory_stays_locked_while_a_write_hangs(tmp_path, monkeypatch):
    """Its descriptors are in use: closed, they would soon be somebody else's."""
    disk = Hanging(tmp_path)
    floor = opened(tmp_path)
    monkeypatch.setattr(state_dir_module, "os", disk)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(floor.raise_generation, Generation(7))
        await trio.to_thread.run_sync(disk.hung.acquire)
        nursery.cancel_scope.cancel()
    floor.close()
    with pytest.raises(StartError, match="is in use"):
        opened(tmp_path)
    disk.answer.set()
    await floor.raise_generation(Generation(7))
    floor.close()
    with closing(opened(tmp_path)) as floor:
        assert floor.current == FloorRecord(Generation(7))


ON_A_FULL_DISK = """
import sys, trio
from pathlib import Path
from sidecar.floor import FloorFile, FloorUnavailable
from sidecar.identity import Generation, Identity
path = Path(sys.argv[1])
floor = FloorFile.open(path, slot=Identity.parse("prod-eu/replica-a/2"), series=1)
trio.run(floor.raise_generation, Generation(7))
try:
    with (path / "filler").open("wb", buffering=0) as filler:
        while filler.write(bytes(4096)):
            pass
except OSError:
    pass
try:
    trio.run(floor.raise_generation, Generation(8))
except FloorUnavailable as error:
    print(error)
(path / "filler").unlink()
trio.run(floor.raise_generation, Generation(9))
print(floor.current.generation)
"""

ON_A_READ_ONLY_DISK = """
import subprocess, sys
from pathlib import Path
from sidecar.errors import StartError
from sidecar.floor import FloorFile
from sidecar.identity import Identity
path = Path(sys.argv[1])
subprocess.run(["mount", "-o", "remount,ro", path], check=True)
try:
    FloorFile.open(path, slot=Identity.parse("prod-eu/replica-a/2"), series=1)
except StartError as error:
    print(error)
"""


def said_on_a_disk_of_its_own(path: Path, script: str) -> str:
    """What *script* prints, given *path*, where a small disk is mounted for it alone."""
    mounted = 'mount -t tmpfs -o size=64k none "$1" && shift && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", mounted, "sh", str(path)]
    trial = subprocess.run([*command, "true"], capture_output=True, text=True)
    if trial.returncode:
        pytest.skip(f"mounting takes a privilege that this user lacks: {trial.stderr.strip()}")
    command += [sys.executable, "-c", script, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_full_disk_is_unavailable_until_there_is_room_again(tmp_path):
    output = said_on_a_disk_of_its_own(tmp_path, ON_A_FULL_DISK)
    assert output == f"{tmp_path / FILE} can't be written: No space left on device\n9\n"


def test_a_read_only_disk_ends_the_start(tmp_path):
    output = said_on_a_disk_of_its_own(tmp_path, ON_A_READ_ONLY_DISK)
    says = "can't be used: Read-only file system: give a directory that this user may write to"
    assert output == f"state_dir: {tmp_path} {says}\n"


async def test_a_write_that_failed_is_remembered_until_a_look_has_seen_one_pass(floor, disk):
    await floor.reopen()
    assert (floor.write_fault, disk.calls) == ("", [])
    disk.fail(0, late=False)
    with pytest.raises(FloorUnavailable):
        await floor.raise_epoch("compute", Epoch(3))
    fault = f"{floor._directory.path / FILE} can't be written: Input/output error"
    assert floor.write_fault == fault
    assert floor.fault == ""
    assert floor.current == FloorRecord(), "what is kept already holds"
    await floor.raise_epoch("compute", Epoch(4))
    assert floor.write_fault == fault
    disk.fail(0, late=False)
    await floor.reopen()
    assert floor.write_fault == fault
    await floor.reopen()
    assert floor.write_fault == ""
    assert floor.current == FloorRecord(None, {"compute": Epoch(4)})


@pytest.mark.parametrize(("patience", "noted"), [(0.0, True), (3600.0, False)])
async def test_a_write_that_a_claim_has_waited_for_in_vain_is_remembered_too(tmp_path, monkeypatch, patience, noted):
    """But not one whose claim had no time, or that the end of the process has ended."""
    monkeypatch.setattr(keeper_module, "PATIENCE_SECONDS", patience)
    disk = Hanging(tmp_path)
    with closing(opened(tmp_path)) as floor:
        monkeypatch.setattr(state_dir_module, "os", disk)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(floor.raise_generation, Generation(7))
            await trio.to_thread.run_sync(disk.hung.acquire)
            nursery.cancel_scope.cancel()
        fault = f"{tmp_path / FILE} can't be written: the disk doesn't answer"
        assert floor.write_fault == (fault if noted else "")
        disk.answer.set()
        await floor.raise_generation(Generation(8))
        await floor.reopen()
        assert floor.write_fault == ""


# --- a directory that is removed while it is in use


@pytest.fixture
async def removed(tmp_path: Path) -> AsyncIterator[FloorFile]:
    """A floor whose directory was removed, and that has noticed."""
    path = tmp_path / "state"
    with closing(opened(path)) as floor:
        await floor.raise_generation(Generation(7))
        await floor.raise_epoch("compute", Epoch(3))
        shutil.rmtree(path)
        with pytest.raises(FloorUnavailable, match="can't be written: No such file or directory"):
            await floor.raise_epoch("compute", Epoch(4))
        await floor.reopen()
        yield floor


def kept_by_another(path: Path, record: FloorRecord, *, slot: Identity = OWN, series: int = 1) -> None:
    """A directory at *path* with a floor in it that nobody has locked."""
    with closing(StateDir.open(path)) as directory:
        directory.replace(encode(StoredFloor(slot, series, record)))


def descriptors() -> set[Path]:
    """What this process has open."""
    return set(Path("/proc/self/fd").iterdir())


AS_BEFORE = FloorRecord(Generation(7), {"compute": Epoch(3)})


async def test_a_directory_that_is_gone_is_said_to_be_and_not_made(removed, tmp_path):
    path = tmp_path / "state"
    assert removed.write_fault == f"{path} is gone: make it again, or mount it"
    assert not path.exists()
    assert removed.current == AS_BEFORE


async def test_made_again_it_has_at_once_what_was_in_memory_and_is_locked_again(removed, tmp_path):
    path = tmp_path / "state"
    path.mkdir()
    await removed.reopen()
    assert removed.write_fault == ""
    assert read_floor(path) == StoredFloor(OWN, 1, AS_BEFORE)
    with pytest.raises(StartError, match="is in use"):
        opened(path)
    await removed.raise_epoch("compute", Epoch(5))
    assert read_floor(path) == StoredFloor(OWN, 1, FloorRecord(Generation(7), {"compute": Epoch(5)}))


@pytest.mark.parametrize(
    "found",
    [FloorRecord(), FloorRecord(Generation(6), {"compute": Epoch(3)}), AS_BEFORE],
)
async def test_what_is_not_above_memory_gives_way_to_it(removed, tmp_path, found):
    kept_by_another(tmp_path / "state", found)
    await removed.reopen()
    assert removed.write_fault == ""
    assert read_floor(tmp_path / "state") == StoredFloor(OWN, 1, AS_BEFORE)


async def test_a_series_that_was_given_up_gives_way_whatever_it_says(tmp_path):
    path = tmp_path / "state"
    with closing(opened(path, series=2)) as floor:
        shutil.rmtree(path)
        with pytest.raises(FloorUnavailable):
            await floor.raise_generation(Generation(7))
        kept_by_another(path, FloorRecord(Generation(99)))
        await floor.reopen()
        assert floor.write_fault == ""
        assert read_floor(path) == StoredFloor(OWN, 2)


@pytest.mark.parametrize(
    ("make", "fault"),
    [
        (
            lambda path: kept_by_another(path, FloorRecord(Generation(8))),
            "was replaced by one with a higher floor: rest",
        ),
        (lambda path: kept_by_another(path, FloorRecord(), slot=OTHER), f"holds the floor of {OTHER}"),
        (lambda path: kept_by_another(path, FloorRecord(), series=2), "the floor in state_dir is of series 2"),
        (
            lambda path: (path.mkdir(), (path / FILE).write_text("{}")),
            "one with a damaged floor: `sidecar floor reset`",
        ),
        (lambda path: path.touch(), "can't be used: Not a directory"),
    ],
)
async def test_what_may_not_be_undercut_or_is_anothers_is_left_alone(removed, tmp_path, make, fault):
    path = tmp_path / "state"
    make(path)
    before = (path / FILE).read_bytes() if path.is_dir() else b""
    open_before = descriptors()
    await removed.reopen()
    assert fault in removed.write_fault
    assert removed.current == AS_BEFORE, "what is known holds"
    assert descriptors() == open_before
    if path.is_dir():
        assert (path / FILE).read_bytes() == before
        StateDir.open(path).close()  # it isn't locked either
        shutil.rmtree(path)
    else:
        path.unlink()
    path.mkdir()
    await removed.reopen()
    assert removed.write_fault == ""


async def test_one_that_another_process_has_taken_meanwhile_is_left_to_it(removed, tmp_path):
    with closing(opened(tmp_path / "state")):
        await removed.reopen()
        assert "is in use by another process" in removed.write_fault
    await removed.reopen()
    assert removed.write_fault == ""


async def test_one_that_was_moved_away_is_gone_too(tmp_path):
    path = tmp_path / "state"
    with closing(opened(path)) as floor:
        path.rename(tmp_path / "moved")
        path.mkdir()
        with pytest.raises(FloorUnavailable, match="reads back other than it was written"):
            await floor.raise_generation(Generation(7))
        await floor.reopen()
        assert floor.write_fault == ""
        await floor.raise_generation(Generation(8))
        assert read_floor(path) == StoredFloor(OWN, 1, FloorRecord(Generation(8)))


UNDER_A_VOLUME_THAT_GOES = """
import subprocess, sys, trio
from pathlib import Path
from sidecar.floor import FloorFile, FloorUnavailable
from sidecar.identity import Generation, Identity
path = Path(sys.argv[1])
floor = FloorFile.open(path, slot=Identity.parse("prod-eu/replica-a/2"), series=1)
subprocess.run(["umount", "-l", path], check=True)
try:
    trio.run(floor.raise_generation, Generation(7))
except FloorUnavailable:
    trio.run(floor.reopen)
print(floor.write_fault)
"""


def test_what_a_volume_that_is_gone_uncovers_is_not_taken_for_it(tmp_path):
    """Once the volume is back, a floor that was kept there instead would be forgotten."""
    output = said_on_a_disk_of_its_own(tmp_path, UNDER_A_VOLUME_THAT_GOES)
    assert output == (
        f"{tmp_path} is on another volume than when this sidecar started: mount the right one and restart the sidecar\n"
    )
    assert not (tmp_path / FILE).exists()


SCOPES = st.sampled_from(["compute", "api"])
NUMBERS = st.integers(1, 12)
Values = dict[str, int]


def values(record: FloorRecord) -> Values:
    """A record's numbers by what they are the floor of."""
    found = {scope: epoch.value for scope, epoch in record.epochs.items()}
    return found | ({"generation": record.generation.value} if record.generation is not None else {})


class FloorOverFailures(RuleBasedStateMachine):
    """Raises, failing calls, restarts and power failures in any order.

    What a keeper has ever shown may have been acted on, so that it is never undercut again; what nobody has ever asked
    for never shows.
    """

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp())
        self.disk = Disk(self.path)
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(state_dir_module, "os", self.disk)
        self.shown: Values = {}
        self.asked: Values = {}

    @initialize()
    def start(self) -> None:
        self.floor = opened(self.path)

    @rule(number=NUMBERS)
    def raise_generation(self, number: int) -> None:
        self._raise("generation", number, lambda: self.floor.raise_generation(Generation(number)))

    @rule(scope=SCOPES, number=NUMBERS)
    def raise_epoch(self, scope: str, number: int) -> None:
        self._raise(scope, number, lambda: self.floor.raise_epoch(scope, Epoch(number)))

    @rule(after=st.integers(0, len(STEPS)), late=st.booleans())
    def let_a_call_fail(self, after: int, late: bool) -> None:
        self.disk.fail(after, late=late)

    @rule(scope=SCOPES, number=NUMBERS, after=st.integers(0, len(STEPS) - 1), late=st.booleans())
    def die_while_raising(self, scope: str, number: int, after: int, late: bool) -> None:
        self.disk.fail(after, late=late)
        self.raise_epoch(scope, number)
        self.restart()

    @rule()
    def restart(self) -> None:
        """A process that was killed leaves the same as one that closed its floor: the kernel has what it wrote."""
        self.disk.heal()
        self.floor.close()
        self.floor = opened(self.path)

    @rule(data=st.data())
    def lose_power(self, data: st.DataObject) -> None:
        self.disk.heal()
        self.floor.close()
        self.disk.lose_power(lambda possible: possible[data.draw(st.integers(0, len(possible) - 1))])
        self.floor = opened(self.path)

    @invariant()
    def never_undercut_and_never_made_up(self) -> None:
        assert self.floor.current is not None, self.floor.fault
        now = values(self.floor.current)
        assert all(now.get(name, 0) >= number for name, number in self.shown.items())
        assert all(number <= self.asked[name] for name, number in now.items())
        self.shown = now

    def _raise(self, name: str, number: int, call: Callable[[], object]) -> None:
        before = self.floor.current
        self.asked[name] = max(number, self.asked.get(name, 0))
        try:
            trio.run(call)
        except FloorUnavailable:
            assert self.floor.current == before
        except BelowFloor:
            assert number < values(before)[name]
            assert self.floor.current == before
        else:
            assert values(self.floor.current) == values(before) | {name: number}

    def teardown(self) -> None:
        self.floor.close()
        self.patch.undo()
        shutil.rmtree(self.path)


TestFloorOverFailures = FloorOverFailures.TestCase
TestFloorOverFailures.settings = settings(max_examples=50, stateful_step_count=20)


async def test_a_process_without_threads_left_can_keep_nothing_and_lives_on(tmp_path, monkeypatch):
    async def no_thread(*_args, **_kwargs):
        raise RuntimeError("can't start new thread")

    with closing(opened(tmp_path)) as floor:
        monkeypatch.setattr(trio.to_thread, "run_sync", no_thread)
        with pytest.raises(FloorUnavailable, match="can't be written: can't start new thread"):
            await floor.raise_generation(Generation(7))
        await floor.reopen()
        assert floor.write_fault == "the floor can't be written: can't start new thread"
        monkeypatch.undo()
        await floor.reopen()
        assert floor.write_fault == ""
