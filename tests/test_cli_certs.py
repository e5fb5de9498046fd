"""``sidecar certs`` as a user runs it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from sidecar.cli.main import main


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def certs(*arguments):
    return main(["certs", *arguments])


@pytest.fixture
def ca(capsys):
    assert certs("init", "--trust-domain", "lab.example") == 0
    capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "place", "name"),
    [
        (["server", "prod-eu/replica-a/2"], "server/prod-eu/replica-a/2", "prod-eu/replica-a/2"),
        (
            ["server", "prod-eu/replica-a/2", "--generation", "7"],
            "server/prod-eu/replica-a/2/7",
            "prod-eu/replica-a/2/7",
        ),
        (["server", "prod-eu/replica-a"], "server/prod-eu/replica-a", "prod-eu/replica-a"),
        (["slot", "prod-eu/replica-a/2"], "slot/prod-eu/replica-a/2", "prod-eu/replica-a/2"),
        (["controller", "prod-eu/main"], "controller/prod-eu/controller/main", "prod-eu/controller/main"),
    ],
)
def test_each_kind_of_certificate_is_made_and_openssl_verifies_it(ca, arguments, place, name, capsys):
    assert certs("issue", *arguments, "--dns", "a.example.org") == 0
    said = capsys.readouterr().out
    assert said.startswith(f"spiffe://lab.example/{name}, until ")
    assert f"tls.certificate: {Path.cwd()}/certs/{place}/tls.crt\n" in said, "the configuration takes no relative path"
    made = f"certs/{place}/tls.crt"
    assert subprocess.run(["openssl", "verify", "-CAfile", "certs/ca.crt", made], capture_output=True).returncode == 0
    files = [f"certs/{place}/{file}" for file in ("tls.crt", "tls.key", "ca.crt")]
    assert certs("inspect", *files) == 0
    assert "Nothing is wrong." in capsys.readouterr().out


def test_a_second_init_changes_nothing(ca, capsys, folder):
    before = (folder / "certs" / "ca.key").read_bytes()
    assert certs("init") == 1
    assert "certs/ca.crt is there already" in capsys.readouterr().err
    assert (folder / "certs" / "ca.key").read_bytes() == before


def test_a_ca_elsewhere_is_told_how_to_be_used(capsys):
    assert certs("init", "elsewhere") == 0
    assert "--ca elsewhere" in capsys.readouterr().out
    assert certs("issue", "controller", "prod-eu/main", "--ca", "elsewhere", "--out", "here") == 0
    assert certs("inspect", "here/tls.crt", "elsewhere/ca.crt") == 0


def test_without_a_ca_the_message_says_how_to_make_one(capsys):
    assert certs("issue", "controller", "prod-eu/main") == 1
    assert "make a CA with `sidecar certs init certs`" in capsys.readouterr().err


def test_a_certificate_is_replaced_only_on_request(ca, capsys):
    assert certs("issue", "controller", "prod-eu/main") == 0
    assert certs("issue", "controller", "prod-eu/main") == 1
    assert "--replace" in capsys.readouterr().err
    assert certs("issue", "controller", "prod-eu/main", "--replace") == 0


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["issue"],
        ["issue", "server", "prod-eu"],
        ["issue", "server", "prod-eu/replica-a/02"],
        ["issue", "server", "prod-eu/replica-a", "--generation", "7"],
        ["issue", "slot", "prod-eu/replica-a"],
        ["issue", "slot", "prod-eu/replica-a/2", "--generation", "0"],
        ["issue", "controller", "prod-eu/a b"],
        ["issue", "controller", "prod-eu/main", "--generation", "7"],
        ["issue", "controller", "prod-eu/main", "--dns", "a b"],
        ["issue", "controller", "prod-eu/main", "--days", "0"],
        ["init", "--trust-domain", "Example.org"],
        ["init", "--days", "1_0"],
        ["inspect"],
    ],
)
def test_wrong_arguments_exit_with_2_and_make_nothing(arguments, folder, capsys):
    with pytest.raises(SystemExit) as ended:
        certs(*arguments)
    assert ended.value.code == 2
    assert list(folder.iterdir()) == []


def test_a_slot_that_no_certificate_can_name_is_refused(ca, capsys):
    assert certs("issue", "slot", "prod-eu/controller/2") == 1
    assert "would name controller 2 of prod-eu" in capsys.readouterr().err


def test_files_that_do_not_fit_exit_with_1_and_are_marked(ca, capsys):
    certs("issue", "controller", "prod-eu/a")
    certs("issue", "controller", "prod-eu/b")
    capsys.readouterr()
    files = [f"certs/controller/prod-eu/controller/{file}" for file in ("a/tls.crt", "b/tls.key")]
    assert certs("inspect", *files) == 1
    wrong = [line for line in capsys.readouterr().out.splitlines() if line.startswith("! ")]
    assert len(wrong) == 1
    assert "different pairs" in wrong[0]


def test_what_cannot_be_looked_into_is_said(folder, capsys):
    os.mkfifo(folder / "pipe")
    (folder / "long").write_bytes(b"x" * (1 << 20) + b"y")
    assert certs("inspect", "pipe", "long", "missing", "pipe") == 1
    said = capsys.readouterr().out
    assert "! no regular file\n" in said
    assert "! longer than 1 MiB: is it the right file?\n" in said
    assert "! can't be read: No such file or directory\n" in said
    assert said.endswith("3 of these lines, marked with !, must be put right.\n")
