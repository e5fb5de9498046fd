"""Rules for time limits that stand in different sections and bound each other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from sidecar.config.case import Case, Finding, Rule
from sidecar.config.effective import enforcement_of

GRACE_PERIOD: Final = "TERMINATION_GRACE_PERIOD_SECONDS"  # set it to the pod's terminationGracePeriodSeconds

_SECONDS = re.compile(r"0|[1-9][0-9]{0,8}")


def _a_claim_may_wait_for_the_authority(case: Case) -> Iterator[Finding]:
    if case.file.timeouts.preface < case.file.assignment.timeout:
        message = (
            f"is {case.quote('timeouts', 'preface')}: it must not be less than assignment.timeout, which is "
            f"{case.quote('assignment', 'timeout')}, since the wait for the authority is part of it"
        )
        yield ("timeouts", "preface"), message


def _silence_is_seen_before_it_is_too_late(case: Case) -> Iterator[Finding]:
    file = case.file
    shadows = any(enforcement_of(file, listener) == "shadow" for listener in file.listeners)
    if shadows and file.shadow_wait >= file.timeouts.preface:
        message = (
            f"is {case.quote('shadow_wait')}: it must be less than timeouts.preface, which is "
            f"{case.quote('timeouts', 'preface')}, or clients without a preface are refused in shadow mode too"
        )
        yield ("shadow_wait",), message


def _draining_ends_before_the_kill(case: Case) -> Iterator[Finding]:
    if GRACE_PERIOD not in case.environ:
        return
    path = ("drain", "timeout")
    written = case.environ[GRACE_PERIOD]
    if not _SECONDS.fullmatch(written):
        yield path, f"can't be compared with the variable {GRACE_PERIOD}, which must be a whole number of seconds"
        return
    drain = case.file.drain
    if drain.delay + drain.timeout > int(written):
        message = (
            f"is {case.quote(*path)}, and drain.delay {case.quote('drain', 'delay')}: together they must not be more "
            f"than the {written}s of {GRACE_PERIOD}, after which the pod is killed"
        )
        yield path, message


RULES: Final[tuple[Rule, ...]] = (
    _a_claim_may_wait_for_the_authority,
    _silence_is_seen_before_it_is_too_late,
    _draining_ends_before_the_kill,
)
