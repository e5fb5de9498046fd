"""The manifests in examples/kubernetes: whether they fit each other, the sidecar's configuration and the kubelet."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from configurations import loaded

from sidecar.cli.admin_option import ADMIN
from sidecar.config import Config, HostPort

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "examples" / "kubernetes"
MANIFESTS = {
    manifest["kind"]: manifest for manifest in map(yaml.safe_load, (f.read_text() for f in FOLDER.glob("*.yaml")))
}
POD = MANIFESTS["StatefulSet"]["spec"]["template"]
(SIDECAR,) = POD["spec"]["initContainers"]
(REPLICA,) = POD["spec"]["containers"]
# What the kubelet puts in place of a reference to a field.
FIELDS = {
    "metadata.name": f"{MANIFESTS['StatefulSet']['metadata']['name']}-2",
    "metadata.namespace": "shop",
    "metadata.uid": "3f0c9a52-7d41-4c7e-9a56-0b8f6f1f2d31",
}


def environment(container: dict[str, Any]) -> dict[str, str]:
    """The variables that the kubelet gives a container."""
    return {
        variable["name"]: variable["value"]
        if "value" in variable
        else FIELDS[variable["valueFrom"]["fieldRef"]["fieldPath"]]
        for variable in container["env"]
    }


def text() -> str:
    """The configuration, from where the sidecar is told to read it."""
    command, path = SIDECAR["args"]
    assert command == "run"
    (mount,) = SIDECAR["volumeMounts"]
    (volume,) = POD["spec"]["volumes"]
    assert mount["name"] == volume["name"]
    assert volume["configMap"]["name"] == MANIFESTS["ConfigMap"]["metadata"]["name"]
    assert str(Path(path).parent) == mount["mountPath"]
    configuration: str = MANIFESTS["ConfigMap"]["data"][Path(path).name]
    return configuration


@pytest.fixture
def config() -> Config:
    """The configuration as the sidecar of pod 2 reads it."""
    return loaded(text(), **environment(SIDECAR))


def port(address: object) -> int:
    assert isinstance(address, HostPort)
    return address.port


def ports(container: dict[str, Any]) -> dict[str, int]:
    """A container's ports by name."""
    return {each["name"]: each["containerPort"] for each in container.get("ports", [])}


def test_the_configuration_passes_the_check_with_the_variables_that_the_pod_sets(tmp_path: Path) -> None:
    file = tmp_path / "sidecar.yaml"
    file.write_text(text())
    command = [sys.executable, "-m", "sidecar", "check", str(file)]
    checked = subprocess.run(command, env=environment(SIDECAR), cwd=ROOT, capture_output=True, text=True, timeout=30)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert "prod-eu.shop/replica-a/2, instance from the configuration" in checked.stdout
    warned = [line for line in checked.stdout.splitlines() if "warning:" in line]
    assert all("without TLS" in line for line in warned), warned  # networkpolicy.yaml is what stands in for it


@pytest.mark.parametrize("variable", sorted(environment(SIDECAR)))
def test_no_variable_is_there_for_nothing(variable: str) -> None:
    assert variable == "TERMINATION_GRACE_PERIOD_SECONDS" or f"${{{variable}}}" in text()


def test_every_pod_and_every_life_of_it_is_somebody_else(config: Config) -> None:
    again = loaded(text(), **environment(SIDECAR) | {"POD_UID": "another"})
    neighbour = loaded(text(), **environment(SIDECAR) | {"POD_NAME": "replica-a-1"})
    assert again.assignment.instance != config.assignment.instance
    assert neighbour.identity != config.identity


def test_the_sidecar_is_native_and_drains_when_the_pod_begins_to_end(config: Config) -> None:
    """A native sidecar gets SIGTERM only after the replica has ended: until then nothing ends its connections."""
    assert SIDECAR["restartPolicy"] == "Always"
    assert SIDECAR["lifecycle"] == {"preStop": {"exec": {"command": ["sidecar", "drain"]}}}
    assert str(config.admin.listen) == ADMIN  # where `sidecar drain` looks for it


def test_the_grace_period_is_the_one_that_the_configuration_is_checked_against(config: Config) -> None:
    seconds = POD["spec"]["terminationGracePeriodSeconds"]
    assert environment(SIDECAR)["TERMINATION_GRACE_PERIOD_SECONDS"] == str(seconds)
    assert config.drain.delay + config.drain.timeout < seconds


