"""What README.md tells the reader to run, done: the commands as they stand, and the Python under them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from processes import free_ports

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def blocks(section: str, language: str) -> list[str]:
    """The fenced blocks in *language* under the heading *section*."""
    text = re.split(r"^## ", README.partition(f"\n## {section}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def test_what_it_says_to_run_runs_and_says_what_it_shows(tmp_path: Path) -> None:
    listen, upstream, telemetry, admin = map(str, free_ports(4))

    def here(text: str) -> str:
        """*text* with ports that nobody else has."""
        text = text.replace("7101", listen).replace("2101", upstream)
        return re.sub(r"^(\$ sidecar (?:wait|shutdown))\b", rf"\1 --admin 127.0.0.1:{admin}", text, flags=re.MULTILINE)

    (configuration,) = blocks("Run it", "yaml")
    (program,) = blocks("Dial it", "python")
    shown = [line for block in blocks("Run it", "console") for line in here(block).splitlines()]
    commands = [line.removeprefix("$ ") for line in shown if line.startswith("$ ")]
    ports = f"telemetry: {{listen: 127.0.0.1:{telemetry}}}\nadmin: {{listen: 127.0.0.1:{admin}}}\n"
    (tmp_path / "sidecar.yaml").write_text(here(configuration) + ports)
    (tmp_path / "program.py").write_text(here(program))
    assert commands[-1].startswith("sidecar shutdown")
    script = [
        "trap 'kill $(jobs -p)' EXIT",
        *(f"{command} started=$!" if command.endswith("&") else command for command in commands[:-1]),
        "python program.py",
        commands[-1],
        "wait $started",  # the sidecar, which ends in order; by now it may have, and then is no job any more
    ]

    done = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    assert said[0] == "sidecar.yaml: ok"
    expected = [line for line in shown if not line.startswith("$ ")]
    assert [line for line in said if line.startswith(("admitted", "refused"))] == [*expected, "admitted"]


def test_every_page_that_it_links_to_is_there() -> None:
    linked = re.findall(r"\]\(([^)#:]+)\)", README)
    assert linked
    assert [path for path in linked if not (ROOT / path).exists()] == []
