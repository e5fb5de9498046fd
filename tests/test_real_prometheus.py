"""A real Prometheus scrapes a running sidecar, and promtool judges its page and its alerts."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from names import CLAIM, OWN, U1, WRONG
from processes import eventually, free_ports, program, running

from sidecar.client_blocking import open_connection
from sidecar.dialler import RefusedError

RULES = Path(__file__).resolve().parent.parent / "config" / "prometheus-rules.yaml"
PACKAGE = "Debian's prometheus"
SECONDS = 30.0  # Prometheus takes five until it looks at a target for the first time
MOST_SERIES = 600  # of two listeners; this sidecar has one
LISTENER = 'job="sidecar", instance="pod", listener="compute"'
PROCESS = 'job="sidecar", instance="pod"'


def promtool(*arguments: str, text: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [program("promtool", comes_from=PACKAGE), *arguments]
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60)


def get(port: int, path: str) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as response:
        body: bytes = response.read()
    return body.decode()


@dataclass(frozen=True, slots=True)
class Sidecar:
    """A running sidecar, whose local process is down."""

    port: int
    telemetry: int

    def refuse(self) -> str:
        """The reason for which a wrong claim is refused."""
        with pytest.raises(RefusedError) as refused:
            open_connection(("127.0.0.1", self.port), WRONG)
        return refused.value.reason


@dataclass(frozen=True, slots=True)
class Prometheus:
    """A running Prometheus."""

    port: int

    def api(self, path: str) -> Any:
        """What its API answers."""
        answer = json.loads(get(self.port, f"/api/v1/{path}"))
        assert answer["status"] == "success", answer
        return answer["data"]

    def value(self, query: str) -> float | None:
        """The value of the one series that *query* gives; None where there is none yet."""
        result = self.api(f"query?{urllib.parse.urlencode({'query': query})}")["result"]
        assert len(result) <= 1, result
        return float(result[0]["value"][1]) if result else None


@pytest.fixture
def sidecar(tmp_path: Path) -> Iterator[Sidecar]:
    port, telemetry, admin, upstream = free_ports(4)
    config = tmp_path / "sidecar.yaml"
    config.write_text(f"""
        identity: {{cluster: {OWN.cluster}, replica: {OWN.replica}, ordinal: {OWN.ordinal}}}
        assignment: {{instance: {U1}, generation: 7}}
        listeners:
          - {{name: compute, listen: "127.0.0.1:{port}", upstream: "127.0.0.1:{upstream}", tls: none}}
        telemetry: {{listen: "127.0.0.1:{telemetry}"}}
        admin: {{listen: "127.0.0.1:{admin}"}}
    """)
    with running([sys.executable, "-m", "sidecar", "run", str(config)], ready='"event": "started"'):
        yield Sidecar(port, telemetry)


@pytest.fixture
def prometheus(sidecar: Sidecar, tmp_path: Path) -> Iterator[Prometheus]:
    """Prometheus, which scrapes the sidecar five times a second and has the rules of config/."""
    (port,) = free_ports(1)
    config = tmp_path / "prometheus.yaml"
    scrape = {"job_name": "sidecar", "static_configs": [{"targets": [f"127.0.0.1:{sidecar.telemetry}"]}]}
    intervals = {"scrape_interval": "200ms", "scrape_timeout": "200ms", "evaluation_interval": "200ms"}
    config.write_text(yaml.safe_dump({"global": intervals, "scrape_configs": [scrape], "rule_files": [str(RULES)]}))
    command = [program("prometheus", comes_from=PACKAGE), f"--config.file={config}"]
    command += [f"--storage.tsdb.path={tmp_path / 'data'}", f"--web.listen-address=127.0.0.1:{port}"]
    with running(command, ready="Server is ready to receive web requests"):
        yield Prometheus(port)


def test_what_happens_to_connections_can_be_asked_of_prometheus(sidecar: Sidecar, prometheus: Prometheus) -> None:
    rejected = 'identity_sidecar_connections_rejected_total{job="sidecar", listener="compute", reason="%s"}'
    mismatches, down = rejected % "identity_mismatch", rejected % "upstream_unavailable"
    assert eventually(lambda: prometheus.value(mismatches) == 0, seconds=SECONDS)  # before the first: rates need it

    assert sidecar.refuse() == "identity_mismatch"
    with pytest.raises(RefusedError, match="upstream_unavailable"):
        open_connection(("127.0.0.1", sidecar.port), CLAIM)

    assert eventually(lambda: prometheus.value(mismatches) == 1 and prometheus.value(down) == 1)
    assert prometheus.value(f'identity_sidecar_assignment_info{{identity="{OWN}", pod_uid="{U1}"}}') == 1
    samples = prometheus.value('scrape_samples_scraped{job="sidecar"}')
    assert samples is not None
    assert samples < MOST_SERIES

    (target,) = prometheus.api("targets")["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")


def test_prometheus_evaluates_every_rule(prometheus: Prometheus) -> None:
    """A rule can be well-formed and still fail on real series, where two of them match one."""

    def rules() -> list[dict[str, Any]]:
        return [rule for group in prometheus.api("rules")["groups"] for rule in group["rules"]]

    assert eventually(lambda: prometheus.value("identity_sidecar_connections_limit") is not None, seconds=SECONDS)
    assert eventually(lambda: all(rule["health"] != "unknown" for rule in rules()))
    assert len(rules()) > 10
    assert [rule for rule in rules() if rule["health"] != "ok"] == []
    used = "instance:identity_sidecar_connections_used:ratio"
    assert eventually(lambda: prometheus.value(used) == 0)
    assert prometheus.value('count(ALERTS{alertstate="firing"})') is None


def test_promtool_finds_nothing_to_say_about_the_page(sidecar: Sidecar) -> None:
    sidecar.refuse()
    judged = promtool("check", "metrics", text=get(sidecar.telemetry, "/metrics"))
    assert (judged.returncode, judged.stdout, judged.stderr) == (0, "", "")


def test_promtool_accepts_the_rules() -> None:
    judged = promtool("check", "rules", str(RULES))
    assert judged.returncode == 0, judged.stderr


def rejected(reason: str, values: str) -> dict[str, str]:
    """How the counter of refusals for *reason* goes, every 15 seconds."""
    return {"series": f'identity_sidecar_connections_rejected_total{{{LISTENER}, reason="{reason}"}}', "values": values}


def ended(cause: str, values: str) -> dict[str, str]:
    return {"series": f'identity_sidecar_connections_ended_total{{{LISTENER}, cause="{cause}"}}', "values": values}


def expiry(kind: str, values: str) -> dict[str, str]:
    return {
        "series": f'identity_sidecar_certificate_expiry_timestamp_seconds{{{PROCESS}, kind="{kind}"}}',
        "values": values,
    }


def served(until: int, *, since: int = 0) -> list[dict[str, str]]:
    """A certificate; promtool's clock starts at 0."""
    start = f"identity_sidecar_certificate_not_before_timestamp_seconds{{{PROCESS}}}"
    return [expiry("served", f"{until}x80"), {"series": start, "values": f"{since}x80"}]


