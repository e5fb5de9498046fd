"""YAML text to a tree.

Owns what YAML may say here: UTF-8, one document, a mapping at the top, keys that are text and stand once, anchors and
merge keys, no tags, a bounded size once aliases are followed. The only module that knows PyYAML; its exceptions end
here. Called by `loading`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final

import yaml

from sidecar.config.document import Entry, Kind, Listing, Node, Scalar, Table
from sidecar.config.problems import KeyPath, Place, Problem, spell
from sidecar.errors import SidecarError

MAX_DEPTH: Final = 32  # the reference needs 6
MAX_NODES: Final = 20_000  # with aliases followed; the reference needs about 200

_TAG: Final = "tag:yaml.org,2002:"
_KINDS: Final = {
    f"{_TAG}str": Kind.TEXT,
    f"{_TAG}int": Kind.NUMBER,
    f"{_TAG}float": Kind.NUMBER,
    f"{_TAG}bool": Kind.BOOLEAN,
    f"{_TAG}timestamp": Kind.DATE,
    f"{_TAG}null": Kind.NULL,
    f"{_TAG}merge": Kind.OTHER,
    f"{_TAG}value": Kind.OTHER,
}


class NoTreeError(SidecarError):
    """The text can't be made a tree. ``problem`` says why."""

    def __init__(self, place: Place, message: str, path: KeyPath = ()) -> None:
        self.problem = Problem(place, spell(path), message)
        super().__init__(self.problem)


def parse(text: str | bytes) -> tuple[Table, list[Problem]]:
    """The tree that *text* spells, and what is wrong with its keys and tags. Raises NoTreeError."""
    reader = _Reader()
    root = reader.table(_compose(_decode(text)), ())
    return root, reader.problems


def _decode(text: str | bytes) -> str:
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            place = _place_after(error.object[: error.start].decode("utf-8"))
            raise NoTreeError(place, "isn't UTF-8 text: save the file as UTF-8") from None
    return text.removeprefix("\ufeff")


def _place(mark: yaml.Mark | None) -> Place:
    return Place(mark.line + 1, mark.column + 1) if mark else Place(1, 1)


def _place_after(before: str) -> Place:
    return Place(before.count("\n") + 1, len(before) - before.rfind("\n"))


class _Loader(yaml.SafeLoader):
    """PyYAML's composer recurses for each level and takes its time, so that both are bounded while it works."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._nodes = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self._depth >= MAX_DEPTH:
            raise NoTreeError(_place(self.get_mark()), "is nested too deeply")
        if self._nodes >= MAX_NODES:
            raise NoTreeError(
                _place(self.get_mark()), f"is too large: no configuration needs {MAX_NODES} keys and values"
            )
        self._depth += 1
        self._nodes += 1
        try:
            return super().compose_node(parent, index)
        finally:
            self._depth -= 1


def _compose(text: str) -> yaml.MappingNode:
    loader = None
    try:
        loader = _Loader(text)
        root = loader.get_single_node()
    except yaml.MarkedYAMLError as error:
        place = _place(error.problem_mark or error.context_mark)
        context = f"{error.context}: " if error.context else ""
        raise NoTreeError(place, f"isn't valid YAML: {context}{error.problem}{_hint(text, place)}") from error
    except yaml.reader.ReaderError as error:
        raise NoTreeError(_place_after(text[: error.position]), "has a character that YAML doesn't allow") from error
    except (ValueError, OverflowError) as error:  # from chr(): PyYAML doesn't check what "\UFFFFFFFF" stands for
        place = _place(loader.get_mark() if loader else None)
        raise NoTreeError(place, "has an escape sequence that stands for no character") from error
    if root is None:
        raise NoTreeError(Place(1, 1), "is empty: identity, assignment and listeners are needed at least")
    if not isinstance(root, yaml.MappingNode):
        raise NoTreeError(_place(root.start_mark), "must be a mapping at the top, with keys such as identity:")
    return root


def _hint(text: str, place: Place) -> str:
    line = next(iter(text.splitlines()[place.line - 1 : place.line]), "")
    if "${" in line:
        return "; inside [..] and {..} a ${VARIABLE} must be quoted"
    if "[" in line:
        return "; quote a value that starts with ["
    if "\t" in line:
        return "; indent with blanks, not with tabs"
    return ""


class _Reader:
    """Turns PyYAML's graph into a tree of ours, counting nodes as aliases are followed."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._nodes = 0

    def table(self, node: yaml.MappingNode, path: KeyPath) -> Table:
        self._admit(node, "map", path)
        own: dict[str, Entry] = {}
        merged: dict[str, Entry] = {}
        for key_node, value_node in node.value:
            place = _place(key_node.start_mark)
            if key_node.tag == f"{_TAG}merge":
                for source in self._sources(value_node, (*path, "<<")):
                    merged = {**source.entries, **merged}  # of several, the first that has a key gives it
            elif not isinstance(key_node, yaml.ScalarNode) or key_node.tag != f"{_TAG}str":
                key = json.dumps(key_node.value) if isinstance(key_node, yaml.ScalarNode) else "which is no scalar"
                self._say(place, path, f"has a key that YAML doesn't read as text, {key}: quote it")
            elif key_node.value in own:
                first, key = own[key_node.value], key_node.value
                message = f"stands twice, in line {first.place.line} and in line {place.line}: take one of them out"
                self._say(place, (*path, key), message)
            else:
                own[key_node.value] = Entry(place, self._node(value_node, (*path, key_node.value)))
        return Table(_place(node.start_mark), {**merged, **own})

    def _sources(self, node: yaml.Node, path: KeyPath) -> Iterator[Table]:
        for source in node.value if isinstance(node, yaml.SequenceNode) else [node]:
            if isinstance(source, yaml.MappingNode):
                yield self.table(source, path)
            else:
                self._say(_place(node.start_mark), path, "must name a mapping, or a list of them")

    def _node(self, node: yaml.Node, path: KeyPath) -> Node:
        if isinstance(node, yaml.MappingNode):
            return self.table(node, path)
        if isinstance(node, yaml.SequenceNode):
            self._admit(node, "seq", path)
            items = tuple(self._node(item, (*path, index)) for index, item in enumerate(node.value))
            return Listing(_place(node.start_mark), items)
        self._admit(node, None if node.tag in _KINDS else "str", path)
        return Scalar(_place(node.start_mark), node.value, _KINDS.get(node.tag, Kind.OTHER))

    def _admit(self, node: yaml.Node, tag: str | None, path: KeyPath) -> None:
        """Counts *node*, and checks that its tag is the one that it has by itself."""
        self._nodes += 1
        if self._nodes > MAX_NODES or len(path) > MAX_DEPTH:
            message = "is too large once its aliases (*name) are followed: use fewer of them"
            raise NoTreeError(_place(node.start_mark), message, path[:4])
        if tag is not None and node.tag != f"{_TAG}{tag}":
            self._say(_place(node.start_mark), path, "has a tag (!...), which nothing here needs: take it out")

    def _say(self, place: Place, path: KeyPath, message: str) -> None:
        self.problems.append(Problem(place, spell(path), message))