def test_the_probes_ask_the_telemetry_server(config: Config) -> None:
    (telemetry,) = {port(config.telemetry.listen)} & set(ports(SIDECAR).values())
    pages = {"startupProbe": "/startupz", "livenessProbe": "/livez", "readinessProbe": "/readyz"}
    for probe, page in pages.items():
        assert SIDECAR[probe]["httpGet"] == {"path": page, "port": "telemetry"}
    assert ports(SIDECAR)["telemetry"] == telemetry
    annotations = POD["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(telemetry)


def test_there_is_no_way_round_the_sidecar(config: Config) -> None:
    (listener,) = config.listeners
    assert str(listener.upstream) in REPLICA["args"]
    assert str(listener.upstream).startswith("127.0.0.1:")
    assert ports(REPLICA) == {}
    assert not POD["spec"].get("hostNetwork")


def test_the_service_names_every_pod_ready_or_not(config: Config) -> None:
    spec = MANIFESTS["Service"]["spec"]
    assert spec["clusterIP"] == "None"
    assert spec["publishNotReadyAddresses"] is True
    assert spec["selector"].items() <= POD["metadata"]["labels"].items()
    (service_port,) = spec["ports"]
    assert ports(SIDECAR)[service_port["targetPort"]] == service_port["port"] == port(config.listeners[0].listen)
    assert MANIFESTS["StatefulSet"]["spec"]["serviceName"] == MANIFESTS["Service"]["metadata"]["name"]


def test_only_controllers_may_dial_and_only_prometheus_may_scrape(config: Config) -> None:
    spec = MANIFESTS["NetworkPolicy"]["spec"]
    assert spec["podSelector"]["matchLabels"].items() <= POD["metadata"]["labels"].items()
    assert spec["policyTypes"] == ["Ingress"]
    dial, scrape = spec["ingress"]
    assert dial["ports"] == [{"protocol": "TCP", "port": port(config.listeners[0].listen)}]
    assert scrape["ports"] == [{"protocol": "TCP", "port": port(config.telemetry.listen)}]
    (controllers,) = dial["from"]
    assert list(controllers) == ["podSelector"]
    assert not controllers["podSelector"]["matchLabels"].items() <= POD["metadata"]["labels"].items()
    (prometheus,) = scrape["from"]
    assert list(prometheus) == ["namespaceSelector"]


@pytest.mark.parametrize("container", [SIDECAR, REPLICA], ids=lambda container: container["name"])
def test_a_container_may_do_no_more_than_it_must(container: dict[str, Any]) -> None:
    assert POD["spec"]["securityContext"]["runAsNonRoot"] is True
    context = container["securityContext"]
    assert context["allowPrivilegeEscalation"] is False
    assert context["readOnlyRootFilesystem"] is True
    assert context["capabilities"] == {"drop": ["ALL"]}


def test_every_object_of_the_set_carries_its_name() -> None:
    assert sorted(MANIFESTS) == ["ConfigMap", "NetworkPolicy", "Service", "StatefulSet"]
    for manifest in MANIFESTS.values():
        assert manifest["metadata"]["labels"] == {"app.kubernetes.io/name": "replica-a"}


def test_the_images_are_those_that_the_page_builds() -> None:
    dockerfile, page = (FOLDER / "Dockerfile").read_text(), (FOLDER / "README.md").read_text()
    builds = re.findall(r"^docker build .* --target (\w+) --tag (\S+) \.$", page, flags=re.MULTILINE)
    assert [tag for _, tag in builds] == [SIDECAR["image"], REPLICA["image"]]
    for target, _ in builds:
        assert re.search(rf"^FROM \S+ AS {target}$", dockerfile, flags=re.MULTILINE)


def test_the_images_are_built_from_files_that_exist() -> None:
    copied = re.findall(r"^COPY (.+) \S+$", (FOLDER / "Dockerfile").read_text(), flags=re.MULTILINE)
    sources = [source for line in copied for source in line.split()]
    assert "sidecar" in sources
    assert [source for source in sources if not (ROOT / source).exists()] == []
    assert all(f"/{source}" in REPLICA["args"] for source in sources if source.endswith("replica.py"))


def test_the_entrypoint_is_the_command_that_the_package_installs() -> None:
    entrypoint = re.findall(r'^ENTRYPOINT \["(\w+)"\]$', (FOLDER / "Dockerfile").read_text(), flags=re.MULTILINE)
    assert entrypoint == ["sidecar", "python"]
    assert 'sidecar = "sidecar.cli.main:main"' in (ROOT / "pyproject.toml").read_text()
    assert os.access(Path(sys.executable).with_name("sidecar"), os.X_OK)
