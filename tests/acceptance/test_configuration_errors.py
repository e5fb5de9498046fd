"""Configurations that must not start: what ``sidecar check`` says about them, and that ``sidecar run`` agrees."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from replica import SIDECAR

from sidecar.cli.main import main

GOOD = """\
identity:
  cluster: prod-eu
  replica: replica-a
  ordinal: 2
assignment:
  instance: 3f0c9a52-7d41-4c7e-9a56-0b8f6f1f2d31
  generation: 7
listeners:
  - name: compute
    listen: 127.0.0.1:0
    upstream: 127.0.0.1:2101
    tls: none
telemetry:
  listen: 127.0.0.1:0
admin:
  listen: 127.0.0.1:0
"""


class Check:
    """``sidecar check`` on a configuration file."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._file = folder / "sidecar.yaml"
        self._capsys = capsys

    def __call__(self, text: str) -> tuple[int, str]:
        """The exit code, and what was written, without the file's name."""
        self._file.write_text(text)
        code = main(["check", str(self._file)])
        written = self._capsys.readouterr()
        return code, (written.out if code == 0 else written.err).replace(str(self._file), "FILE")

    def refuses(self, text: str, *says: str) -> str:
        """What is written about *text*, which is refused with all of *says*, its place first."""
        code, written = self(text)
        assert code == 2, written
        for each in says:
            assert each in written, written
        return written


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Check:
    for name in ("POD_NAME", "POD_UID", "ORDINAL", "TERMINATION_GRACE_PERIOD_SECONDS"):
        monkeypatch.delenv(name, raising=False)
    return Check(tmp_path, capsys)


def edited(old: str, new: str) -> str:
    """The good configuration with one place changed."""
    assert GOOD.count(old) == 1
    return GOOD.replace(old, new)


def run(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """What ``sidecar run`` does with a configuration that it refuses."""
    file = folder / "sidecar.yaml"
    file.write_text(text)
    return subprocess.run([*SIDECAR, "run", str(file)], capture_output=True, text=True, timeout=60)


def test_the_good_configuration_is_good(check: Check) -> None:
    code, written = check(GOOD)
    assert code == 0
    assert written.startswith("FILE: ok\n")


@pytest.mark.parametrize(
    ("ordinal", "names"),
    [("${ORDINAL}", "ORDINAL"), ('""', "identity.ordinal"), ("~", "identity.ordinal"), ("", "identity.ordinal")],
    ids=["unset variable", "empty text", "null", "nothing"],
)
def test_a_slot_without_its_ordinal_does_not_start(ordinal: str, names: str, check: Check, tmp_path: Path) -> None:
    text = edited("ordinal: 2", f"ordinal: {ordinal}")
    check.refuses(text, "FILE:4:", names)
    done = run(tmp_path, text)
    assert done.returncode == 2
    assert "identity.ordinal" in done.stderr
    assert "listening" not in done.stderr


def test_an_empty_variable_is_no_ordinal_and_an_unset_one_may_have_a_default(
    check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check(edited("ordinal: 2", "ordinal: ${ORDINAL:-2}"))[0] == 0
    monkeypatch.setenv("ORDINAL", "")
    check.refuses(edited("ordinal: 2", "ordinal: ${ORDINAL}"), "FILE:4:", "ORDINAL")


@pytest.mark.parametrize("word", ["no", "on", "yes", "off", "true", "~", "2024-01-01", "12:30"])
@pytest.mark.parametrize(("key", "value", "place"), [("cluster", "prod-eu", 2), ("replica", "replica-a", 3)])
def test_words_that_yaml_makes_something_else_of_want_quotes(
    word: str, key: str, value: str, place: int, check: Check
) -> None:
    said = check.refuses(edited(f"{key}: {value}", f"{key}: {word}"), f"FILE:{place}:", f"identity.{key}")
    if word != "~":
        assert "quote" in said
    if word in {"no", "on", "yes", "off", "true", "2024-01-01"}:
        assert check(edited(f"{key}: {value}", f'{key}: "{word}"'))[0] == 0


@pytest.mark.parametrize(
    "number", ["010", "08", "1_0", "12:30", "0x2", "0b11", "+2", "2.0", '"02"', "true", "-1", "2147483648"]
)
def test_a_number_that_could_be_read_in_two_ways_is_refused(number: str, check: Check) -> None:
    check.refuses(edited("ordinal: 2", f"ordinal: {number}"), "FILE:4:", "identity.ordinal")


def test_an_ordinal_may_be_quoted(check: Check) -> None:
    code, written = check(edited("ordinal: 2", 'ordinal: "2"'))
    assert (code, written) == check(GOOD)


def test_a_key_given_twice_is_refused_with_both_places(check: Check) -> None:
    check.refuses(edited("  ordinal: 2\n", "  ordinal: 2\n  ordinal: 3\n"), "FILE:5:", "ordinal", "line 4")
    check.refuses(GOOD + "admin:\n  listen: 127.0.0.1:1\n", "FILE:17:", "admin", "line 15")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (GOOD + "timeouts: {prefase: 3s}\n", ("FILE:17:", "timeouts.prefase", "preface")),
        (edited("tls: none", "tls: {client_cas: x}"), ("FILE:12:", "client_cas", "client_ca")),
        (GOOD + "admim: {}\n", ("FILE:17:", "admim", "admin")),
        (edited("    tls: none", "    preface: optional\n    tls: none"), ("FILE:12:", "preface", "proxy-v2")),
    ],
    ids=["nested", "in a listener", "at the top", "a preface that may be left out"],
)
def test_a_setting_that_does_not_exist_is_refused_with_the_nearest_that_does(
    text: str, says: tuple[str, ...], check: Check
) -> None:
    check.refuses(text, *says)