ALWAYS = "1+1x80"  # one more every 15 seconds, for 20 minutes
ONCE = "0x10 1x70"  # one at 2:45 minutes

FIRING = [
    ("IdentitySidecarWrongTarget", [rejected("identity_mismatch", ALWAYS)]),
    ("IdentitySidecarWrongTarget", [rejected("instance_mismatch", ALWAYS)]),
    ("IdentitySidecarWrongTarget", [rejected("generation_stale", ALWAYS)]),
    ("IdentitySidecarDiallerMisconfigured", [rejected("preface_missing", ALWAYS)]),
    ("IdentitySidecarCantDecide", [rejected("authority_unavailable", ALWAYS)]),
    ("IdentitySidecarUpstreamUnavailable", [rejected("upstream_unavailable", ALWAYS)]),
    ("IdentitySidecarFull", [rejected("over_capacity", ALWAYS)]),
    (
        "IdentitySidecarFull",
        [
            {"series": f'identity_sidecar_connections_active{{{LISTENER}, state="admitted"}}', "values": "95x80"},
            {"series": f"identity_sidecar_connections_limit{{{PROCESS}}}", "values": "100x80"},
        ],
    ),
    ("IdentitySidecarInternalError", [rejected("internal_error", ALWAYS)]),
    ("IdentitySidecarInternalError", [ended("internal_error", ALWAYS)]),
    (
        "IdentitySidecarNotReady",
        [{"series": f'identity_sidecar_state{{{PROCESS}, state="not_assigned"}}', "values": "1x80"}],
    ),
    (
        "IdentitySidecarAuthoritySilent",  # promtool's clock starts in 1970
        [{"series": f"identity_sidecar_authority_last_success_timestamp_seconds{{{PROCESS}}}", "values": "60x80"}],
    ),
    ("IdentitySidecarCertificateExpires", served(until=700)),
    ("IdentitySidecarCertificateExpires", served(until=10_000, since=-90 * 86_400)),
    ("IdentitySidecarRootExpires", [expiry("ca", "500000x80")]),
    (
        "IdentitySidecarCrlUnusable",
        [
            {
                "series": f'identity_sidecar_tls_handshake_failures_total{{{LISTENER}, cause="crl_unusable"}}',
                "values": ONCE,
            }
        ],
    ),
    (
        "IdentitySidecarCertificateRefused",
        [{"series": f'identity_sidecar_tls_reloads_total{{{PROCESS}, result="failed"}}', "values": ONCE}],
    ),
    ("IdentitySidecarCutsConnections", [ended("drain_timeout", ALWAYS)]),
    (
        "IdentitySidecarAcceptErrors",
        [{"series": f'identity_sidecar_accept_errors_total{{{PROCESS}, kind="descriptors"}}', "values": ALWAYS}],
    ),
    (
        "IdentitySidecarSlowLoop",
        [{"series": f"identity_sidecar_event_loop_lag_seconds{{{PROCESS}}}", "values": "0.2x80"}],
    ),
]

