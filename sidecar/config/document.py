"""The file as a tree that remembers where everything stood.

Owns the three kinds of node and how to find one. A scalar keeps its text and what YAML 1.1 makes of it: what it means
is the model's to say. Knows no key. Made by `parsing`, filled in by `expand`, read by everybody after.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, unique

from sidecar.config.problems import KeyPath, Place

_CANONICAL_NUMBER = re.compile(r"0|[1-9][0-9]{0,19}")


@unique
class Kind(StrEnum):
    """What YAML 1.1 makes of a scalar, in words."""

    TEXT = "text"
    NUMBER = "a number"
    BOOLEAN = "a boolean"
    DATE = "a date"
    NULL = "nothing"
    OTHER = "a key word of its own"


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value.

    Attributes:
        variables: Those that its text came from, in order.
        defaulted: Those among them whose default was taken, since they had no value.
    """

    place: Place
    text: str
    kind: Kind
    variables: tuple[str, ...] = ()
    defaulted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """A key and its value. ``place`` is the key's."""

    place: Place
    node: Node


@dataclass(frozen=True, slots=True)
class Table:
    """A mapping, merge keys already followed."""

    place: Place
    entries: Mapping[str, Entry]


@dataclass(frozen=True, slots=True)
class Listing:
    """A sequence."""

    place: Place
    items: tuple[Node, ...]


Node = Scalar | Table | Listing


def plain(node: Node) -> object:
    """*node* as the values that the model validates.

    Text, decimal numbers in canonical form, ``true`` and ``false`` become themselves. A scalar that YAML would change
    (``no``, ``010``, ``12:30``) or that is empty stays a `Scalar`, which no field accepts.
    """
    match node:
        case Table():
            return {key: plain(entry.node) for key, entry in node.entries.items()}
        case Listing():
            return tuple(plain(item) for item in node.items)
        case Scalar(kind=Kind.TEXT):
            return node.text
        case Scalar(kind=Kind.NUMBER) if _CANONICAL_NUMBER.fullmatch(node.text):
            return int(node.text)
        case Scalar(kind=Kind.BOOLEAN, text="true" | "false"):
            return node.text == "true"
        case _:
            return node


def find(node: Node, path: KeyPath) -> Node | None:
    """The node at *path* below *node*, or None."""
    for step in path:
        if isinstance(node, Table) and isinstance(step, str) and step in node.entries:
            node = node.entries[step].node
        elif isinstance(node, Listing) and isinstance(step, int) and step < len(node.items):
            node = node.items[step]
        else:
            return None
    return node


def locate(root: Node, path: KeyPath, *, at_key: bool = False) -> Place:
    """Where to point for *path*: at a scalar itself unless *at_key*, else at the key; if it isn't there, further up."""
    place = root.place
    node = root
    for step in path:
        if isinstance(node, Table) and isinstance(step, str) and step in node.entries:
            place, node = node.entries[step].place, node.entries[step].node
        elif isinstance(node, Listing) and isinstance(step, int) and step < len(node.items):
            node = node.items[step]
            place = node.place
        else:
            return place
    return node.place if isinstance(node, Scalar) and not at_key else place
