"""Reading the configuration file of a command."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from configurations import written

from sidecar.cli.configuration import MAX_BYTES, read_config
from sidecar.config import ConfigurationError


def test_a_file_is_read_with_the_environment_of_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "sidecar.yaml"
    file.write_text(written(assignment="{instance: '${POD_UID}'}"))
    monkeypatch.setenv("POD_UID", "3f7c")
    assert str(read_config(str(file)).assignment.instance) == "3f7c"


def test_problems_name_the_file_as_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sidecar.yaml").write_text("identity: {}\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigurationError, match=r"^sidecar\.yaml:1:"):
        read_config("sidecar.yaml")


def test_a_file_that_isnt_there_is_said_in_one_line(tmp_path: Path) -> None:
    path = str(tmp_path / "missing.yaml")
    with pytest.raises(ConfigurationError) as caught:
        read_config(path)
    assert str(caught.value) == (
        f"{path}: can't be read: No such file or directory: give the path of a readable YAML file"
    )


def test_what_is_no_regular_file_is_refused_at_once_and_keeps_no_descriptor(tmp_path: Path) -> None:
    """A pipe that nobody writes into, and a device without an end, would hold whoever reads them."""
    os.mkfifo(tmp_path / "pipe")
    before = set(Path("/proc/self/fd").iterdir())
    for path, what in ((tmp_path, "a directory"), (tmp_path / "pipe", "a pipe"), ("/dev/zero", "a device")):
        with pytest.raises(ConfigurationError) as caught:
            read_config(str(path))
        assert str(caught.value) == f"{path}: is {what}: give the path of a regular file, in YAML"
    assert set(Path("/proc/self/fd").iterdir()) == before


def test_a_file_of_any_kind_may_stand_behind_a_link(tmp_path: Path) -> None:
    """As Kubernetes mounts it."""
    (tmp_path / "data").write_text(written())
    (tmp_path / "sidecar.yaml").symlink_to("data")
    assert read_config(str(tmp_path / "sidecar.yaml")).identity.ordinal == 2
    (tmp_path / "link").symlink_to("/dev/zero")
    with pytest.raises(ConfigurationError, match="is a device"):
        read_config(str(tmp_path / "link"))


def test_a_file_beyond_any_configurations_size_is_not_read_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "sidecar.yaml"
    text = written() + "#"
    file.write_text(text + "x" * (MAX_BYTES - len(text)))
    assert read_config(str(file)).identity.ordinal == 2
    with file.open("a") as more:
        more.truncate(1 << 40)
    with pytest.raises(ConfigurationError, match="is longer than 1 MiB, which no configuration needs"):
        read_config(str(file))


def test_a_file_that_isnt_utf_8_is_said_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "sidecar.yaml"
    file.write_bytes(b"identity: {}\nassignment: \xff\n")
    with pytest.raises(ConfigurationError, match=r"sidecar\.yaml:2:13: isn't UTF-8 text"):
        read_config(str(file))
