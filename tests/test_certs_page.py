"""certs/README.md says what the command does and what the configuration takes."""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path

import pytest
import yaml

from sidecar.cli import certs
from sidecar.cli.main import main

PAGE = (Path(__file__).resolve().parent.parent / "certs" / "README.md").read_text()
BLOCKS = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
KEYS = {"certificate", "key", "client_ca", "crl", "min_version", "allow", "allow_dns", "trust_domains"}


def test_the_commands_for_development_run_as_they_stand_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (commands,) = re.findall(r"^```sh\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    for line in commands.splitlines():
        program, *arguments = shlex.split(line, comments=True)
        assert program == "sidecar"
        expanded = [path for text in arguments for path in expand(tmp_path, text)]
        assert main(expanded) == 0, line
    pair = yaml.safe_load(BLOCKS[0])["tls"]
    files = [Path(pair[key].replace("${PWD}", str(tmp_path))) for key in ("certificate", "key", "client_ca")]
    assert all(file.is_absolute() and file.is_file() for file in files)


def expand(folder, text):
    """*text* as a shell would, where files match it."""
    found = sorted(str(path.relative_to(folder)) for path in folder.glob(text)) if text.startswith("certs/") else []
    return found or [text]


@pytest.mark.parametrize("text", BLOCKS)
def test_each_snippet_is_yaml_and_its_tls_block_has_known_keys(text):
    parsed = yaml.safe_load(text)
    for section in (parsed.get("tls", {}),):
        assert set(section) <= KEYS
        assert not section or {"certificate", "key", "client_ca"} <= set(section)


def test_every_action_stands_on_the_page():
    parser = argparse.ArgumentParser()
    certs.add_parser(parser.add_subparsers())
    for action in ("init", "issue", "inspect"):
        assert f"sidecar certs {action}" in PAGE
