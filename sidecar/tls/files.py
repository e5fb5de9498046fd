"""The files of a ``tls`` block, read as of one moment where they lie in one directory.

Theory of operation. A certificate and its key that were read at different moments may not fit. Kubernetes publishes all
files of a volume at once, by renaming the symlink ``..data`` to the directory that holds them; other tools swap a
symlink to a directory. So a directory is opened once, behind its symlinks, and its files are read relative to that
descriptor: what it holds was published together. If it is deleted meanwhile, a file is missing in it while another
directory stands in its place: then it begins again. Of files that are written one after the other no single reading can
tell: a pair that doesn't fit has to be read again, which is the caller's to do (``rotation``).

Owns this way of reading. What the bytes mean is ``material``'s. Everything blocks: callers use a thread.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from sidecar.tls.material import (
    ANY_DOMAIN,
    Credentials,
    Crls,
    File,
    Material,
    Roots,
    TlsFilesError,
    read_credentials,
    read_crls,
    read_roots,
)

MAX_BYTES: Final = 1024 * 1024  # of a file
MAX_ATTEMPTS: Final = 5  # at a directory that is replaced while it is read

_DATA: Final = "..data"


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Why a file can't be read."""

    why: str


Contents = Mapping[Path, bytes | Unreadable]

_MISSING: Final = Unreadable("doesn't exist")


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Which files a ``tls`` block names.

    Attributes:
        certificate: this side's, followed by those that stand between it and a root; may be the same file as ``key``.
        key: its private key.
        client_ca: the roots of peers.
        trust_domains: more roots, by the trust domain that they vouch for.
        crl: lists of revoked certificates; None: nothing is looked up.
    """

    certificate: Path
    key: Path
    client_ca: Path
    trust_domains: Mapping[str, Path] = field(default_factory=dict)
    crl: Path | None = None

    @property
    def paths(self) -> tuple[Path, ...]:
        """All of them, each once."""
        crl = () if self.crl is None else (self.crl,)
        return tuple(dict.fromkeys((self.certificate, self.key, self.client_ca, *self.trust_domains.values(), *crl)))

    def credentials(self, contents: Contents) -> Credentials:
        """What this side shows, if the files hold *contents*. Raises TlsFilesError."""
        return read_credentials(_file(contents, self.certificate), _file(contents, self.key))

    def roots(self, contents: Contents) -> Roots:
        """The roots of peers. Raises TlsFilesError."""
        bundles = {ANY_DOMAIN: self.client_ca, **self.trust_domains}
        return read_roots({domain: _file(contents, path) for domain, path in bundles.items()})

    def crls(self, contents: Contents) -> Crls:
        """The lists of revoked certificates. Raises TlsFilesError."""
        return Crls() if self.crl is None else read_crls(_file(contents, self.crl))


def load(files: TlsFiles) -> Material:
    """Everything in *files*, as it is now; for those who need it once. Raises TlsFilesError."""
    contents = read_files(files.paths)
    return Material(files.credentials(contents), files.roots(contents), files.crls(contents))


def read_files(paths: Iterable[Path]) -> Contents:
    """What stands in each of *paths*; those of one directory as of one moment."""
    by_directory: dict[Path, list[Path]] = {}
    for path in paths:
        by_directory.setdefault(path.parent, []).append(path)
    contents: dict[Path, bytes | Unreadable] = {}
    for directory, files in by_directory.items():
        contents |= _read_together(directory, files)
    return contents


def _file(contents: Contents, path: Path) -> File:
    content = contents[path]
    if isinstance(content, Unreadable):
        raise TlsFilesError(path, content.why)
    return File(path, content)


def _read_together(directory: Path, files: list[Path]) -> Contents:
    for _ in range(MAX_ATTEMPTS):
        try:
            with _opened(directory) as now:
                contents = {path: _read_file(path, now) for path in files}
                if _MISSING not in contents.values() or _is_current(directory, now):
                    return contents
        except OSError as error:
            return dict.fromkeys(files, Unreadable(f"can't be read: {error.strerror}"))
    return dict.fromkeys(files, Unreadable(f"its directory was replaced {MAX_ATTEMPTS} times while it was read"))


@contextmanager
def _opened(directory: Path) -> Iterator[int]:
    """What *directory* publishes now, as a descriptor. Raises OSError."""
    flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
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


def _read_file(path: Path, directory: int) -> bytes | Unreadable:
    """The whole of *path*, looked up by its name in the open *directory*."""
    try:
        # Without O_NONBLOCK, the open of a FIFO would wait for somebody who writes into it.
        descriptor = os.open(path.name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=directory)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return Unreadable("is no regular file")
            with open(descriptor, "rb", closefd=False) as opened:
                content = opened.read(MAX_BYTES + 1)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        return _MISSING
    except OSError as error:
        return Unreadable(f"can't be read: {error.strerror}")
    return Unreadable(f"is longer than {MAX_BYTES} bytes") if len(content) > MAX_BYTES else content
