"""The assignment from mounted files, as Kubernetes' downward API writes them.

Theory of operation. The kubelet publishes all files of a volume at once: it writes them into a new directory with a
timestamp for a name, and renames a symlink, ``..data``, over the old one; ``generation`` is itself a symlink to
``..data/generation``. Opened by name one after the other, two files may come from two publications. So the directory
behind ``..data`` is opened once and both are read relative to that descriptor: what it holds was published together. If
it is deleted meanwhile, a file is missing in it while ``..data`` points elsewhere already; then it begins again.

What that can't promise: files of different directories, and plain files without ``..data``, are each read whole but not
as of one moment. Whoever writes plain files replaces each by rename; one that is rewritten in place may be read half.

A file system that hangs holds a thread, never trio's loop: a read that its caller gives up is left behind, and at most
``MAX_READS`` exist.

Owns this way of reading and what the bytes of a file mean. Keeps no record but whether there ever was one: that tells
a file that hasn't come yet from one that is gone. Called by the layer in front of all sources, which bounds each read.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import trio

from sidecar.assignment import Assignment, Unassigned
from sidecar.authority.source import SourceUnavailable
from sidecar.errors import MalformedValue, StartError
from sidecar.identity import Generation, Instance

MAX_BYTES: Final = 4096  # of a file
MAX_READS: Final = 4  # threads at once; where a file system hangs, all of them are abandoned ones
MAX_ATTEMPTS: Final = 5  # at a directory that is replaced while it is read; the kubelet does that once a minute or so

_DATA: Final = "..data"
_ESCAPED = re.compile(rb"\\([0-7]{3})")

Contents = Mapping[Path, bytes | None]  # None: there is no such file
Part = TypeVar("Part", Instance, Generation)


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of the kernel's mount table: *root*, a path inside a file system, is seen at *point*."""

    root: Path
    point: Path

    def never_changes(self, file: Path) -> bool:
        """Whether *file*, seen through this mount, stays as it is: a subPath mount, of the file or of its directory."""
        return self.point == file or any(part.startswith("..") for part in self.root.parts)


def mount_table() -> list[Mount]:
    """This process's mounts, in their order (proc(5), "mountinfo"). Raises OSError."""

    def path(field: bytes) -> Path:
        return Path(os.fsdecode(_ESCAPED.sub(lambda octal: bytes([int(octal[1], 8)]), field)))

    lines = Path("/proc/self/mountinfo").read_bytes().splitlines()
    return [Mount(path(fields[3]), path(fields[4])) for fields in map(bytes.split, lines)]


def read_files(paths: Iterable[Path]) -> Contents:
    """What stands in each of *paths*; those of one directory as of one moment. Raises SourceUnavailable."""
    by_directory: dict[Path, list[Path]] = {}
    for path in paths:
        by_directory.setdefault(path.parent, []).append(path)
    contents: dict[Path, bytes | None] = {}
    for directory, files in by_directory.items():
        contents |= _read_together(directory, files)
    return contents


