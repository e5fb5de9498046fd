"""What the configuration may say and this version doesn't do yet.

Owns one table. A part that is built takes its rows out. Whatever stands here is refused rather than ignored: a check
that somebody wrote down and nobody makes is worse than none. Called by `loading`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from sidecar.config.assignment_model import LeaseSection
from sidecar.config.case import Case
from sidecar.config.document import locate
from sidecar.config.problems import KeyPath, Problem, spell
from sidecar.config.section import Unread


def _is(kind: type[object]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, kind)


def _equals(unavailable: object) -> Callable[[object], bool]:
    return lambda value: value == unavailable


def _other_than(*available: object) -> Callable[[object], bool]:
    return lambda value: value not in available


# Where, which values, and what they ask for; "*" stands for every listener.
_NOT_BUILT: Final[tuple[tuple[str, Callable[[object], bool], str], ...]] = (
    ("assignment.registry", _other_than(None), "registries"),
    ("assignment.lease", _is(LeaseSection), "leases"),
    ("listeners.*.preface", _equals("ctp"), "the ctp preface"),
    ("listeners.*.ctp", _other_than(None), "the ctp preface"),
)


def not_available(case: Case) -> list[Problem]:
    """What *case* asks for and this version doesn't have."""
    return [
        Problem(locate(case.root, path), spell(path), f"not available in this version: {words}")
        for pattern, refuses, words in _NOT_BUILT
        for path, value in _values(case.file, tuple(pattern.split(".")), ())
        if refuses(value)
    ]


def _values(holder: object, steps: tuple[str, ...], path: KeyPath) -> Iterator[tuple[KeyPath, object]]:
    if not steps:
        yield path, holder
    elif steps[0] == "*" and isinstance(holder, tuple):
        for index, item in enumerate(holder):
            yield from _values(item, steps[1:], (*path, index))
    else:
        with suppress(Unread):
            yield from _values(getattr(holder, steps[0]), steps[1:], (*path, steps[0]))
