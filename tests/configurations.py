"""Configuration texts for tests, and what is said about them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from sidecar.config import Config, ConfigurationError, Problem, load
from sidecar.config.case import Case
from sidecar.config.loading import examine
from sidecar.config.rules import contradictions

EXAMPLES = Path(__file__).resolve().parent.parent / "config"
IDENTITY = "{cluster: prod-eu, replica: replica-a, ordinal: 2}"
LISTENER = "name: compute, listen: ':7101', upstream: '127.0.0.1:2101'"

# Every key, with the values of parts that don't exist yet too.
FULL = """
identity:
  cluster: prod-eu
  replica: replica-a
  ordinal: 2
assignment:
  instance: ${POD_UID}
  generation: {file: /etc/podinfo/generation}
  poll_interval: 2s
  revalidate_interval: 10s
  timeout: 2s
  ahead_wait: 2s
  on_unavailable: refuse
  max_age: 30s
  max_staleness: never
require: [identity, instance, generation]
enforcement: enforce
shadow_wait: 250ms
state_dir: /var/lib/sidecar
floor_series: 1
tls:
  certificate: /etc/tls/tls.crt
  key: /etc/tls/tls.key
  client_ca: /etc/tls/ca.crt
  crl: ""
  min_version: "1.3"
  allow: ["spiffe://example.org/prod-eu/controller/*"]
  allow_dns: []
  trust_domains: {}
  close_on_certificate_expiry: false
listeners:
  - name: compute
    listen: ":7101"
    upstream: 127.0.0.1:2101
    preface: proxy-v2
    answer: verdict
    sources: []
    concurrency: shared
    epoch_scope: ""
    unsafe_epoch: false
    send_proxy: false
    outer_proxy: {from: [10.0.0.0/8]}
    tlvs: {}
    mode: "0660"
reject_delay: 0s
limits:
  connections: 4096
  pending: 1024
  refusal_drain: 1MiB
timeouts:
  preface: 5s
  connect: 2s
  half_close: 5m
  idle: never
  lifetime: never
  keepalive: 30s
  user_timeout: 30s
drain:
  delay: 0s
  timeout: 25s
telemetry:
  listen: ":9902"
  ready_needs_upstream: false
admin:
  listen: 127.0.0.1:9901
log:
  format: auto
  level: info
  refusals_per_second: 10
"""


def written(
    *,
    identity: str = IDENTITY,
    assignment: str = "{generation: 7}",
    listener: str = f"{LISTENER}, tls: none",
    more: str = "",
) -> str:
    """A configuration that is right, but for the part that a test is about. *listener* goes between { and }."""
    return f"identity: {identity}\nassignment: {assignment}\nlisteners:\n  - {{{listener}}}\n{more}\n"


def loaded(text: str | bytes, **environ: str) -> Config:
    return load(text, file="sidecar.yaml", environ=environ)


def problems(text: str | bytes, environ: Mapping[str, str] | None = None) -> list[Problem]:
    """What is wrong with *text*; nothing where it loads."""
    try:
        load(text, file="sidecar.yaml", environ=environ or {})
    except ConfigurationError as error:
        return list(error.problems)
    return []


def said(text: str | bytes, **environ: str) -> list[str]:
    """The same as ``key: message``."""
    return [f"{problem.key}: {problem.message}" for problem in problems(text, environ)]


def keys(text: str | bytes, **environ: str) -> list[str]:
    """The keys that something is wrong with."""
    return [problem.key for problem in problems(text, environ)]


def examined(text: str, **environ: str) -> tuple[Case, list[str]]:
    """*text* judged without asking what this version has, and the keys that something is wrong with."""
    case, found = examine(text, environ)
    return case, [problem.key for problem in found + contradictions(case)]
