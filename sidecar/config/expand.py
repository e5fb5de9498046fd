"""Variables in values: ``${NAME}``, ``${NAME:-default}``, and ``$${`` for a literal ``${``.

Works on the parsed tree, so that no value can break the file, and once, so that a value that holds ``${X}`` stays as it
is. A bare ``$NAME`` is text. What came from a variable is marked with the variable's name, so that no message ever has
to show it, and with whether that was the variable's default. The environment is passed in; knows no key.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace

from sidecar.config.document import Entry, Kind, Listing, Node, Scalar, Table
from sidecar.config.problems import KeyPath, Problem, spell

# One left-to-right pass: an escaped opening, a whole reference, or an opening that is neither.
_REFERENCE = re.compile(
    r"(?P<escaped>\$\$\{)|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>(?:(?!\$\{)[^}])*))?\}|(?P<broken>\$\{)"
)


def expand(root: Table, environ: Mapping[str, str], *, own: Collection[str] = ()) -> tuple[Table, list[Problem]]:
    """*root* with its variables filled in, and what couldn't be.

    The top-level keys *own* hold what is each process's own: there nobody is talked into a default, which would be the
    same for all of them.

    A scalar with a problem becomes one that no field accepts. A variable that is set but empty gives an empty text (the
    field's own check refuses that where it must), or the default, as in a shell.
    """
    problems: list[Problem] = []

    def walk(node: Node, path: KeyPath) -> Node:
        match node:
            case Table():
                return table(node, path)
            case Listing():
                return replace(node, items=tuple(walk(item, (*path, i)) for i, item in enumerate(node.items)))
            case Scalar():
                try:
                    return _fill(node, environ, no_default=path[0] in own)
                except _UnusableError as error:
                    problems.append(Problem(node.place, spell(path), str(error)))
                    return replace(node, kind=Kind.OTHER)  # so that nothing takes the reference itself for a value

    def table(node: Table, path: KeyPath) -> Table:
        entries = {key: Entry(entry.place, walk(entry.node, (*path, key))) for key, entry in node.entries.items()}
        return replace(node, entries=entries)

    return table(root, ()), problems


class _UnusableError(Exception):
    """A reference that can't be filled in."""


def _fill(scalar: Scalar, environ: Mapping[str, str], *, no_default: bool) -> Scalar:
    variables: list[str] = []
    defaulted: list[str] = []

    def value_of(match: re.Match[str]) -> str:
        if match["escaped"]:
            return "${"
        if match["broken"]:
            raise _UnusableError("has a ${ that is no ${NAME} and no ${NAME:-default}: write $${ for a literal ${")
        name, default = match["name"], match["default"]
        variables.append(name)
        if default is not None:
            value = environ.get(name)
            if not value:
                defaulted.append(name)
            return value or default
        if name not in environ:
            remedy = " (in Kubernetes through the downward API)" if no_default else f", or write ${{{name}:-default}}"
            raise _UnusableError(f"needs the variable {name}, which isn't set: set it{remedy}")
        return environ[name]

    text = _REFERENCE.sub(value_of, scalar.text)
    if text == scalar.text and not variables:
        return scalar
    return replace(
        scalar,
        text=text,
        kind=Kind.TEXT,
        variables=tuple(dict.fromkeys(variables)),
        defaulted=tuple(dict.fromkeys(defaulted)),
    )
