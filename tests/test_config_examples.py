"""The files in config/ that users start from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
from configurations import EXAMPLES, loaded, problems

from sidecar.config.document import Listing, Node, Scalar, Table
from sidecar.config.model import ConfigurationFile
from sidecar.config.parsing import parse
from sidecar.config.reading import read
from sidecar.config.section import Section

ENVIRON = {"POD_UID": "3f7c2f9e", "POD_NAME": "replica-a-2", "POD_NAMESPACE": "demo"}
FILES = [EXAMPLES / f"{name}.yaml" for name in ("minimal", "kubernetes", "reference")]
REFERENCE = (EXAMPLES / "reference.yaml").read_text()
# What has no default, or a sample in place of it.
SAMPLES = {"identity", "assignment.instance", "assignment.generation", "require", "tls"}
SAMPLES |= {f"listeners.{key}" for key in ("name", "listen", "upstream", "tls", "require")}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_example_loads_in_this_version(file: Path) -> None:
    assert problems(file.read_bytes(), ENVIRON) == []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_an_example_tells_editors_its_schema(file: Path) -> None:
    first = file.read_text().splitlines()[0]
    assert first == "# yaml-language-server: $schema=schema.json"
    assert (EXAMPLES / "schema.json").exists()


def test_the_example_for_kubernetes_takes_everything_from_the_downward_api() -> None:
    config = loaded((EXAMPLES / "kubernetes.yaml").read_text(), **ENVIRON)
    assert str(config.identity) == "prod-eu.demo/replica-a/2"
    assert str(config.assignment.instance) == ENVIRON["POD_UID"]


def test_the_example_for_kubernetes_fits_its_grace_period() -> None:
    text = (EXAMPLES / "kubernetes.yaml").read_text()
    found = re.search(r'TERMINATION_GRACE_PERIOD_SECONDS, value: "(\d+)"', text)
    assert found
    assert problems(text, {**ENVIRON, "TERMINATION_GRACE_PERIOD_SECONDS": found[1]}) == []


def settings(section: Section, path: str = "") -> dict[str, object]:
    """Every setting of *section* and of those below it, by its path."""
    found: dict[str, object] = {}
    for name in type(section).model_fields:
        value = getattr(section, name)
        values = value if isinstance(value, tuple) else (value,)
        if any(isinstance(item, Section) for item in values):
            for item in values:
                found |= settings(item, f"{path}{name}.")
        else:
            found[f"{path}{name}"] = value
    return found


def test_the_reference_shows_the_defaults() -> None:
    shown = settings(read(parse(REFERENCE)[0])[0])
    least = {"identity": {}, "assignment": {}, "listeners": ({"name": "a", "listen": ":1", "upstream": "a:1"},)}
    defaults = settings(ConfigurationFile.model_validate(least))
    defaults["listeners.concurrency"] = "shared"  # says nothing itself, so that the ctp preface can have another
    differing = {path for path in shown.keys() | defaults.keys() if shown.get(path) != defaults.get(path)}
    assert {path for path in differing if not any(path.startswith(sample) for sample in SAMPLES)} == set()


def written_paths(node: Node, path: str = "") -> set[str]:
    """The path of every key below *node*, indexes left out."""
    match node:
        case Table():
            below = [written_paths(entry.node, f"{path}{key}.") for key, entry in node.entries.items()]
            return {f"{path}{key}" for key in node.entries}.union(*below)
        case Listing():
            return set().union(*(written_paths(item, path) for item in node.items))
        case Scalar():
            return set()


def known_paths(section: type[Section], path: str = "") -> set[str]:
    """The path of every key that the model knows."""
    found = set()
    for name, field in section.model_fields.items():
        key = f"{path}{field.alias or name}"
        found.add(key)
        for inner in sections_in(field.annotation):
            found |= known_paths(inner, f"{key}.")
    return found


def sections_in(annotation: object) -> Iterator[type[Section]]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation
    for argument in get_args(annotation):
        yield from sections_in(argument)


def test_the_reference_shows_every_key_in_use_or_in_a_comment() -> None:
    uncommented = re.sub(r"^( *)# ( *[a-z_]+:( |$))", r"\1\2", REFERENCE, flags=re.MULTILINE)
    known, shown = known_paths(ConfigurationFile), written_paths(parse(uncommented)[0])
    inline = {key for key in known if key.endswith(".file") or ".tlvs." in key}
    set_again = {key for key in known if key.removeprefix("listeners.") in shown}
    assert known - shown - inline - set_again == set()
    assert shown - known == set()


def test_the_reference_marks_what_this_version_refuses() -> None:
    """Each commented key, one at a time: it is either marked, or can be used."""
    lines = REFERENCE.splitlines()
    commented = [number for number, line in enumerate(lines) if re.match(r" +# [a-z_]+: ", line)]
    assert len(commented) > 5
    for number in commented:
        taken = [*lines[:number], lines[number].replace("# ", "", 1), *lines[number + 1 :]]
        refused = [p for p in problems("\n".join(taken), ENVIRON) if "not available" in p.message]
        assert bool(refused) <= ("(later)" in lines[number]), lines[number]
