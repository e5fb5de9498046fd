"""A volume with the pod's own metadata, as the kubelet mounts and renews it."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path


class Volume:
    """A directory whose files all change at once.

    What it publishes stands in a directory of its own; the symlink ``..data`` is renamed over the last one, and each
    file is itself a symlink that goes through it.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._directory = directory
        self._numbers = itertools.count(1)

    def source(self, name: str) -> dict[str, str]:
        """The value of a configuration's key that is read from the file *name*."""
        return {"file": str(self._directory / name)}

    def publish(self, **values: object) -> None:
        """From now on these are the files. A value of None: there is no such file."""
        data = self._directory / "..data"
        before = data.resolve() if data.is_symlink() else None
        new = self._directory / f"..2026_{next(self._numbers)}"
        new.mkdir()
        for name, value in values.items():
            if value is not None:
                (new / name).write_text(f"{value}")
        link = self._directory / "..data_tmp"
        link.symlink_to(new.name)
        link.rename(data)
        for name in values:
            file = self._directory / name
            if not file.is_symlink():
                file.symlink_to(f"..data/{name}")
        if before is not None:
            shutil.rmtree(before)
