"""From text to `Config`: the steps in their order.

Owns only the order: parse, expand, read, check what this version has, judge, resolve. Called by the commands, with the
text and the environment.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from sidecar.config.availability import not_available
from sidecar.config.case import Case
from sidecar.config.effective import Config, resolve
from sidecar.config.expand import expand
from sidecar.config.parsing import NoTreeError, parse
from sidecar.config.problems import ConfigurationError, Problem
from sidecar.config.reading import read
from sidecar.config.rules import contradictions

_OWN: Final = frozenset({"identity", "assignment"})  # sections whose values each pod has for itself


def load(text: str | bytes, *, file: str, environ: Mapping[str, str]) -> Config:
    """The configuration that *text* holds, with variables from *environ*.

    Args:
        text: The YAML file as it was read.
        file: Its name, for messages.
        environ: The variables for ``${NAME}`` and TERMINATION_GRACE_PERIOD_SECONDS; nothing else is looked up.

    Raises:
        ConfigurationError: It can't be used. Carries everything that is wrong; only a text that isn't valid YAML
            is reported by itself.
    """
    try:
        case, problems = examine(text, environ)
    except NoTreeError as error:
        raise ConfigurationError(file, [error.problem]) from error
    unavailable = not_available(case)
    blocks = tuple(f"{problem.key}." for problem in unavailable)  # nothing has to be added to one that must go
    problems += unavailable
    problems += (problem for problem in contradictions(case) if not problem.key.startswith(blocks))
    if problems:
        raise ConfigurationError(file, problems)
    return resolve(case.file, fingerprint(text))


def examine(text: str | bytes, environ: Mapping[str, str]) -> tuple[Case, list[Problem]]:
    """What *text* holds, and what is wrong with its settings one by one. Raises NoTreeError."""
    root, problems = parse(text)
    root, unfilled = expand(root, environ, own=_OWN)
    settings, misread = read(root)
    case = Case(settings, root, environ)
    problems += unfilled
    said = {problem.key for problem in problems}
    problems += (problem for problem in misread if problem.key not in said)
    return case, problems


def fingerprint(text: str | bytes) -> str:
    """A short name of this very text, for metrics: the first 16 hexadecimal digits of its SHA-256."""
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return hashlib.sha256(raw).hexdigest()[:16]
