"""Starting again, and starting where something else stands already."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from processes import free_ports
from replica import SIDECAR, LocalProcess, configuration, sidecar_at

PLACES = ["telemetry.listen", "admin.listen", "listeners.compute.listen"]


def listening_at(key: str, address: str) -> dict[str, dict[str, Any]]:
    """The sections that make *address* the value of *key*."""
    return {"listener" if key.startswith("listeners") else key.partition(".")[0]: {"listen": address}}


@pytest.mark.parametrize("last_life", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_a_restart_with_open_connections_binds_at_once(
    last_life: signal.Signals, own_local_process: LocalProcess, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    same_port = {"listener": {"listen": f"127.0.0.1:{port}"}}
    with sidecar_at(tmp_path, own_local_process.address, **same_port) as sidecar:
        pairs = [sidecar.admit(own_local_process) for _ in range(3)]
        pairs[0][0].shutdown(socket.SHUT_WR)
        sidecar.process.signal(last_life)
        sidecar.process.wait()
    with sidecar_at(tmp_path, own_local_process.address, **same_port) as sidecar:
        pairs += [sidecar.admit(own_local_process)]
    for pair in pairs:
        for end in pair:
            end.close()


@pytest.mark.parametrize("key", PLACES)
def test_a_port_that_a_stranger_holds_ends_the_start_with_its_address(key: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        address = f"127.0.0.1:{stranger.getsockname()[1]}"
        file = tmp_path / "sidecar.yaml"
        file.write_text(yaml.safe_dump(configuration("127.0.0.1:1", **listening_at(key, address))))
        began = time.monotonic()
        done = subprocess.run([*SIDECAR, "run", str(file)], capture_output=True, text=True, timeout=60)
        took = time.monotonic() - began
    assert done.returncode == 1
    assert took < 10  # for starting Python and failing once: nothing is tried again in silence
    last_line = done.stderr.splitlines()[-1]
    assert key in last_line
    assert address in last_line
    assert "already in use" in last_line
    assert "Traceback" not in done.stderr


def test_a_metrics_port_that_is_taken_is_found_before_the_main_port_opens(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        address = f"127.0.0.1:{stranger.getsockname()[1]}"
        file = tmp_path / "sidecar.yaml"
        file.write_text(yaml.safe_dump(configuration("127.0.0.1:1", telemetry={"listen": address})))
        done = subprocess.run([*SIDECAR, "run", str(file)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "telemetry.listen" in done.stderr
    assert "listeners.compute" not in done.stderr
