"""Rules for where the assignment is read, and what a claim must carry of it."""

from __future__ import annotations

from collections.abc import Iterator
from posixpath import normpath
from typing import Final

from sidecar.admission import Requirement
from sidecar.config.assignment_model import FileSource, LeaseSection
from sidecar.config.case import Case, Finding, Rule
from sidecar.config.effective import given_parts, max_staleness
from sidecar.config.problems import KeyPath
from sidecar.identity import Instance


def _something_tells_one_life_from_another(case: Case) -> Iterator[Finding]:
    if not given_parts(case.file.assignment):
        message = "needs instance, generation or both (or a registry): instance: ${POD_UID} is the simplest safe form"
        yield ("assignment",), message


def _the_instance_is_this_pods_own(case: Case) -> Iterator[Finding]:
    path = ("assignment", "instance")
    if isinstance(case.file.assignment.instance, Instance) and (variables := case.defaulted(*path)):
        message = (
            f"takes the default of {variables}: that is no pod's own, and with the same instance in every pod no life "
            "of the slot is told from another: set the variable (in Kubernetes through the downward API), and leave "
            "the default out"
        )
        yield path, message


def _a_registry_gives_the_generation(case: Case) -> Iterator[Finding]:
    assignment = case.file.assignment
    if assignment.registry is not None and assignment.generation is not None:
        yield ("assignment", "generation"), "contradicts assignment.registry, which gives the generation: leave it out"


def _a_registry_is_asked_for_an_instance(case: Case) -> Iterator[Finding]:
    assignment = case.file.assignment
    if assignment.registry is not None and assignment.instance is None:
        yield ("assignment", "instance"), "is missing: with a registry it says which pod this is, such as ${POD_UID}"


def _a_lease_needs_a_registry(case: Case) -> Iterator[Finding]:
    assignment = case.file.assignment
    if isinstance(assignment.lease, LeaseSection) and assignment.registry is None:
        yield ("assignment", "lease"), "needs assignment.registry, where the lease is kept"


def _max_age_needs_last_known(case: Case) -> Iterator[Finding]:
    if case.file.assignment.on_unavailable != "last_known" and case.changes("assignment", "max_age"):
        yield ("assignment", "max_age"), "has no effect without on_unavailable: last_known"


def _values_are_always_there(case: Case) -> Iterator[Finding]:
    assignment = case.file.assignment
    sources = (assignment.instance, assignment.generation)
    if assignment.registry is not None or any(isinstance(source, FileSource) for source in sources):
        return
    if assignment.on_unavailable == "last_known":
        message = "has no effect: values are always there; last_known is for what is read from files or a registry"
        yield ("assignment", "on_unavailable"), message


def _one_file_holds_one_value(case: Case) -> Iterator[Finding]:
    instance, generation = case.file.assignment.instance, case.file.assignment.generation
    if not isinstance(instance, FileSource) or not isinstance(generation, FileSource):
        return
    if _one_path(instance.file) == _one_path(generation.file):
        yield ("assignment", "generation"), "is read from the file of assignment.instance: give each a file of its own"


def _one_path(path: str) -> str:
    """The same text for each way to write a path; Linux gives no meaning to a second slash at the beginning."""
    return "/" + normpath(path).lstrip("/")


def _staleness_leaves_time_to_read(case: Case) -> Iterator[Finding]:
    assignment = case.file.assignment
    staleness = max_staleness(assignment)
    if staleness is not None and staleness <= assignment.revalidate_interval + assignment.timeout:
        quoted = "30s, the default" if assignment.max_staleness is None else case.quote("assignment", "max_staleness")
        message = (
            f"is {quoted}: it must be more than assignment.revalidate_interval, which is "
            f"{case.quote('assignment', 'revalidate_interval')}, and assignment.timeout, which is "
            f"{case.quote('assignment', 'timeout')}, together, or every connection is cut before "
            "the next read has ended"
        )
        yield ("assignment", "max_staleness"), message


def _what_is_required_can_be_given(case: Case) -> Iterator[Finding]:
    if case.file.require is not None:
        yield from check_require(case, ("require",), case.file.require)


def check_require(case: Case, path: KeyPath, require: tuple[Requirement, ...]) -> Iterator[Finding]:
    """What is wrong with the list *require* at *path*."""
    if Requirement.IDENTITY not in require:
        yield path, "must hold identity: without it a connection to any slot would do"
    for index, part in enumerate(require):
        if part in require[:index]:
            yield (*path, index), f"names {part} twice"
    if Requirement.EPOCH in require and case.file.state_dir is None and case.file.assignment.registry is None:
        yield path, "holds epoch, whose floor must outlive the process: set state_dir, or use a registry"
    for part in sorted(
        {Requirement.INSTANCE, Requirement.GENERATION} & set(require) - given_parts(case.file.assignment)
    ):
        yield path, f"holds {part}, which the assignment doesn't give: set assignment.{part}, or leave it out here"


RULES: Final[tuple[Rule, ...]] = (
    _something_tells_one_life_from_another,
    _the_instance_is_this_pods_own,
    _a_registry_gives_the_generation,
    _a_registry_is_asked_for_an_instance,
    _a_lease_needs_a_registry,
    _max_age_needs_last_known,
    _values_are_always_there,
    _one_file_holds_one_value,
    _staleness_leaves_time_to_read,
    _what_is_required_can_be_given,
)
