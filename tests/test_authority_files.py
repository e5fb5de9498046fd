"""The assignment from mounted files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from sidecar.assignment import Assignment, Unassigned
from sidecar.authority import files as files_module
from sidecar.authority.files import MAX_ATTEMPTS, MAX_BYTES, MAX_READS, Contents, Files, Mount, mount_table, read_files
from sidecar.authority.source import SourceUnavailable
from sidecar.errors import StartError
from sidecar.identity import Generation
from tests.names import U1, U2

PENDING = Unassigned(pending=True)
SEVEN = {"generation": "7", "uid": str(U1)}
EIGHT = {"generation": "8", "uid": str(U2)}


class Volume:
    """A volume as the kubelet writes it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.directory.mkdir(exist_ok=True)
        self._published: list[Path] = []

    def __truediv__(self, name: str) -> Path:
        return self.directory / name

    def publish(self, values: Mapping[str, str], *, keep_old: bool = False) -> Path:
        """Publish *values*, by path inside the volume; the directory that holds them."""
        new = self / f"..2024_01_01_00_00_0{len(self._published)}.1"
        for name, value in values.items():
            (new / name).parent.mkdir(parents=True, exist_ok=True)
            (new / name).write_text(value)
        (self / "..data_tmp").symlink_to(new.name)
        (self / "..data_tmp").rename(self / "..data")
        for name in {Path(name).parts[0] for name in values}:
            if not (self / name).is_symlink():
                (self / name).symlink_to(Path("..data") / name)
        if not keep_old:
            for old in self._published:
                shutil.rmtree(old, ignore_errors=True)
        self._published.append(new)
        return new


class Kernel:
    """The system calls of the module under test, with something that happens before one of them."""

    def __init__(self, before_open: Callable[[int], None]) -> None:
        self.opened = 0
        self._before_open = before_open

    def __getattr__(self, name: str) -> object:
        return getattr(os, name)

    def open(self, *args: object, **options: object) -> int:
        self._before_open(self.opened)
        self.opened += 1
        return os.open(*args, **options)  # type: ignore[arg-type]


class Hanging:
    """A reader of a file system that doesn't answer until it is let go."""

    def __init__(self) -> None:
        self.answer = threading.Event()
        self.begun = threading.Semaphore(0)

    def __call__(self, paths: object) -> Contents:
        self.begun.release()
        self.answer.wait()
        return read_files(paths)  # type: ignore[arg-type]


@pytest.fixture
def volume(tmp_path: Path) -> Volume:
    return Volume(tmp_path / "podinfo")


@pytest.fixture
def hanging() -> Iterator[Hanging]:
    reader = Hanging()
    yield reader
    reader.answer.set()


def files_of(directory: Volume | Path, **options: object) -> Files:
    both = {"instance": directory / "uid", "generation": directory / "generation", "poll_interval": 2}
    return Files(**both | {"mounts": list} | options)  # type: ignore[arg-type]


def generation_of(directory: Volume | Path, **options: object) -> Files:
    return files_of(directory, instance=U1, **options)


async def test_both_parts_are_read_from_a_volume(volume):
    volume.publish(SEVEN)
    assert await files_of(volume).read() == Assignment(Generation(7), U1)


async def test_a_publication_is_seen_by_the_next_read(volume):
    files = files_of(volume)
    for values, expected in ((SEVEN, Assignment(Generation(7), U1)), (EIGHT, Assignment(Generation(8), U2))) * 2:
        volume.publish(values)
        assert await files.read() == expected


async def test_a_value_beside_a_file_stays_what_it_is(volume):
    volume.publish(SEVEN)
    assert await generation_of(volume).read() == Assignment(Generation(7), U1)
    assert await files_of(volume, generation=None).read() == Assignment(None, U1)


@pytest.mark.parametrize("keep_old", [True, False])
@pytest.mark.parametrize("folder", ["", "nested"])
@pytest.mark.parametrize("moment", range(6))
def test_two_files_are_never_of_two_publications(volume, monkeypatch, keep_old, folder, moment):
    def named(values: Mapping[str, str]) -> dict[str, str]:
        return {str(Path(folder) / name): value for name, value in values.items()}

    def swap(opened: int) -> None:
        if opened == moment:
            volume.publish(named(EIGHT), keep_old=keep_old)

    volume.publish(named(SEVEN))
    kernel = Kernel(swap)
    monkeypatch.setattr(files_module, "os", kernel)
    found = read_files([volume / folder / name for name in SEVEN])
    assert {path.name: content.decode() for path, content in found.items()} in (SEVEN, EIGHT)
    assert kernel.opened >= 3