SILENT = [
    pytest.param([rejected("identity_mismatch", ONCE)], id="one connection to a wrong target"),
    pytest.param([rejected("draining", ALWAYS)], id="refusals while draining"),
    pytest.param([ended("client_closed", ALWAYS)], id="ends of connections"),
    pytest.param([*served(until=0), expiry("ca", "0x80")], id="no certificate at all"),
    pytest.param(served(until=3_600), id="a certificate for an hour"),
    pytest.param([expiry("ca", "900000x80")], id="a root for ten days"),
    pytest.param(
        [{"series": f'identity_sidecar_tls_reloads_total{{{PROCESS}, result="ok"}}', "values": ALWAYS}], id="rotations"
    ),
    pytest.param([ended("generation_stale", ALWAYS)], id="cuts of connections that had become wrong"),
    pytest.param(
        [{"series": f'identity_sidecar_probes_total{{{LISTENER}, kind="local_probe"}}', "values": ALWAYS}], id="probes"
    ),
]


def firing(series: list[dict[str, str]], expected: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Whether within 18 minutes of *series* exactly the alerts *expected* fire."""
    samples = [{"labels": f'{{alertname="{name}"}}', "value": 1} for name in expected]
    fired = 'count by (alertname) (max_over_time(ALERTS{alertstate="firing"}[18m]))'
    query = {"expr": fired, "eval_time": "18m", "exp_samples": samples}
    test = {"interval": "15s", "input_series": series, "promql_expr_test": [query]}
    file = folder / "test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(RULES)], "evaluation_interval": "15s", "tests": [test]}))
    return promtool("test", "rules", str(file))


@pytest.mark.parametrize(("alert", "series"), FIRING)
def test_an_alert_fires_on_what_it_is_for_and_alone(alert: str, series: list[dict[str, str]], tmp_path: Path) -> None:
    judged = firing(series, [alert], tmp_path)
    assert judged.returncode == 0, judged.stdout + judged.stderr


@pytest.mark.parametrize("series", SILENT)
def test_nobody_is_woken_for_what_is_in_order(series: list[dict[str, str]], tmp_path: Path) -> None:
    judged = firing(series, [], tmp_path)
    assert judged.returncode == 0, judged.stdout + judged.stderr


def test_every_alert_is_tried() -> None:
    groups = yaml.safe_load(RULES.read_text())["groups"]
    alerts = {rule["alert"] for group in groups for rule in group["rules"] if "alert" in rule}
    assert alerts == {alert for alert, _ in FIRING}