class Files:
    """A source of assignments: files, at least for one part of the incarnation.

    Args:
        instance: a value, the file that holds it, or None where the assignment has no instance.
        generation: the same.
        poll_interval: seconds after which the files may have changed.
        reader: reads files; blocks.
        mounts: reads the mount table; blocks.
    """

    def __init__(
        self,
        *,
        instance: Instance | Path | None,
        generation: Generation | Path | None,
        poll_interval: float,
        reader: Callable[[Iterable[Path]], Contents] = read_files,
        mounts: Callable[[], Iterable[Mount]] = mount_table,
    ) -> None:
        self._instance = instance
        self._generation = generation
        self._paths = tuple(part for part in (instance, generation) if isinstance(part, Path))
        if not self._paths:
            raise ValueError("neither instance nor generation is a file")
        self._poll_interval = poll_interval
        self._reader = reader
        self._mounts = mounts
        self._threads = trio.CapacityLimiter(MAX_READS)
        self._missing = self._paths
        self._complete = False  # whether every file has had its value once

    async def read(self) -> Assignment | Unassigned:
        """What the files say now. The caller bounds its time with a cancel scope.

        Returns:
            The assignment; or ``Unassigned(pending=True)`` where a file hasn't got its first value yet: it is missing,
            or empty, as the kubelet writes an annotation that isn't set.

        Raises:
            SourceUnavailable: a file can't be read, is malformed or never changes; is missing or empty and wasn't
                before; or so many reads hang already that another can't begin.
        """
        if not self._threads.available_tokens:
            raise SourceUnavailable(f"{MAX_READS} reads of {self._paths[0]} hang: its file system doesn't answer")
        try:
            contents = await trio.to_thread.run_sync(self._look, abandon_on_cancel=True, limiter=self._threads)
        except RuntimeError as error:  # the process may have no more threads
            raise SourceUnavailable(f"{self._paths[0]} can't be read: {error}") from error
        return self._take(contents)

    def check(self) -> None:
        """Look whether the files can change at all; blocks. Raises StartError where one is mounted by subPath."""
        try:
            self._refuse_frozen()
        except SourceUnavailable as error:
            raise StartError(str(error)) from error

    def pending(self) -> list[str]:
        """The files that haven't got their first value yet, by path."""
        return [str(path) for path in self._missing]

    def now(self) -> None:
        """Files have to be read."""

    async def wait_hint(self) -> None:
        """Return when a change may have happened."""
        await trio.sleep(self._poll_interval)

    def _look(self) -> Contents:
        if not self._complete:  # a mount of this kind is there from the start or never
            self._refuse_frozen()
        return self._reader(self._paths)

    def _refuse_frozen(self) -> None:
        try:
            table = list(self._mounts())
        except OSError as error:
            raise SourceUnavailable(f"/proc/self/mountinfo can't be read: {error.strerror}: mount /proc") from error
        for path in self._paths:
            file = Path(os.path.realpath(path))
            mount = _mount_of(file, table)
            if mount is not None and mount.never_changes(file):
                raise SourceUnavailable(
                    f"{path} is mounted by subPath, so it never changes: mount the volume as a directory, without "
                    "subPath"
                )

    def _take(self, contents: Contents) -> Assignment | Unassigned:
        values = {path: (content or b"").removesuffix(b"\n") for path, content in contents.items()}
        assignment = Assignment(
            generation=_part(Generation, self._generation, values), instance=_part(Instance, self._instance, values)
        )
        missing = tuple(path for path, value in values.items() if not value)
        if self._complete and missing:
            fault = "is missing" if contents[missing[0]] is None else "is empty"
            raise SourceUnavailable(f"{missing[0]} {fault}, and had a value before")
        self._missing = missing
        if missing:
            return Unassigned(pending=True)
        self._complete = True
        return assignment


def _part(kind: type[Part], source: Part | Path | None, values: Mapping[Path, bytes]) -> Part | None:
    """The value of *source*; None where it has none, or its file has none yet."""
    if not isinstance(source, Path):
        return source
    if not values[source]:
        return None
    try:
        return kind.from_wire(values[source])
    except MalformedValue as error:
        raise SourceUnavailable(f"{source}: the {kind.__name__.lower()} {error}") from error


def _mount_of(file: Path, table: Iterable[Mount]) -> Mount | None:
    """The mount that *file* is seen through: the innermost, and of several at one place the last."""
    above = {mount.point: mount for mount in table if file.is_relative_to(mount.point)}
    return max(above.values(), key=lambda mount: len(mount.point.parts), default=None)


def _read_together(directory: Path, files: Iterable[Path]) -> Contents:
    for _ in range(MAX_ATTEMPTS):
        try:
            with _opened(directory) as now:
                contents = {file: _read_file(file, now) for file in files}
                if None not in contents.values() or _is_current(directory, now):
                    return contents
        except FileNotFoundError:
            return dict.fromkeys(files)
        except OSError as error:
            raise SourceUnavailable(f"{directory} can't be read: {error.strerror}") from error
    raise SourceUnavailable(f"{directory} was replaced {MAX_ATTEMPTS} times while it was read")


@contextmanager
def _opened(directory: Path) -> Iterator[int]:
    """What *directory* publishes now, as a descriptor. Raises OSError."""
    flags = os.O_PATH | os.O_DIRECTORY
    try:
        descriptor = os.open(directory / _DATA, flags)
    except FileNotFoundError:
        descriptor = os.open(directory, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _is_current(directory: Path, descriptor: int) -> bool:
    with _opened(directory) as now:
        return os.path.samestat(os.fstat(now), os.fstat(descriptor))


def _read_file(file: Path, directory: int) -> bytes | None:
    """The whole of *file*, looked up by its name in the open *directory*. Raises SourceUnavailable."""
    try:
        # Without O_NONBLOCK, the open of a FIFO would wait for somebody who writes into it.
        descriptor = os.open(file.name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY, dir_fd=directory)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise SourceUnavailable(f"{file} is no regular file")
            with open(descriptor, "rb", closefd=False) as opened:
                content = opened.read(MAX_BYTES + 1)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SourceUnavailable(f"{file} can't be read: {error.strerror}") from error
    if len(content) > MAX_BYTES:
        raise SourceUnavailable(f"{file} is longer than {MAX_BYTES} bytes")
    return content
