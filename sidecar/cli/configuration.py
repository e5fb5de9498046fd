"""The configuration file of a command.

Owns reading it from disk and handing text and environment to `sidecar.config`, which is pure. A file that never ends,
or whose end somebody else decides, holds nobody: only regular files of a bounded size are read. Called by ``run``, at
the start and for each reload, by ``check`` and by ``floor``.
"""

from __future__ import annotations

import os
import stat
from typing import Final

from sidecar.config import Config, ConfigurationError, Problem, load

MAX_BYTES: Final = 1024 * 1024  # the reference, with all its comments, has 7 KiB

_WHAT_IT_IS: Final = {stat.S_IFDIR: "a directory", stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device"}


def read_config(path: str) -> Config:
    """The configuration in the file at *path*, with this process's environment; blocks. Raises ConfigurationError."""
    try:
        text = _read(path)
    except OSError as error:
        raise _unusable(path, f"can't be read: {error.strerror}: give the path of a readable YAML file") from error
    return load(text, file=path, environ=os.environ)


def _read(path: str) -> bytes:
    # Without O_NONBLOCK, the open of a FIFO would wait for somebody who writes into it.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
        if kind != stat.S_IFREG:
            what = _WHAT_IT_IS.get(kind, "no file")
            raise _unusable(path, f"is {what}: give the path of a regular file, in YAML")
        with open(descriptor, "rb", closefd=False) as file:
            text = file.read(MAX_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(text) > MAX_BYTES:
        raise _unusable(
            path, f"is longer than {MAX_BYTES >> 20} MiB, which no configuration needs: is it the right file?"
        )
    return text


def _unusable(path: str, message: str) -> ConfigurationError:
    return ConfigurationError(path, [Problem(None, "", message)])
