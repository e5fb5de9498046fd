"""What all sections of the configuration file have in common.

Owns the base class: strict, frozen, unknown keys refused, and honest about what couldn't be read. Called by the model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field


class Unread(Exception):
    """A rule touched a setting that is wrong in itself. The rule can't be judged; the setting has its own problem."""


class Section(BaseModel):
    """A mapping in the file with a fixed set of keys."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        validate_default=True,
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
    )

    if not TYPE_CHECKING:  # else every misspelt attribute would pass the type checker

        def __getattr__(self, name: str) -> object:
            if name in type(self).model_fields:
                raise Unread(name)
            return super().__getattr__(name)


VALUE, MAPPING = "<value>", "<mapping>"  # tags in pydantic's paths, no keys: what may be a value or a mapping


def shape(value: object) -> str:
    """The tag of *value*, for a setting that is either a value or a mapping."""
    return MAPPING if isinstance(value, dict | Section) else VALUE


def default(written: str) -> Any:  # stands where the field's own type is expected
    """A default in the notation of the file (``5s``), so that file, schema and model say the same."""
    return Field(default=written)