def test_a_directory_that_is_replaced_all_the_time_is_given_up(volume, monkeypatch):
    volume.publish(SEVEN)
    monkeypatch.setattr(files_module, "os", Kernel(lambda _: volume.publish(SEVEN)))
    with pytest.raises(SourceUnavailable, match=f"{volume.directory} was replaced {MAX_ATTEMPTS} times"):
        read_files([volume / "uid", volume / "generation"])


def test_no_descriptor_is_left_open_whatever_is_found(volume, tmp_path):
    def descriptors() -> set[str]:
        return {entry.name for entry in Path("/proc/self/fd").iterdir()}

    volume.publish(SEVEN)
    (tmp_path / "folder").mkdir()
    before = descriptors()
    read_files([volume / "uid", volume / "none", tmp_path / "none" / "none"])
    with pytest.raises(SourceUnavailable):
        read_files([tmp_path / "folder"])
    assert descriptors() == before


async def test_plain_files_of_one_or_several_directories_are_read_too(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "generation").write_text("7")
    (tmp_path / "uid").write_text(f"{U1}\n")
    (tmp_path / "there" / "uid").write_text(str(U2))
    assert await files_of(tmp_path).read() == Assignment(Generation(7), U1)
    assert await files_of(tmp_path, instance=tmp_path / "there" / "uid").read() == Assignment(Generation(7), U2)


async def test_one_final_newline_isnt_part_of_the_value(volume):
    volume.publish({"generation": "7\n"})
    assert await generation_of(volume).read() == Assignment(Generation(7), U1)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ("7\n\n", "must be a decimal number"),
        ("7\r\n", "must be a decimal number"),
        (" 7", "must be a decimal number"),
        ("07", "must be a decimal number"),
        ("0", "must be between 1 and 18446744073709551615"),
        ("18446744073709551616", "must be between 1 and 18446744073709551615"),
        ("\N{ARABIC-INDIC DIGIT SEVEN}", "has bytes outside ASCII"),
    ],
)
@pytest.mark.parametrize("before", [SEVEN, {}])
async def test_what_is_there_and_malformed_is_no_answer_at_any_time(volume, before, content, fault):
    files = generation_of(volume)
    volume.publish(before)
    await files.read()
    volume.publish({"generation": content})
    with pytest.raises(SourceUnavailable) as caught:
        await files.read()
    assert str(caught.value).startswith(f"{volume / 'generation'}: the generation {fault}")


async def test_the_error_never_shows_the_value(volume):
    volume.publish({"uid": "s3cret s3cret"})
    with pytest.raises(SourceUnavailable, match="the instance must be 1 to 128 printable ASCII") as caught:
        await files_of(volume, generation=None).read()
    assert "s3cret" not in str(caught.value)


async def test_what_is_wrong_counts_more_than_what_hasnt_come(volume):
    volume.publish({"generation": "seven"})
    with pytest.raises(SourceUnavailable):
        await files_of(volume).read()


@pytest.mark.parametrize("empty", ["", "\n"])
async def test_files_that_havent_come_are_pending_by_name(volume, empty):
    files = files_of(volume)
    both = [str(volume / "uid"), str(volume / "generation")]
    assert files.pending() == both
    assert await files.read() == PENDING
    volume.publish({"generation": empty})
    assert await files.read() == PENDING
    assert files.pending() == both
    volume.publish({"generation": "7", "uid": empty})
    assert await files.read() == PENDING
    assert files.pending() == [str(volume / "uid")]
    volume.publish(SEVEN)
    assert await files.read() == Assignment(Generation(7), U1)
    assert files.pending() == []


async def test_a_folder_that_isnt_there_is_pending_too(tmp_path):
    assert await files_of(tmp_path / "none").read() == PENDING


