"""The JSON Schema of the file, for editors.

Owns what differs between the models and the file as it is typed: every value may be a variable instead, and none may be
null. Made from the models, so that it can't say anything else than they do. Called by ``sidecar schema``; a copy stands
beside the examples.
"""

from __future__ import annotations

import json
from typing import Final

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from sidecar.config.fields import VARIABLE_SCHEMA
from sidecar.config.model import ConfigurationFile

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def json_schema_text() -> str:
    """The schema as the text of a file."""
    schema = ConfigurationFile.model_json_schema(schema_generator=_Generator)
    return json.dumps({"$schema": DIALECT, **schema}, indent=2) + "\n"


class _Generator(GenerateJsonSchema):
    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        """None means in the models that the key isn't there; the file has no null."""
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        """A default of None is no default that anybody could write."""
        described = super().default_schema(schema)
        if described.get("default", ...) is None:
            del described["default"]
        return described

    def literal_schema(self, schema: core_schema.LiteralSchema) -> JsonSchemaValue:
        """One of a few words, or a variable."""
        return {"anyOf": [super().literal_schema(schema), VARIABLE_SCHEMA]}

    def enum_schema(self, schema: core_schema.EnumSchema) -> JsonSchemaValue:
        """The same for the parts of a claim."""
        return {"anyOf": [super().enum_schema(schema), VARIABLE_SCHEMA]}

    def field_title_should_be_set(self, schema: object) -> bool:  # noqa: ARG002  the library's signature
        """A title that only repeats the key is noise."""
        return False
