"""What all sections have in common."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from sidecar.config import fields
from sidecar.config.section import MAPPING, VALUE, Section, Unread, default, shape


class Sample(Section):
    wait: fields.Duration = default("5s")
    name: fields.Name


def test_a_default_is_written_as_in_the_file_and_read_like_it() -> None:
    assert Sample(name="a").wait == 5.0


def test_unknown_keys_are_refused() -> None:
    with pytest.raises(ValidationError, match="extra_forbidden"):
        Sample.model_validate({"name": "a", "wiat": "5s"})


def test_a_section_cant_be_changed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        Sample(name="a").name = "b"  # type: ignore[misc]


def test_a_fault_doesnt_show_the_value() -> None:
    with pytest.raises(ValidationError) as caught:
        Sample.model_validate({"name": "Open Sesame"})
    assert "Sesame" not in str(caught.value)


def test_touching_what_couldnt_be_read_is_no_attribute_error() -> None:
    section = Sample(name="a")
    del section.__dict__["wait"]
    with pytest.raises(Unread):
        _ = section.wait
    assert section.name == "a"


def test_any_other_attribute_is_missing_as_usual() -> None:
    with pytest.raises(AttributeError):
        _ = Sample(name="a").nmae  # type: ignore[attr-defined]


def test_a_value_and_a_mapping_are_told_apart() -> None:
    assert shape("none") == shape(()) == VALUE
    assert shape({}) == shape(Sample(name="a")) == MAPPING
