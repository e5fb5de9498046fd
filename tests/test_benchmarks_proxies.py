"""What the benchmarks tell each proxy to do."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import envoy, haproxy, ours
from benchmarks.native import Addresses
from benchmarks.programs import IDENTITY, Wiring
from sidecar.config import load


@pytest.fixture
def wiring(tmp_path: Path) -> Wiring:
    listen = Addresses("127.0.0.1:1001", "127.0.0.1:1002", "127.0.0.1:1003")
    upstream = Addresses("127.0.0.1:2001", "127.0.0.1:2002", "127.0.0.1:2003")
    return Wiring(listen, upstream, (3001, 3002), tmp_path)


def test_haproxy_checks_the_identity_before_each_role(wiring: Wiring) -> None:
    text = haproxy.config(wiring)
    assert text.count(f"fc_pp_authority -m str {IDENTITY} ") == 3
    assert "bind 127.0.0.1:1003 accept-proxy" in text
    assert "server source 127.0.0.1:2003" in text
    assert "tune.pipesize" not in text
    assert "    tune.pipesize 1048576\ndefaults\n" in haproxy.config_with_large_pipes(wiring)


def test_envoy_checks_the_identity_before_it_passes_on(wiring: Wiring) -> None:
    config = json.loads(envoy.config(wiring))["static_resources"]
    for listener in config["listeners"]:
        (chain,) = listener["filter_chains"]
        assert [part["name"] for part in chain["filters"]] == ["identity", "forward"]
    assert [cluster["name"] for cluster in config["clusters"]] == ["echo", "sink", "source"]


def test_the_sidecars_configuration_is_sound(wiring: Wiring) -> None:
    config = load(ours.config(wiring), file="config", environ={})
    assert str(config.identity) == IDENTITY
    assert [listener.name for listener in config.listeners] == ["echo", "sink", "source"]
