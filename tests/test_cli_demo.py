import argparse
import os
import re
import signal
import subprocess
import sys

import pytest
from demo_fakes import processes_naming
from processes import Process

from sidecar.cli import demo
from sidecar.demo.screen import WIDTH


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """A whole demo: its exit code, standard output and standard error, and the directory for its files."""
    directory = tmp_path_factory.mktemp("demo")
    done = subprocess.run(
        [sys.executable, "-m", "sidecar", "demo"],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "TMPDIR": str(directory)},
    )
    return done, directory


def test_all_comes_out_as_told(told):
    done, _ = told
    assert (done.returncode, done.stderr) == (0, "")
    assert "All of it came out as told" in done.stdout


def test_each_refusal_is_shown_with_its_reason_and_what_to_do(told):
    shown = told[0].stdout
    outcomes = re.findall(r"^   refused .*  (\w+)(?: -> ([\w-]+)|, no answer)$", shown, re.MULTILINE)
    assert outcomes == [
        ("identity_mismatch", "re-resolve"),
        ("identity_mismatch", "re-resolve"),
        ("generation_stale", "refresh"),
        ("instance_mismatch", "re-resolve"),
        ("generation_stale", "refresh"),
        ("identity_mismatch", "re-resolve"),
        ("identity_mismatch", "re-resolve"),
        ("generation_stale", "refresh"),
        ("exclusive_conflict", "retry"),
        ("tls_failed", ""),
    ]
    assert "ordinal: expected 0, this is 1" in shown


def test_admissions_are_shown_and_the_counters_add_up(told):
    shown = told[0].stdout
    assert len(re.findall(r"^   admitted ", shown, re.MULTILINE)) == 8
    table = re.findall(r"^   demo/replica-a/\d((?: +\d+){6})$", shown, re.MULTILINE)
    assert len(table) == 3
    for row in table:
        accepted, admitted, reached, _, probes, refused = map(int, row.split())
        assert accepted == admitted + probes + refused
        assert reached == admitted


def test_a_stream_that_was_right_and_is_no_more_is_cut_before_its_successor_is_admitted(told):
    shown = told[0].stdout
    assert re.findall(r"^   cut .* generation (\d), \w+  reset, (\w+)$", shown, re.MULTILINE) == [
        ("1", "generation_stale"),
        ("2", "superseded"),
    ]
    assert shown.index("reset, generation_stale") < shown.index("shard 1, generation 2, command 1")


def test_it_fits_a_terminal_and_is_not_long(told):
    lines = told[0].stdout.splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert len(lines) <= 80
    assert "\x1b" not in told[0].stdout


def test_nothing_is_left_behind(told):
    _, directory = told
    assert list(directory.iterdir()) == []
    assert processes_naming(directory) == []


def test_served_it_can_be_tried_as_it_says_until_a_signal_ends_it(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    program = [sys.executable, "-m", "sidecar"]
    process = Process([*program, "demo", "--serve"], ready=r"^   ls ")
    try:
        process.wait_until_ready()
        assert len(processes_naming(tmp_path)) == 3
        guide = process.output.replace(" \\\n", "")
        right, wrong = re.findall(r" connect (\S+) +(--certificate .*)", guide)
        spoken = subprocess.run(
            [*program, "connect", right[0], *right[1].split()], input=b"hello\n", capture_output=True, timeout=60
        )
        assert (spoken.returncode, spoken.stdout[:21]) == (0, b"shard 0, generation 1")
        refused = subprocess.run([*program, "connect", wrong[0], *wrong[1].split()], capture_output=True, timeout=60)
        assert refused.returncode == 12
        assert b"identity_mismatch" in refused.stdout + refused.stderr
        process.signal(signal.SIGINT)
        assert process.wait() == 0
    finally:
        process.stop()
    assert processes_naming(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def test_the_help_says_what_it_is_and_what_its_exit_codes_mean(capsys):
    parser = argparse.ArgumentParser(prog="sidecar")
    demo.add_parser(parser.add_subparsers())
    with pytest.raises(SystemExit):
        parser.parse_args(["demo", "--help"])
    shown = capsys.readouterr().out
    assert "--serve" in shown
    assert "exit codes: 0" in shown
