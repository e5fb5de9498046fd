"""docs/metrics.md and the Prometheus rules speak of the metrics that there are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from sidecar.metrics import AcceptError, Basis, Metrics, Outcome, ReadResult, Stage, State, TlsReload
from sidecar.metrics.labels import CertificateKind
from sidecar.reasons import ADVICE, Advice, End, Probe, Reason, TlsFailure

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = (ROOT / "docs" / "metrics.md").read_text()
RULES = (ROOT / "config" / "prometheus-rules.yaml").read_text()

ROUTINE = {Reason.DRAINING}  # every rollout has them


def families() -> dict[str, Metric]:
    """Every metric of our own, by the name that a query uses."""
    registry = CollectorRegistry()
    metrics = Metrics(registry, listeners=["compute"], wall_clock=lambda: 0.0)
    metrics.assignment("a/b/1", "U1", 1)
    metrics.enforcement({"compute": "enforce"})
    metrics.config("h")
    found = {m.name + ("_total" if m.type == "counter" else ""): m for m in registry.collect()}
    return {name: metric for name, metric in found.items() if name.startswith("identity_sidecar_")}


def labels(metric: Metric) -> set[str]:
    return {label for sample in metric.samples for label in sample.labels} - {"le"}


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES)["groups"] for rule in group["rules"]]


def alert(name: str) -> str:
    (expression,) = (rule["expr"] for rule in rules() if rule.get("alert") == name)
    return str(expression)


def reasons(expression: str) -> set[str]:
    return {word for found in re.findall(r'reason=~?"([^"]*)"', expression) for word in found.split("|")}


def test_the_document_lists_every_metric_with_its_type_and_labels_and_no_other() -> None:
    rows = re.findall(r"^\| `(identity_sidecar_\w+)` \| (\w+) \|([^|]*)\| [^|]+ \|$", DOCUMENT, re.MULTILINE)
    documented = {name: (kind, set(re.findall(r"`(\w+)`", listed))) for name, kind, listed in rows}

    assert documented == {name: (metric.type, labels(metric)) for name, metric in families().items()}
    assert len(rows) == len(documented)


@pytest.mark.parametrize(
    ("row", "kinds"),
    [
        ("`reason`", Reason),
        ("`cause`", End),
        ("`basis`", Basis),
        ("`kind` of a probe", Probe),
        ("`kind` of an accept error", AcceptError),
        ("`cause` of a failed handshake", TlsFailure),
        ("`kind` of a certificate", CertificateKind),
        ("`result` of a reload", TlsReload),
        ("`stage`", Stage),
        ("`outcome`", Outcome),
        ("`result`", ReadResult),
        ("`state` of the sidecar", State),
    ],
)
def test_the_document_lists_every_value_of_a_label(row: str, kinds: type[Reason]) -> None:
    (values,) = re.findall(rf"^\| {re.escape(row)} \| (.*) \|$", DOCUMENT, re.MULTILINE)

    assert re.findall(r"`(\w+)`", values) == [kind.value for kind in kinds]


def test_rules_use_metrics_and_label_values_that_exist() -> None:
    known = families()
    recorded = {rule["record"] for rule in rules() if "record" in rule}
    values = {*Reason, *End, *State, *CertificateKind, *TlsReload, *TlsFailure, "admitted"}
    for rule in rules():
        for name in re.findall(r"[\w:]*identity_sidecar_[\w:]+", rule["expr"]):
            assert name in known or name in recorded, f"{name} in {rule}"
        for found in re.findall(r'\w+=~?"([^"]*)"', rule["expr"]):
            assert set(found.split("|")) <= values, f"{found} in {rule}"


def test_every_reason_has_its_alert() -> None:
    alerted = {reason for rule in rules() if "alert" in rule for reason in reasons(rule["expr"])}

    assert alerted == {reason.value for reason in Reason if reason not in ROUTINE}


def test_the_alert_for_what_a_person_must_fix_has_the_reasons_with_that_advice() -> None:
    assert reasons(alert("IdentitySidecarDiallerMisconfigured")) == {
        reason.value for reason, advice in ADVICE.items() if advice is Advice.FIX
    }


def test_every_alert_says_how_bad_it_is_and_what_to_look_at() -> None:
    for rule in rules():
        if "alert" in rule:
            assert rule["labels"]["severity"] in {"warning", "critical"}
            assert rule["annotations"]["summary"]
            assert rule["annotations"]["description"]