@pytest.mark.parametrize(
    ("later", "fault"), [({"uid": str(U1)}, "is missing"), (SEVEN | {"generation": "\n"}, "is empty")]
)
async def test_a_file_that_had_a_value_is_never_pending_again(volume, later, fault):
    files = files_of(volume)
    volume.publish(SEVEN)
    await files.read()
    volume.publish(later)
    with pytest.raises(SourceUnavailable) as caught:
        await files.read()
    assert str(caught.value) == f"{volume / 'generation'} {fault}, and had a value before"
    assert files.pending() == []
    volume.publish(EIGHT)
    assert await files.read() == Assignment(Generation(8), U2)


async def test_what_cant_be_read_is_no_answer(tmp_path):
    path = tmp_path / "generation"
    path.symlink_to(path)
    with pytest.raises(SourceUnavailable, match=f"{path} can't be read: Too many levels of symbolic links"):
        await generation_of(tmp_path).read()


async def test_a_file_below_a_file_is_no_answer(tmp_path):
    (tmp_path / "podinfo").write_text("")
    with pytest.raises(SourceUnavailable, match=f"{tmp_path / 'podinfo'} can't be read: Not a directory"):
        await generation_of(tmp_path / "podinfo").read()


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
async def test_what_is_no_regular_file_is_refused_and_never_waited_for(tmp_path, make):
    make(tmp_path / "generation")
    with pytest.raises(SourceUnavailable, match=f"{tmp_path / 'generation'} is no regular file"):
        await generation_of(tmp_path).read()


@pytest.mark.parametrize("length", [MAX_BYTES, MAX_BYTES + 1])
async def test_a_file_is_read_up_to_a_limit(tmp_path, length):
    (tmp_path / "generation").write_bytes(b"\n" * length)
    with pytest.raises(SourceUnavailable) as caught:
        await generation_of(tmp_path).read()
    assert ("is longer than 4096 bytes" in str(caught.value)) == (length > MAX_BYTES)


@given(st.binary(max_size=30))
def test_any_content_is_a_value_or_a_fault(content):
    path = Path("/podinfo/generation")
    files = Files(instance=U1, generation=path, poll_interval=2, reader=lambda _: {path: content}, mounts=list)
    try:
        result = trio.run(files.read)
    except SourceUnavailable:
        return
    if content in {b"", b"\n"}:
        assert result == PENDING
    else:
        assert result.generation is not None
        assert content in {str(result.generation).encode(), f"{result.generation}\n".encode()}


def test_without_a_file_it_is_the_wrong_source():
    with pytest.raises(ValueError, match="neither instance nor generation is a file"):
        Files(instance=U1, generation=Generation(7), poll_interval=2)


async def test_the_next_look_is_due_after_the_poll_interval(volume, autojump_clock):
    began = trio.current_time()
    await files_of(volume, poll_interval=3).wait_hint()
    assert trio.current_time() - began == 3


async def give_up_one_read(files: Files, hanging: Hanging) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(files.read)
        await trio.to_thread.run_sync(hanging.begun.acquire)
        nursery.cancel_scope.cancel()


async def test_a_file_system_that_hangs_holds_a_few_threads_of_its_own_and_nobody_else(volume, hanging):
    volume.publish(SEVEN)
    files = files_of(volume, reader=hanging)
    for _ in range(MAX_READS):
        await give_up_one_read(files, hanging)
    assert trio.to_thread.current_default_thread_limiter().borrowed_tokens == 0
    with pytest.raises(SourceUnavailable) as caught:
        await files.read()
    assert str(caught.value) == f"4 reads of {volume / 'uid'} hang: its file system doesn't answer"


async def test_reads_go_on_once_the_file_system_answers_again(volume, hanging):
    volume.publish(SEVEN)
    files = files_of(volume, reader=hanging)
    for _ in range(MAX_READS):
        await give_up_one_read(files, hanging)
    hanging.answer.set()
    with trio.fail_after(10):
        while True:
            try:
                assert await files.read() == Assignment(Generation(7), U1)
                break
            except SourceUnavailable:  # the threads that were left behind are about to end
                await trio.lowlevel.checkpoint()


VOLUME = Path("/etc/podinfo")


