"""What may be changed while the sidecar runs, and what may not."""

import pytest

from sidecar.config import load
from sidecar.config.reloading import needs_restart

BEFORE = """
identity: {cluster: prod-eu, replica: replica-a, ordinal: 2}
assignment: {instance: u-1, generation: "7"}
listeners:
  - {name: compute, listen: ":7101", upstream: "127.0.0.1:2101", tls: none}
"""


def config(text):
    return load(text, file="test.yaml", environ={})


@pytest.mark.parametrize(
    "more",
    [
        "limits: {connections: 7}",
        "timeouts: {idle: 5m}",
        "drain: {timeout: 3s}",
        "log: {level: debug}",
        "reject_delay: 50ms",
        "enforcement: shadow",
        "shadow_wait: 1s\nenforcement: shadow",
    ],
)
def test_these_may_change(more):
    assert needs_restart(config(BEFORE), config(BEFORE + more)) == []


def test_a_listeners_answer_may_change():
    assert needs_restart(config(BEFORE), config(BEFORE.replace("tls: none", "tls: none, answer: full"))) == []


@pytest.mark.parametrize(
    ("old", "new", "keys"),
    [
        ("ordinal: 2", "ordinal: 3", ["identity"]),
        ('"7"', '"8"', ["assignment.generation"]),
        ("127.0.0.1:2101", "127.0.0.1:2102", ["listeners.compute.upstream"]),
        ('":7101"', '":7102"', ["listeners.compute.listen"]),
        ("tls: none", "tls: none, require: [identity]", ["listeners.compute.require"]),
        ("tls: none", "tls: none, concurrency: exclusive", ["listeners.compute.concurrency"]),
        ("name: compute", "name: other", ["listeners"]),
    ],
)
def test_what_a_process_is_takes_a_new_one(old, new, keys):
    changed = BEFORE.replace(old, new) + "limits: {connections: 7}"
    assert [key for key in needs_restart(config(BEFORE), config(changed)) if "epoch_scope" not in key] == keys


def test_the_keys_that_differ_are_all_named():
    changed = BEFORE.replace("ordinal: 2", "ordinal: 3") + 'telemetry: {listen: ":9903"}'
    assert needs_restart(config(BEFORE), config(changed)) == ["identity", "telemetry.listen"]
