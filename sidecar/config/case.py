"""What a rule judges: the settings as values, and the text that they came from.

Owns how a setting is quoted in a message: as it was written, by its variable's name, or as the default that it is.
Called by the rules and by `availability`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from sidecar.config.document import Scalar, Table, find, plain
from sidecar.config.listener_model import ListenerSection
from sidecar.config.model import ConfigurationFile
from sidecar.config.problems import KeyPath

Finding = tuple[KeyPath, str]
"""Where, and what is wrong."""


@dataclass(frozen=True, slots=True)
class Case:
    """One configuration, with the environment that it is meant for."""

    file: ConfigurationFile
    root: Table
    environ: Mapping[str, str]

    def changes(self, *path: str | int) -> bool:
        """Whether the file sets what is at *path* to something other than its default."""
        node = find(self.root, path)
        return node is not None and plain(node) != self._default(path)

    def quote(self, *path: str | int) -> str:
        """The setting at *path* as it was written; never a value that came from a variable."""
        node = find(self.root, path)
        if not isinstance(node, Scalar):
            return f"{self._default(path)}, the default"
        return " and ".join(f"the value of ${{{name}}}" for name in node.variables) or node.text

    def defaulted(self, *path: str | int) -> str:
        """The variables of the setting at *path* whose defaults were taken, in words; empty: none."""
        node = find(self.root, path)
        return " and ".join(f"${{{name}}}" for name in node.defaulted) if isinstance(node, Scalar) else ""

    def _default(self, path: KeyPath) -> object:
        section: object = self.file
        for step in path[:-1]:
            section = (
                section[step] if isinstance(section, tuple) and isinstance(step, int) else getattr(section, str(step))
            )
        return type(section).model_fields[str(path[-1])].default  # type: ignore[attr-defined]  # the last is a Section


Rule = Callable[[Case], Iterator[Finding]]
ListenerRule = Callable[[Case, KeyPath, ListenerSection], Iterator[Finding]]
"""Gets the listener and the path to it."""