@pytest.mark.parametrize(
    "mounts",
    [
        [Mount(Path("/..2024_01/generation"), VOLUME / "generation")],
        [Mount(Path("/"), VOLUME / "generation")],
        [Mount(Path("/..2024_01/nested"), VOLUME)],
        [Mount(Path("/"), Path("/etc")), Mount(Path("/..2024_01//deleted"), VOLUME)],
        [Mount(Path("/"), VOLUME), Mount(Path("/..2024_01"), VOLUME)],
    ],
)
async def test_a_sub_path_mount_is_an_error_at_start_and_in_every_read(mounts):
    files = generation_of(VOLUME, mounts=lambda: [Mount(Path("/"), Path("/")), *mounts])
    says = (
        "/etc/podinfo/generation is mounted by subPath, so it never changes: mount the volume as a directory, without "
        "subPath"
    )
    with pytest.raises(StartError) as at_start:
        files.check()
    with pytest.raises(SourceUnavailable) as in_a_read:
        await files.read()
    assert str(at_start.value) == str(in_a_read.value) == says


@pytest.mark.parametrize(
    "mounts",
    [
        [],
        [Mount(Path("/"), VOLUME)],
        [Mount(Path("/var/lib/kubelet/volumes/podinfo"), VOLUME)],
        [Mount(Path("/..2024_01"), VOLUME), Mount(Path("/"), VOLUME)],
        [Mount(Path("/..2024_01/uid"), VOLUME / "uid"), Mount(Path("/..2024_01"), Path("/etc/podinfo2"))],
    ],
)
def test_other_mounts_are_none_of_its_business(mounts):
    generation_of(VOLUME, mounts=lambda: mounts).check()


async def test_once_there_was_a_value_the_mounts_arent_looked_at_again(volume):
    looks = []
    volume.publish(SEVEN)
    files = files_of(volume, mounts=lambda: looks.append(1) or [])
    for _ in range(3):
        await files.read()
    assert len(looks) == 1


def test_without_a_mount_table_nothing_starts():
    def unreadable() -> list[Mount]:
        raise PermissionError(13, "Permission denied")

    with pytest.raises(StartError, match="/proc/self/mountinfo can't be read: Permission denied: mount /proc"):
        generation_of(VOLUME, mounts=unreadable).check()


def test_the_kernels_mount_table_has_the_root():
    assert Path("/") in {mount.point for mount in mount_table()}


IN_A_MOUNT_NAMESPACE = """
import sys
from pathlib import Path
from sidecar.authority.files import Files
from sidecar.errors import StartError
from sidecar.identity import Generation
try:
    Files(instance=None, generation=Path(sys.argv[1]), poll_interval=2).check()
except StartError as error:
    print(error)
"""


def checked_with_mount(source: Path, target: Path, file: Path) -> str:
    """What ``check`` says of *file* in a mount namespace where *source* is mounted on *target*."""
    script = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", script, "sh", source, target]
    python = [sys.executable, "-c", IN_A_MOUNT_NAMESPACE, file]
    trial = subprocess.run([*command, "true"], capture_output=True, text=True)
    if trial.returncode:
        pytest.skip(f"mounting takes a privilege that this user lacks: {trial.stderr.strip()}")
    return subprocess.run([*command, *python], capture_output=True, text=True, check=True).stdout


def test_the_kernel_shows_a_sub_path_mount_of_a_file(volume, tmp_path):
    published = volume.publish(SEVEN)
    target = tmp_path / "with blank" / "generation"
    target.parent.mkdir()
    target.touch()
    assert "mounted by subPath" in checked_with_mount(published / "generation", target, target)


def test_the_kernel_shows_a_sub_path_mount_of_a_directory(volume, tmp_path):
    published = volume.publish({"nested/generation": "7"})
    target = tmp_path / "mounted"
    target.mkdir()
    assert "mounted by subPath" in checked_with_mount(published / "nested", target, target / "generation")


def test_a_volume_that_is_mounted_whole_passes(volume, tmp_path):
    volume.publish(SEVEN)
    target = tmp_path / "mounted"
    target.mkdir()
    assert checked_with_mount(volume.directory, target, target / "generation") == ""


async def test_a_process_without_threads_left_is_no_reason_to_end(tmp_path, monkeypatch):
    (tmp_path / "generation").write_text("7")
    files = Files(instance=None, generation=tmp_path / "generation", poll_interval=1)

    async def no_thread(*_args, **_kwargs):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(trio.to_thread, "run_sync", no_thread)
    with pytest.raises(SourceUnavailable, match="can't be read: can't start new thread"):
        await files.read()
