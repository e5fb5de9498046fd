"""The sections identity and assignment."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from sidecar.config.assignment_model import AssignmentSection, FileSource, IdentitySection, LeaseSection
from sidecar.identity import Generation, Instance


def test_every_way_to_name_a_slot_is_optional_by_itself() -> None:
    assert not any(field.is_required() for field in IdentitySection.model_fields.values())


def test_the_defaults_hold() -> None:
    section = AssignmentSection()
    waits = (section.poll_interval, section.revalidate_interval, section.timeout, section.ahead_wait, section.max_age)
    assert waits == (2.0, 10.0, 2.0, 2.0, 30.0)
    assert (section.on_unavailable, section.max_staleness, section.lease, section.registry) == (
        "refuse",
        None,
        None,
        None,
    )


def test_a_part_is_a_value_or_a_file() -> None:
    section = AssignmentSection.model_validate({"instance": "u", "generation": {"file": "/g"}})
    assert section.instance == Instance("u")
    assert section.generation == FileSource(file="/g")
    assert AssignmentSection.model_validate({"generation": 7}).generation == Generation(7)


def test_a_lease_is_none_or_a_block() -> None:
    assert AssignmentSection.model_validate({"lease": "none"}).lease == "none"
    lease = AssignmentSection.model_validate({"lease": {"ttl": "15s"}}).lease
    assert lease == LeaseSection.model_validate({"ttl": "15s", "on_fenced": "refuse"})


@pytest.mark.parametrize("value", [{"lease": "off"}, {"lease": {"ttl": "0s"}}, {"instance": {"path": "/x"}}])
def test_anything_else_is_refused(value: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        AssignmentSection.model_validate(value)


def test_a_registrys_address_may_hold_a_password_and_is_not_shown() -> None:
    section = AssignmentSection.model_validate({"registry": "postgresql://sidecar:sesame@db/slots"})
    assert "sesame" not in repr(section)
