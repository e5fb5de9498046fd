"""What is wrong with a configuration, where, and how it is told.

Owns `Problem` and the one exception that carries all of them. Knows neither YAML nor what any key means. Every other
module of this package makes problems; the commands print them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass

from sidecar.errors import SidecarError

KeyPath = tuple[str | int, ...]


_BARE = re.compile(r"[A-Za-z0-9_<-]+")


def spell(path: KeyPath) -> str:
    """*path* as people write it, on one line: ``listeners[0].listen``."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            key = step if _BARE.fullmatch(step) else json.dumps(step)
            text += f".{key}" if text else key
    return text


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A position in the text. Lines and columns count from 1, as editors do."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        place: Where; None for the file as such.
        key: The path to what is wrong, empty where the whole text is meant.
        message: What is wrong and what to do, on one line.
    """

    place: Place | None
    key: str
    message: str


class ConfigurationError(SidecarError):
    """The configuration can't be used. ``problems`` has every reason, in the order of the text."""

    exit_code = 2

    def __init__(self, file: str, problems: Iterable[Problem]) -> None:
        self.file = file
        self.problems = tuple(sorted(set(problems), key=_order))
        super().__init__(file, self.problems)

    def __str__(self) -> str:
        return "\n".join(self._line(problem) for problem in self.problems)

    def _line(self, problem: Problem) -> str:
        place = f":{problem.place.line}:{problem.place.column}" if problem.place else ""
        return ": ".join(filter(None, (f"{self.file}{place}", problem.key, problem.message)))


def _order(problem: Problem) -> tuple[Place, str, str]:
    return problem.place or Place(0, 0), problem.key, problem.message
