"""The JSON Schema of the file, for editors."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from configurations import EXAMPLES

from sidecar.config.model import ConfigurationFile
from sidecar.config.schema import json_schema_text

SCHEMA: dict[str, Any] = json.loads(json_schema_text())


def resolved(schema: dict[str, Any]) -> dict[str, Any]:
    return SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema


def at(*keys: str) -> dict[str, Any]:
    schema = SCHEMA
    for key in keys:
        schema = resolved(resolved(schema)["items"] if key == "[]" else resolved(schema)["properties"][key])
    return schema


def everything(schema: Any) -> list[Any]:
    inner = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
    return [schema, *(deep for item in inner for deep in everything(item))]


def test_the_copy_beside_the_examples_is_current() -> None:
    written = (EXAMPLES / "schema.json").read_text()
    assert written == json_schema_text(), "write it anew: sidecar schema > config/schema.json"


def test_it_says_which_dialect_it_is_in() -> None:
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_every_key_of_the_file_is_there_and_no_other_is_allowed() -> None:
    assert set(SCHEMA["properties"]) == set(ConfigurationFile.model_fields)
    objects = [schema for schema in everything(SCHEMA) if isinstance(schema, dict) and "properties" in schema]
    assert all(schema["additionalProperties"] is False for schema in objects)


def test_what_is_required_is_required() -> None:
    assert SCHEMA["required"] == ["identity", "assignment", "listeners"]
    assert at("listeners", "[]")["required"] == ["name", "listen", "upstream"]


def test_a_default_is_what_one_would_write() -> None:
    assert at("timeouts", "preface")["default"] == "5s"
    assert at("limits", "refusal_drain")["default"] == "1MiB"
    assert at("listeners", "[]", "tlvs", "identity")["default"] == "0xE5"


def test_null_is_neither_a_type_nor_a_default() -> None:
    for schema in everything(SCHEMA):
        assert not (
            isinstance(schema, dict)
            and (schema.get("type") == "null" or ("default" in schema and schema["default"] is None))
        )


@pytest.mark.parametrize(
    ("keys", "fitting", "other"),
    [
        (("timeouts", "preface"), ["5s", "250ms", "${X}", "${X}s"], ["5", "never", "5 s"]),
        (("timeouts", "idle"), ["never", "5m", "${X:-never}"], ["off", "5"]),
        (("limits", "refusal_drain"), ["1MiB", "${X}"], ["1MB"]),
        (("identity", "cluster"), ["prod-eu", "prod-eu.${NAMESPACE}"], ["a b", "-a"]),
        (("listeners", "[]", "name"), ["compute", "${X}"], ["Compute"]),
        (("listeners", "[]", "tlvs", "identity"), ["0x05", "${X}"], ["5"]),
    ],
)
def test_patterns_describe_the_text_of_the_file(keys: tuple[str, ...], fitting: list[str], other: list[str]) -> None:
    pattern = at(*keys)["pattern"]
    assert all(re.search(pattern, text) for text in fitting)
    assert not any(re.search(pattern, text) for text in other)


@pytest.mark.parametrize(
    "keys",
    [
        ("enforcement",),
        ("log", "level"),
        ("identity", "ordinal"),
        ("limits", "connections"),
        ("telemetry", "ready_needs_upstream"),
        ("listeners", "[]", "send_proxy"),
    ],
)
def test_a_variable_may_stand_where_no_text_is_meant(keys: tuple[str, ...]) -> None:
    patterns = [
        choice["pattern"] for choice in at(*keys)["anyOf"] if choice.get("type") == "string" and "pattern" in choice
    ]
    assert any(re.search(pattern, "${X}") for pattern in patterns)


def test_keys_are_described() -> None:
    undescribed = [
        name
        for definition in (SCHEMA, *SCHEMA["$defs"].values())
        for name, schema in definition.get("properties", {}).items()
        if not schema.get("description") and "$ref" not in schema
    ]
    assert undescribed == []