def test_a_missing_variable_is_named_and_the_value_of_none_is_shown(
    check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    check.refuses(edited("generation: 7", "generation: ${MISSING_ONE}"), "FILE:7:", "MISSING_ONE")
    monkeypatch.setenv("SECRET", "s3cret value")
    for place, (old, key) in ((6, ("3f0c9a52-7d41-4c7e-9a56-0b8f6f1f2d31", "instance")), (7, ("7\n", "generation"))):
        text = edited(f"{key}: {old}", f"{key}: ${{SECRET}}\n")
        said = check.refuses(text, f"FILE:{place}:", "SECRET")
        assert "s3cret" not in said


def test_what_a_variable_holds_is_not_expanded_again(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTER", "${INNER}")
    monkeypatch.setenv("INNER", "7")
    check.refuses(edited("generation: 7", "generation: ${OUTER}"), "FILE:7:", "OUTER")


@pytest.mark.parametrize(
    ("section", "says"),
    [
        ("timeouts: {preface: 5}", ("timeouts.preface", "unit")),
        ("timeouts: {preface: 0s}", ("timeouts.preface",)),
        ("timeouts: {preface: -1s}", ("timeouts.preface",)),
        ("timeouts: {preface: 1s}", ("timeouts.preface", "1s", "assignment.timeout", "2s")),
        ("limits: {refusal_drain: 64}", ("limits.refusal_drain", "unit")),
    ],
)
def test_a_time_or_size_that_makes_no_sense_is_refused(section: str, says: tuple[str, ...], check: Check) -> None:
    check.refuses(f"{GOOD}{section}\n", "FILE:17:", *says)


def test_times_that_may_be_zero_may_be_zero(check: Check) -> None:
    assert check(GOOD + "drain: {delay: 0s}\nreject_delay: 0s\n")[0] == 0


def test_a_bound_on_staleness_that_no_read_can_keep_is_refused(check: Check) -> None:
    text = edited("  generation: 7\n", "  generation: 7\n  revalidate_interval: 10s\n  max_staleness: 10s\n")
    check.refuses(text, "assignment.max_staleness", "10s", "revalidate_interval")


def test_a_drain_that_ends_after_the_pod_is_killed_is_refused(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    text = GOOD + "drain: {delay: 10s, timeout: 25s}\n"
    assert check(text)[0] == 0
    monkeypatch.setenv("TERMINATION_GRACE_PERIOD_SECONDS", "30")
    check.refuses(text, "FILE:17:", "drain.timeout", "25s", "10s", "30s")


def by_pod_name(**identity: str) -> str:
    lines = "".join(f"  {key}: {value}\n" for key, value in ({"cluster": "prod-eu"} | identity).items())
    return edited("  cluster: prod-eu\n  replica: replica-a\n  ordinal: 2\n", lines)


@pytest.mark.parametrize(
    ("pod_name", "slot"),
    [
        ("replica-a-2", "prod-eu/replica-a/2"),
        ("replica-a-10", "prod-eu/replica-a/10"),
        ("db-2024-1-0", "prod-eu/db-2024-1/0"),
    ],
)
def test_a_pods_name_gives_replica_and_ordinal(
    pod_name: str, slot: str, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOSTNAME", "ip-10-0-0-7")
    monkeypatch.setenv("POD_NAME", pod_name)
    code, written = check(by_pod_name(pod_name="${POD_NAME}"))
    assert code == 0
    assert slot in written


@pytest.mark.parametrize("pod_name", ["replica-a-", "replica-a", "2", "-2", "Replica-a-2", "replica_a-2"])
def test_a_name_that_no_pod_of_a_set_has_gives_nothing(
    pod_name: str, check: Check, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POD_NAME", pod_name)
    check.refuses(by_pod_name(pod_name="${POD_NAME}"), "FILE:3:", "identity.pod_name", "POD_NAME")


def test_the_hosts_name_is_never_taken_for_the_pods(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOSTNAME", "ip-10-0-0-7")
    check.refuses(by_pod_name(pod_name="${POD_NAME}"), "POD_NAME")
    check.refuses(by_pod_name(), "identity")


def test_everything_that_is_wrong_is_listed_at_once(check: Check) -> None:
    text = GOOD.replace("ordinal: 2", "ordinal: 02").replace("generation: 7", "generation: no") + "limit: {}\n"
    check.refuses(text, "FILE:4:", "FILE:7:", "FILE:17:")


def test_run_and_check_agree(tmp_path: Path, check: Check) -> None:
    text = edited("ordinal: 2", "ordinal: 02")
    said = check.refuses(text)
    done = run(tmp_path, text)
    assert done.returncode == 2
    assert done.stderr.replace(str(tmp_path / "sidecar.yaml"), "FILE") == said
