"""The option that says where the admin server is."""

from __future__ import annotations

import argparse

import pytest

from sidecar.cli.admin_option import add_admin_option


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser()
    add_admin_option(made)
    return made


def test_without_it_commands_ask_where_the_configuration_listens_by_default() -> None:
    assert parser().parse_args([]).admin == "127.0.0.1:9901"


@pytest.mark.parametrize("address", ["[::1]:9901", "unix:/run/sidecar/admin.sock"])
def test_it_takes_what_the_configuration_takes(address: str) -> None:
    assert parser().parse_args(["--admin", address]).admin == address


def test_a_mistake_in_it_is_a_mistake_in_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(["--admin", "9901"])

    assert ended.value.code == 2
    assert "--admin" in capsys.readouterr().err
