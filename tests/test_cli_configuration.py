"""Reading the configuration file of a command."""

from __future__ import annotations

from pathlib import Path

import pytest
from configurations import written

from sidecar.cli.configuration import read_config
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


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="Is a directory"):
        read_config(str(tmp_path))


def test_a_file_that_isnt_utf_8_is_said_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "sidecar.yaml"
    file.write_bytes(b"identity: {}\nassignment: \xff\n")
    with pytest.raises(ConfigurationError, match=r"sidecar\.yaml:2:13: isn't UTF-8 text"):
        read_config(str(file))
