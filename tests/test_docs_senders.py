"""What docs/senders.md tells people to configure is what the tests with real senders run with."""

from __future__ import annotations

import argparse
import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_real_envoy import envoy_config

from sidecar.cli import connect
from sidecar.dialler import DialError, NoAnswerError, TlsRefusedError, UnprovenPeerError, WrongPeerError
from sidecar.identity import Generation, Identity, Instance
from sidecar.preface.claim import ReceivedClaim, read_claim
from sidecar.preface.proxy_v2 import Tlv
from sidecar.server_names import Depth
from sidecar.tls.material import TlsFilesError

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "senders.md").read_text()


def block(marker: str) -> str:
    """The page's code block that holds *marker*."""
    (found,) = (text for text in re.findall(r"^```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL) if marker in text)
    return str(found)


def test_envoys_transport_socket_is_the_one_that_is_tested() -> None:
    shown = yaml.safe_load(block("added_tlvs"))["transport_socket"]
    (cluster,) = json.loads(envoy_config(1, 2, "7", None))["static_resources"]["clusters"]
    assert shown == cluster["transport_socket"]


def test_the_types_and_texts_beside_envoys_bytes_are_theirs() -> None:
    for number, name in re.findall(r"(\d{3}) is `(E\d)`", PAGE):
        assert int(number) == int(name, 16)
    shown = re.findall(r"\{type: (\d+), value: (\S+)\}", block("added_tlvs"))
    texts = re.findall(r"\} +# (\S+)$", block("added_tlvs"), re.MULTILINE)
    tlvs = [Tlv(int(kind), yaml.safe_load(f"!!binary {value}")) for kind, value in shown]
    assert [tlv.value.decode() for tlv in tlvs] == texts
    assert read_claim(tlvs) == ReceivedClaim(Identity.parse(texts[0]), Generation.parse(texts[1]), Instance(texts[2]))


def test_haproxys_formats_state_a_claim() -> None:
    formats = re.findall(r"set-proxy-v2-tlv-fmt\((0x\w\w)\) %\[str\((\S+)\)\]", block("set-proxy-v2-tlv-fmt"))
    claim = read_claim(Tlv(int(kind, 16), text.encode()) for kind, text in formats)
    assert claim == ReceivedClaim(
        identity=Identity("prod-eu", "replica-a", 2), instance=Instance("6f1c2f3e-7b0d-4a53-9c55-0d6c1f0a2b11")
    )


@pytest.mark.parametrize("name", re.findall(r"`(tests/\w+\.py)`", PAGE))
def test_the_tests_that_it_names_exist(name: str) -> None:
    assert (ROOT / name).exists()


def test_the_python_that_it_shows_runs_up_to_the_files() -> None:
    names: dict[str, Any] = {}
    exec(compile(block("ClientTls.load"), "senders.md", "exec"), names)
    with pytest.raises(TlsFilesError, match=r"^/run/tls/"):
        names["load_tls"]()


def test_the_command_that_it_shows_is_one() -> None:
    parser = argparse.ArgumentParser(prog="sidecar")
    connect.add_parser(parser.add_subparsers())
    args = parser.parse_args(shlex.split(block("$ sidecar connect").removeprefix("$ "))[1:])
    assert (args.verify, args.trust_domain, args.key) == ("slot", "example.org", "tls.key")


def test_every_depth_is_explained() -> None:
    explained = set(re.findall(r"^\| `([^`]+)`(?: \(default\))? \| (?:exactly|the same|a DNS)", PAGE, re.MULTILINE))
    assert explained == {*Depth, "dns:PATTERN"}


@pytest.mark.parametrize("error", [TlsRefusedError, UnprovenPeerError, WrongPeerError, NoAnswerError])
def test_what_a_dial_over_tls_fails_with_is_explained_with_its_advice(error: type[DialError]) -> None:
    failure = error("x")  # type: ignore[call-arg]  # each of these takes one
    assert f"| `{failure.reason}` | {failure.advice} |" in PAGE
