"""From the tree to the model: everything that is wrong with a setting by itself, said in one run.

Owns the words for pydantic's faults and the place of each, and gives back what could be read even where something
couldn't: `rules` then still judges the rest. It does so in two passes. The first collects every fault. The second
reads the same tree with the faulty parts left out (or, where they are required, replaced by a stand-in), and then each
setting that had a fault is carved out of the result: touching it raises `Unread`.

Called by `loading`. pydantic's own exceptions end here.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from typing import Final, get_args

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from sidecar.config.document import Kind, Listing, Node, Scalar, Table, find, locate, plain
from sidecar.config.fields import NOT_TEXT
from sidecar.config.model import ConfigurationFile
from sidecar.config.problems import KeyPath, Problem, spell
from sidecar.config.section import MAPPING, VALUE, Section

_LISTENER: Final = {"name": "stand-in", "listen": ":0", "upstream": "unix:/stand-in"}
# What takes the place of a required part in the second pass; "*" is any index.
_STAND_INS: Final[dict[KeyPath, object]] = {
    ("identity",): {},
    ("assignment",): {},
    ("assignment", "instance", "file"): "/stand-in",
    ("assignment", "generation", "file"): "/stand-in",
    ("listeners",): (_LISTENER,),
    ("listeners", "*"): _LISTENER,
    **{("listeners", "*", key): value for key, value in _LISTENER.items()},
    ("listeners", "*", "outer_proxy", "from"): ("192.0.2.1",),
}
_LEFT_OUT: Final = object()
_QUOTE: Final = "quote this value: without quotes YAML reads it as {}, and text is meant"


def read(root: Table) -> tuple[ConfigurationFile, list[Problem]]:
    """The file that *root* holds, and what is wrong with it. With problems, parts of the file are `Unread`."""
    try:
        return ConfigurationFile.model_validate(plain(root)), []
    except ValidationError as error:
        faults = error.errors(include_url=False, include_input=False)
    paths = [_path(fault) for fault in faults]
    misspelt = {path: _nearest(path) for path, fault in zip(paths, faults, strict=True) if _is_unknown(fault)}
    meant = {(*path[:-1], known) for path, known in misspelt.items() if known}
    problems = [
        Problem(locate(root, path, at_key=_is_unknown(fault)), spell(path), _message(find(root, path), path, fault))
        for path, fault in zip(paths, faults, strict=True)
        if not (fault["type"] == "missing" and path in meant)
    ]
    holes = {_hole(path) for path in paths} | {path for path in meant if find(root, path) is None}
    file = ConfigurationFile.model_validate(_readable(root, (), holes))
    for hole in holes:
        _carve(file, hole)
    return file, problems


def _path(fault: ErrorDetails) -> KeyPath:
    return tuple(step for step in fault["loc"] if step not in (VALUE, MAPPING))


def _is_unknown(fault: ErrorDetails) -> bool:
    return fault["type"] == "extra_forbidden"


# --- words


def _message(node: Node | None, path: KeyPath, fault: ErrorDetails) -> str:
    if isinstance(node, Scalar) and not _is_unknown(fault):
        if node.kind is Kind.NULL:
            return _QUOTE.format(node.kind) if node.text else "is empty: give it a value, or leave the key out"
        if node.variables:
            return f"{_words(node, path, fault)} ({origin(node)})"
    return _words(node, path, fault)


def origin(scalar: Scalar) -> str:
    """What is said instead of a value that came from variables."""
    return f"the value comes from {' and '.join(f'${{{name}}}' for name in scalar.variables)}"


def _words(node: Node | None, path: KeyPath, fault: ErrorDetails) -> str:
    details = fault.get("ctx", {})
    match fault["type"]:
        case "extra_forbidden":
            return _unknown(path)
        case "missing":
            return "is missing"
        case "model_type" | "dict_type":
            return "must be a mapping of keys and values"
        case "tuple_type" if path == ("listeners",):
            return "must be a list: begin each listener with a dash, as in - name: compute"
        case "tuple_type":
            return "must be a list, such as [a, b]"
        case "value_error":
            return str(details["error"])
        case "literal_error" | "enum":
            mapping = ", or a mapping" if VALUE in fault["loc"] else ""
            return f"must be {details['expected']}{mapping}{_quoted(node)}"
        case fault_type if fault_type == NOT_TEXT:
            if isinstance(node, Scalar):
                return _QUOTE.format(node.kind)
            return "must be text; quote a value that starts with [ or {"
        case _:
            return fault["msg"]


def _quoted(node: Node | None) -> str:
    return "; quote it" if isinstance(node, Scalar) and node.kind is not Kind.TEXT else ""


def _unknown(path: KeyPath) -> str:
    nearest = _nearest(path)
    if nearest:
        return f"isn't a known key: did you mean {nearest}?"
    return f"isn't a known key; known here: {', '.join(_known_keys(path[:-1]))}"


def _nearest(path: KeyPath) -> str | None:
    matches = difflib.get_close_matches(str(path[-1]), _known_keys(path[:-1]), n=1)
    return matches[0] if matches else None


def _known_keys(path: KeyPath) -> list[str]:
    section: type[Section] = ConfigurationFile
    for step in path:
        if isinstance(step, str):
            annotation = next(field.annotation for name, field in _fields(section) if name == step)
            section = next(_sections(annotation))
    return [name for name, _ in _fields(section)]


def _fields(section: type[Section]) -> Iterator[tuple[str, FieldInfo]]:
    return ((field.alias or name, field) for name, field in section.model_fields.items())


def _sections(annotation: object) -> Iterator[type[Section]]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation
    for argument in get_args(annotation):
        yield from _sections(argument)


# --- what is left


def _hole(path: KeyPath) -> KeyPath:
    """The setting that a fault at *path* spoils: a list as a whole, but for the list of listeners."""
    while isinstance(path[-1], int) and path[:-1] != ("listeners",):
        path = path[:-1]
    return path


def _readable(node: Node | None, path: KeyPath, holes: Iterable[KeyPath]) -> object:
    """Like `plain`, without *holes*."""
    if path in holes:
        return _STAND_INS.get(tuple("*" if isinstance(step, int) else step for step in path), _LEFT_OUT)
    match node:
        case Table():
            keys = {*node.entries, *(str(hole[-1]) for hole in holes if hole[:-1] == path)}
            values = {key: _readable(find(node, (key,)), (*path, key), holes) for key in keys}
            return {key: value for key, value in values.items() if value is not _LEFT_OUT}
        case Listing():
            return tuple(_readable(item, (*path, index), holes) for index, item in enumerate(node.items))
        case Scalar():
            return plain(node)
        case None:
            return _LEFT_OUT


def _carve(section: Section, hole: KeyPath) -> None:
    """Takes the setting at *hole* out of *section* or the one below that has it."""
    holder, name = section, ""
    value: object = section
    for step in hole:
        if isinstance(value, Section):
            holder = value
            name = next(
                (field for field, info in type(value).model_fields.items() if (info.alias or field) == step), ""
            )
            value = value.__dict__.get(name)
        elif isinstance(value, tuple) and isinstance(step, int):
            value = value[step]
    if isinstance(value, Section) and hole and isinstance(hole[-1], int):
        value.__dict__.clear()
    else:
        holder.__dict__.pop(name, None)
