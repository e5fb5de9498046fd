"""What is written into certificates for development, and what a SPIFFE ID names."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.certs.naming import ReplicaSet, dns_name, meaning, parse_controller, spiffe_id
from sidecar.errors import MalformedValue
from sidecar.identity import Generation, Identity
from sidecar.spiffe import NamedSlot

OWN = Identity("prod-eu", "replica-a", 2)


@pytest.mark.parametrize(
    ("subject", "written", "named"),
    [
        (NamedSlot(OWN), "prod-eu/replica-a/2", "slot prod-eu/replica-a/2"),
        (NamedSlot(OWN, Generation(7)), "prod-eu/replica-a/2/7", "slot prod-eu/replica-a/2 at generation 7"),
        (ReplicaSet.parse("prod-eu/replica-a"), "prod-eu/replica-a", "neither a slot nor a controller"),
        (parse_controller("prod-eu/main"), "prod-eu/controller/main", "controller main of prod-eu"),
    ],
)
def test_what_is_written_names_what_was_meant(subject, written, named):
    text = spiffe_id("example.org", subject)
    assert str(text) == f"spiffe://example.org/{written}"
    assert meaning(str(text)) == named == str(subject)


@pytest.mark.parametrize(
    ("generation", "instead"), [(None, "controller 2 of prod-eu"), (Generation(7), "neither a slot nor a controller")]
)
def test_a_slot_of_a_replica_set_called_controller_cannot_be_named(generation, instead):
    with pytest.raises(MalformedValue, match=f"would name {instead}: rename the replica set"):
        spiffe_id("example.org", NamedSlot(Identity("prod-eu", "controller", 2), generation))


@pytest.mark.parametrize("path", ["a", "a/b/c/d/e", "a/b/02", "a/b/x", "a/b/2/0", "a/controller/x/y", "-/b/2"])
def test_other_paths_name_neither(path):
    assert meaning(f"spiffe://example.org/{path}") == "neither a slot nor a controller"


@pytest.mark.parametrize(
    "text",
    [
        *("", "https://example.org/a", "SPIFFE://example.org/a", "spiffe://example.org", "spiffe://example.org/"),
        *("spiffe://Example.org/a", "spiffe:///a", "spiffe://example.org/a/", "spiffe://example.org//a"),
        *("spiffe://example.org/a/../b", "spiffe://example.org/./b", "spiffe://example.org/%61", "spiffe://e/a?b"),
        *("spiffe://example.org:1/a", "spiffe://u@example.org/a", "spiffe://example.org/a\n", "spiffe://e/ä"),
        f"spiffe://example.org/{'a' * 2048}",
    ],
)
def test_what_is_no_spiffe_id_of_a_workload_names_nothing(text):
    with pytest.raises(MalformedValue):
        meaning(text)


@given(st.text())
def test_no_text_is_more_than_malformed(text):
    for parse in (meaning, dns_name, ReplicaSet.parse, parse_controller):
        with suppress(MalformedValue):
            parse(text)


@pytest.mark.parametrize("text", ["prod-eu", "prod-eu/", "prod-eu/a b", "prod-eu/a/b", "prod-eu/..", "/main"])
def test_a_controllers_name_is_one_that_a_certificate_can_hold(text):
    with pytest.raises(MalformedValue):
        parse_controller(text)


@pytest.mark.parametrize("text", ["prod-eu", "prod-eu/", "a/b/c", "/b"])
def test_a_replica_set_has_two_segments(text):
    with pytest.raises(MalformedValue):
        ReplicaSet.parse(text)


@pytest.mark.parametrize("text", ["example.org", "*.example.org", "a", "A-1.b"])
def test_a_dns_name_is_taken_as_it_is(text):
    assert dns_name(text) == text


@pytest.mark.parametrize("text", ["", ".", "a..b", "-a", "a-", "a.*.b", "*", "a b", f"{'a' * 64}.b", "a." * 127 + "a"])
def test_what_no_host_is_called_is_no_dns_name(text):
    with pytest.raises(MalformedValue):
        dns_name(text)
