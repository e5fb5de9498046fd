"""A pod's name, taken apart."""

from __future__ import annotations

import pytest

from sidecar.config.pod_name import PodName


@pytest.mark.parametrize(
    ("text", "base", "ordinal"),
    [
        ("replica-a-2", "replica-a", 2),
        ("replica-a-0", "replica-a", 0),
        ("replica-a-10", "replica-a", 10),
        ("db-2024-1-0", "db-2024-1", 0),
        ("a-2147483647", "a", 2147483647),
        ("my.db-3", "my.db", 3),
        ("a--1", "a-", 1),
    ],
)
def test_the_digits_after_the_last_dash_are_the_ordinal(text: str, base: str, ordinal: int) -> None:
    assert PodName.parse(text) == PodName(base, ordinal)
    assert str(PodName.parse(text)) == text


@pytest.mark.parametrize(
    "text", ["replica-a", "replica", "2", "replica-a-02", "a-00", "a-2147483648", "a-9999999999", "a-2b"]
)
def test_a_name_that_doesnt_end_in_an_ordinal_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must end in"):
        PodName.parse(text)


@pytest.mark.parametrize(
    "text",
    ["", "-", "-2", "replica-a-", "Replica-2", "a_b-2", "a b-2", "a..b-2", "ä-2", "a-٣", "a-2\n", f"{'a' * 252}-2"],
)
def test_what_kubernetes_would_not_call_a_pod_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="valid Kubernetes pod name"):
        PodName.parse(text)
