"""Contradictions: settings that are right one by one and wrong together.

Owns how rules are run, and the list of all of them; each stands with its subject in one of the ``*_rules`` modules. A
rule may touch any setting: where one is wrong in itself (`Unread`), that rule is passed over and the others are still
judged. Called by `loading`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from sidecar.config import assignment_rules, listener_rules, slot_rules, time_rules
from sidecar.config.case import Case, Finding
from sidecar.config.document import locate
from sidecar.config.problems import Problem, spell
from sidecar.config.section import Unread


def contradictions(case: Case) -> list[Problem]:
    """What is wrong with *case* beyond its single settings."""
    findings: list[Finding] = []
    for judgement in _judgements(case):
        with suppress(Unread):
            findings.extend(judgement)
    return [Problem(locate(case.root, path), spell(path), message) for path, message in findings]


def _judgements(case: Case) -> Iterator[Iterator[Finding]]:
    for rule in (*slot_rules.RULES, *assignment_rules.RULES, *listener_rules.RULES, *time_rules.RULES):
        yield rule(case)
    with suppress(Unread):
        for index, listener in enumerate(case.file.listeners):
            for listener_rule in listener_rules.EACH:
                yield listener_rule(case, ("listeners", index), listener)
