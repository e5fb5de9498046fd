"""``sidecar check`` as a user runs it."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import pytest
from configurations import EXAMPLES, written

from sidecar.cli import check
from sidecar.config import ConfigurationError


def parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    check.add_parser(parser.add_subparsers())
    return parser.parse_args(arguments)


def test_a_good_file_is_explained_on_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "sidecar.yaml"
    file.write_text(written(more="require: [identity]"))
    options = parsed("check", str(file))
    assert options.run(options) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert lines[0] == f"{file}: ok"
    assert "compute: stops connections meant for another slot: reused addresses, stale names" in lines
    assert any(line.startswith("compute: warning: stops no old life") for line in lines)
    assert err == ""


def test_a_bad_file_raises_what_the_root_prints(tmp_path: Path) -> None:
    file = tmp_path / "sidecar.yaml"
    file.write_text(written(more="timeuots: {}\nlog: {level: loud}"))
    options = parsed("check", str(file))
    with pytest.raises(ConfigurationError) as caught:
        options.run(options)
    assert len(caught.value.problems) == 2


def test_checking_loads_nothing_that_only_running_needs(tmp_path: Path) -> None:
    script = (
        "import sys, argparse; from sidecar.cli import check; check.run(argparse.Namespace(config=sys.argv[1]));"
        "print(sorted({'trio', 'structlog', 'h11', 'prometheus_client', 'OpenSSL'} & sys.modules.keys()))"
    )
    command = [sys.executable, "-c", script, str(EXAMPLES / "minimal.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), check=True)
    assert done.stdout.splitlines()[-1] == "[]"
