"""The words of the metrics' labels: dashboards and alerts are built on them."""

from __future__ import annotations

import errno

import pytest

from sidecar.metrics import AcceptError, Basis, Outcome, ReadResult, Stage, State, TlsReload
from sidecar.metrics.labels import CertificateKind


def test_the_label_values_are_those_that_users_depend_on() -> None:
    assert {
        kind.__name__: [member.value for member in kind]
        for kind in (Basis, CertificateKind, Outcome, ReadResult, Stage, State, TlsReload)
    } == {
        "Basis": ["authority", "last_known", "shadow"],
        "CertificateKind": ["served", "ca"],
        "TlsReload": ["ok", "failed"],
        "Outcome": ["admitted", "refused"],
        "ReadResult": ["assigned", "unassigned", "unavailable", "regressed"],
        "Stage": ["tls", "preface"],
        "State": [
            *("pending", "not_assigned", "regressed", "floor_unavailable", "certificate_unusable", "upstream_missing"),
            *("ready", "draining", "stopping"),
        ],
    }


@pytest.mark.parametrize("name", ["EMFILE", "ENFILE", "ENOMEM", "ENOBUFS"])
def test_running_out_of_something_is_a_kind_of_its_own(name: str) -> None:
    assert AcceptError.of(OSError(getattr(errno, name), "no more")) == name.lower()


@pytest.mark.parametrize("error", [OSError(errno.EPERM, "firewall"), OSError("without a number")])
def test_every_other_accept_error_is_other(error: OSError) -> None:
    assert AcceptError.of(error) is AcceptError.OTHER
