"""How rules are run: all of them, whatever else is wrong."""

from __future__ import annotations

from configurations import IDENTITY, LISTENER, examined, keys, written

from sidecar.config.rules import contradictions


def test_a_configuration_without_contradictions_passes() -> None:
    case, _ = examined(written())
    assert contradictions(case) == []


def test_contradictions_are_found_beside_faults_in_one_run() -> None:
    text = f"""
identity: {{cluster: no, replica: replica-a, ordinal: 2, pod_name: replica-a-2}}
assignment: {{generation: 7, timeout: 6s, poll_interval: 0s}}
timeouts: {{idle: 5}}
require: [instance]
listeners:
  - {{{LISTENER}, sources: [x]}}
  - {{{LISTENER}, tls: none}}
"""
    assert keys(text) == [
        "identity.cluster",
        "identity.ordinal",
        "assignment.poll_interval",
        "timeouts.preface",
        "timeouts.idle",
        "require",
        "require",
        "listeners[0]",
        "listeners[0].sources[0]",
        "listeners[1].name",
        "listeners[1].listen",
    ]


def test_a_rule_that_touches_what_couldnt_be_read_stays_silent() -> None:
    assert keys(written(assignment="{generation: 0}")) == ["assignment.generation"]
    assert keys(written(assignment="{genration: 7}")) == ["assignment.genration"]
    assert keys(written(more="timeouts: {preface: 1}")) == ["timeouts.preface"]


def test_one_listener_that_is_wrong_doesnt_hide_what_is_wrong_with_the_next() -> None:
    text = f"identity: {IDENTITY}\nassignment: {{generation: 7}}\nlisteners:\n  - {{name: A}}\n  - {{{LISTENER}}}\n"
    assert "listeners[1]" in keys(text)
