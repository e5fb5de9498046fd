"""The root of the command line: which commands there are, and what becomes of an error."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from sidecar.cli.main import COMMANDS, main
from sidecar.config import ConfigurationError, Problem
from sidecar.errors import StartError

ROOT = Path(__file__).resolve().parent.parent


def names():
    return {command.__name__.rpartition(".")[2] for command in COMMANDS}


def test_the_commands_are_these():
    assert names() == {
        "run",
        "check",
        "schema",
        "connect",
        "status",
        "wait",
        "drain",
        "reload",
        "shutdown",
        "floor",
        "certs",
        "demo",
    }


@pytest.mark.parametrize("name", sorted(names()))
def test_each_command_explains_itself(name, capsys):
    with pytest.raises(SystemExit) as ended:
        main([name, "--help"])
    assert ended.value.code == 0
    assert f"usage: sidecar {name}" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["dance"], ["run"], ["check", "a", "b"]])
def test_wrong_usage_is_said_and_exits_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: sidecar" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (StartError("listen: address :1 is already in use"), 1, "sidecar: listen: address :1 is already in use\n"),
        (ConfigurationError("c.yaml", [Problem(None, "", "can't be read")]), 2, "c.yaml"),
    ],
)
def test_an_error_is_a_message_and_an_exit_code_and_no_traceback(error, code, text, capsys, monkeypatch):
    def fail(_options):
        raise error

    monkeypatch.setattr("sidecar.cli.run.run", fail)
    assert main(["run", "c.yaml"]) == code
    printed = capsys.readouterr().err
    assert text in printed
    assert "Traceback" not in printed


def test_the_package_runs_as_a_module_and_knows_its_version():
    done = subprocess.run([sys.executable, "-m", "sidecar", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"sidecar {metadata.version('identity-sidecar')}\n"


@pytest.mark.parametrize(
    ("command", "unneeded"),
    [
        ("pass", {"trio", "pydantic", "yaml", "structlog", "prometheus_client", "cryptography", "OpenSSL"}),
        ("main(['schema'])", {"trio"}),
    ],
)
def test_a_command_loads_only_what_it_needs(command, unneeded):
    """`check` and `connect` run in builds, hooks and loops."""
    script = f"import sys; from sidecar.cli.main import main; {command}; print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert not unneeded & set(done.stderr.split())


def shell(redirection, command="check"):
    """The command in a shell, with its output redirected; exit code and what it wrote to standard error."""
    arguments = f"{sys.executable} -m sidecar {command} {redirection}"
    environment = {**os.environ, "POD_UID": "u", "POD_NAME": "replica-a-2", "POD_NAMESPACE": "default"}
    done = subprocess.run(
        ["sh", "-c", arguments], capture_output=True, text=True, check=False, cwd=ROOT, env=environment, timeout=30
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("command", ["check config/minimal.yaml", "schema"])
def test_an_output_that_goes_nowhere_is_no_traceback(command):
    assert shell(">&-", command) == (0, "")
    assert shell("<&-", command) == (0, "")
    code, said = shell("> /dev/full", command)
    assert (code, said) == (1, "sidecar: standard output can't be written: No space left on device\n")
    assert "Traceback" not in shell("| true", command)[1]
