"""What the benchmarks tell each proxy to do."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509

from benchmarks import envoy, haproxy, ours
from benchmarks.certificates import made
from benchmarks.native import Addresses
from benchmarks.programs import IDENTITY, Wiring
from sidecar.config import load
from sidecar.spiffe import SpiffeId


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


@pytest.fixture
def secured(wiring: Wiring, tmp_path: Path) -> Wiring:
    return replace(wiring, certificates=made(tmp_path))


def test_with_certificates_haproxy_terminates_tls_and_demands_one(secured: Wiring, tmp_path: Path) -> None:
    text = haproxy.config(secured)
    assert text.count(f" ssl crt {tmp_path}/server.pem ca-file {tmp_path}/ca.crt verify required ") == 3
    assert "accept-proxy" not in text


def test_with_certificates_envoy_does(secured: Wiring, tmp_path: Path) -> None:
    for listener in json.loads(envoy.config(secured))["static_resources"]["listeners"]:
        (chain,) = listener["filter_chains"]
        tls = chain["transport_socket"]["typed_config"]
        assert tls["require_client_certificate"]
        trusted = tls["common_tls_context"]["validation_context"]["trusted_ca"]
        assert trusted == {"filename": f"{tmp_path}/ca.crt"}


def test_with_certificates_the_sidecar_does_and_allows_the_load_generator(secured: Wiring, tmp_path: Path) -> None:
    config = load(ours.config(secured), file="config", environ={})
    assert secured.certificates is not None
    shown = x509.load_pem_x509_certificate(secured.certificates.certificate("client").read_bytes())
    (uri,) = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value.get_values_for_type(
        x509.UniformResourceIdentifier
    )
    for listener in config.listeners:
        assert listener.tls is not None
        assert listener.tls.client_ca == tmp_path / "ca.crt"
        assert [pattern.matches(SpiffeId.parse(uri)) for pattern in listener.allow] == [True]
    assert secured.certificates.load[:3] == ("-T", "-C", f"{tmp_path}/ca.crt")


def test_the_sidecars_configuration_is_sound(wiring: Wiring) -> None:
    config = load(ours.config(wiring), file="config", environ={})
    assert str(config.identity) == IDENTITY
    assert [listener.name for listener in config.listeners] == ["echo", "sink", "source"]
