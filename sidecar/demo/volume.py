"""A file as Kubernetes' downward API mounts it, for the demo: what the kubelet does, without a kubelet.

Owns the swap by which a new content is published: a directory for each publication, a symlink ``..data`` to it that is
renamed over the old one, and the file itself a symlink through that. Knows no meaning of a content. Called by the
front.
"""

from __future__ import annotations

import shutil
from pathlib import Path


class MountedFile:
    """The one file of a volume.

    Attributes:
        path: where it is read. Its directory is the volume's, made by the first ``publish``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._data = path.parent / "..data"
        self._published = 0

    def publish(self, text: str) -> None:
        """Let the file say *text* from now on; whoever reads finds the old content or the new one, whole."""
        self._published += 1
        volume = self.path.parent
        publication = volume / f"..{self._published}"
        publication.mkdir(parents=True)
        (publication / self.path.name).write_text(f"{text}\n")
        swap = volume / "..data_tmp"
        swap.symlink_to(publication.name)
        before = self._data.resolve()
        swap.rename(self._data)
        if self._published == 1:
            self.path.symlink_to(Path(self._data.name, self.path.name))
        else:
            shutil.rmtree(before)
