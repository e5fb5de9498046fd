"""What an authority says: the assignment, or why there is none to go by.

Owns these values alone. A store's failure is one of them, so that it is never mistaken for an answer. Made by
``authority``, decided on by ``admission``.
"""

from __future__ import annotations

from dataclasses import dataclass

from sidecar.identity import Epoch, Generation, Instance


@dataclass(frozen=True, slots=True)
class Assignment:
    """The authoritative record: this slot is at this generation and belongs to this instance."""

    generation: Generation | None = None
    instance: Instance | None = None
    epoch: Epoch | None = None  # of the controller that wrote the record


@dataclass(frozen=True, slots=True)
class Unassigned:
    """The authority answered that the slot has no assignment; ``pending``: it never had one."""

    pending: bool


@dataclass(frozen=True, slots=True)
class Unavailable:
    """The authority didn't answer in time, or gave an answer that can't be trusted."""

    detail: str


@dataclass(frozen=True, slots=True)
class Regressed:
    """The authority answered with something older than what was seen already."""

    detail: str


Reading = Assignment | Unassigned | Unavailable | Regressed
