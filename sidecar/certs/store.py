"""Where the development CA and what it issued are kept: plain files, in the layout that Kubernetes' secrets have.

Owns the system calls. A file is there whole or not at all, and a key is never readable by others, not even while it is
being written. What is there already is left alone, unless it is to be replaced. Called by the ``certs`` command.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sidecar.certs.authority import Authority, Pair
from sidecar.certs.errors import CertsError

CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
CA: Final = "ca.crt"
CA_KEY: Final = "ca.key"
GITIGNORE: Final = ".gitignore"

_IGNORED: Final = b"# Keys are never committed, nor what is made anew in a moment.\n*.key\n*.crt\n"
_PUBLIC: Final = 0o644


def keep_authority(directory: Path, authority: Authority) -> None:
    """Put a new CA into *directory*, which is made where it is missing. Raises CertsError: there is one, say."""
    own = authority.pair()
    _refuse_to_overwrite(
        directory, (CA, CA_KEY), "remove it if nothing uses that CA any more, or give another directory"
    )
    if not os.path.lexists(directory / GITIGNORE):
        _write(directory, {GITIGNORE: _IGNORED})
    _write(directory, {CA_KEY: own.key, CA: own.certificate})


def read_authority(directory: Path) -> Authority:
    """The CA in *directory*. Raises CertsError."""
    try:
        certificate, key = ((directory / name).read_bytes() for name in (CA, CA_KEY))
    except FileNotFoundError as error:
        raise CertsError(f"{error.filename} isn't there: make a CA with `sidecar certs init {directory}`") from error
    except OSError as error:
        raise CertsError(f"{error.filename} can't be read: {error.strerror}") from error
    try:
        return Authority.from_pem(certificate, key)
    except CertsError as error:
        raise CertsError(f"{directory}: {error}") from error


def keep_pair(directory: Path, pair: Pair, authority: Authority, *, replace: bool) -> None:
    """Put *pair*, and the CA's certificate, into *directory*.

    Raises:
        CertsError: Something is there and isn't to be replaced, or it can't be written.
    """
    if not replace:
        _refuse_to_overwrite(directory, (CERTIFICATE, KEY), "give --replace to have a new one in its place")
    _write(directory, {KEY: pair.key, CERTIFICATE: pair.certificate, CA: authority.pair().certificate})


def _refuse_to_overwrite(directory: Path, names: tuple[str, ...], advice: str) -> None:
    for name in names:
        if os.path.lexists(directory / name):
            raise CertsError(f"{directory / name} is there already: {advice}")


def _write(directory: Path, files: Mapping[str, bytes]) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            _replace(directory / name, content, secret=name in {KEY, CA_KEY})
    except OSError as error:
        raise CertsError(f"{error.filename or directory} can't be written: {error.strerror}") from error


def _replace(path: Path, content: bytes, *, secret: bool) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # with mode 0600 from the start
    new = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if not secret:
                os.fchmod(file.fileno(), _PUBLIC)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
