"""What docs/handoff.md shows is what runs: bytes, C and Python."""

from __future__ import annotations

import re
import sys
from ipaddress import ip_address
from pathlib import Path

import pytest
from fake_lifeline import receive, sidecar_at
from processes import eventually, running

from sidecar.handoff_format import Introduction, read_packet
from sidecar.identity import Epoch, Generation, Identity
from sidecar.preface.proxy_v2 import InetAddress

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "handoff.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


def test_the_bytes_mean_what_is_written_beside_them() -> None:
    (shown,) = blocks("hex")
    data = b"".join(bytes.fromhex(line[:52]) for line in shown.splitlines())
    assert f"These {len(data)} bytes" in PAGE
    assert read_packet(data) == Introduction(
        number=12,
        identity=Identity("prod-eu", "replica-a", 2),
        generation=Generation(7),
        instance=None,
        epoch=Epoch(3),
        controller=None,
        peer=InetAddress(ip_address("192.0.2.10"), 51000),
        local=InetAddress(ip_address("198.51.100.7"), 7101),
        answer=b"",
        first=b"hello\n",
    )


def test_the_c_that_it_shows_is_the_examples() -> None:
    source = (ROOT / "examples" / "handoff" / "receiver.c").read_text()
    assert len(source.splitlines()) < 300
    shown = blocks("c")
    assert len(shown) == 2
    assert [block for block in shown if block not in source] == []


@pytest.mark.parametrize("program", blocks("python"))
def test_the_python_that_it_shows_is_an_echo(program: str, tmp_path: Path) -> None:
    path, script = tmp_path / "handoff.sock", tmp_path / "program.py"
    script.write_text(f"print('started', flush=True)\n{program}")
    with running([sys.executable, str(script), str(path)], ready="started"):
        assert eventually(path.is_socket)
        assert eventually(lambda: is_listening(path))
        with sidecar_at(path) as sidecar, sidecar.give(1, answer=b"answer, ", first=b"left over, ") as client:
            client.sendall(b"new")
            assert receive(client, 22) == b"answer, left over, new"
            client.shutdown(1)
            assert receive(client, 1) == b""


def is_listening(path: Path) -> bool:
    try:
        sidecar_at(path).die()
    except ConnectionRefusedError:
        return False
    return True


def test_every_page_and_file_that_it_links_to_is_there() -> None:
    linked = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", PAGE)
    assert linked
    assert [path for path in linked if not (ROOT / "docs" / path).exists()] == []
