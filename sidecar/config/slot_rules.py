"""Rules for the identity section: the three ways to name a slot never contradict, and none leaves a part open.

The host name is never looked at: under host networking it is the node's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sidecar.config.case import Case, Finding, Rule
from sidecar.errors import MalformedValue
from sidecar.identity import Identity


def _prefix_stands_alone(case: Case) -> Iterator[Finding]:
    identity = case.file.identity
    if identity.prefix is None:
        return
    for key, value in (("cluster", identity.cluster), ("replica", identity.replica)):
        if value is not None:
            yield ("identity", key), "contradicts identity.prefix, which stands for cluster and replica: leave one out"


def _cluster_is_given(case: Case) -> Iterator[Finding]:
    identity = case.file.identity
    if identity.cluster is None and identity.prefix is None:
        yield ("identity", "cluster"), "is missing: the first segment of the identity, such as prod-eu"


def _replica_is_given(case: Case) -> Iterator[Finding]:
    identity = case.file.identity
    if identity.replica is None and identity.prefix is None and identity.pod_name is None:
        yield ("identity", "replica"), "is missing: set it, or set pod_name, whose base it can be"


def _ordinal_is_given_once(case: Case) -> Iterator[Finding]:
    identity = case.file.identity
    if identity.ordinal is None and identity.pod_name is None:
        yield ("identity", "ordinal"), "is missing: set it, or set pod_name: ${POD_NAME}, which ends in it"
    if identity.ordinal is not None and identity.pod_name is not None:
        yield ("identity", "ordinal"), "contradicts identity.pod_name, which gives the ordinal too: leave one out"


def _pod_name_gives_a_replica(case: Case) -> Iterator[Finding]:
    identity = case.file.identity
    if identity.pod_name is None or identity.replica is not None or identity.prefix is not None:
        return
    try:
        Identity("cluster", identity.pod_name.base, identity.pod_name.ordinal)
    except MalformedValue as error:
        yield ("identity", "pod_name"), f"has a base that can't be the replica: {error}; set replica"


RULES: Final[tuple[Rule, ...]] = (
    _prefix_stands_alone,
    _cluster_is_given,
    _replica_is_given,
    _ordinal_is_given_once,
    _pod_name_gives_a_replica,
)
