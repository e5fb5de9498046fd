"""Arguments of commands as values."""

from __future__ import annotations

import argparse

import pytest

from sidecar.cli.argument import parsed
from sidecar.errors import MalformedValue
from sidecar.identity import Generation


def parser():
    each = argparse.ArgumentParser()
    each.add_argument("--generation", type=parsed(Generation.parse))
    return each


def test_an_argument_is_the_value_that_it_spells():
    assert parser().parse_args(["--generation", "7"]).generation == Generation(7)


def test_one_that_spells_none_is_named_with_what_is_wrong(capsys):
    with pytest.raises(SystemExit) as ended:
        parser().parse_args(["--generation", "007"])
    assert ended.value.code == 2
    with pytest.raises(MalformedValue) as why:
        Generation.parse("007")
    assert f"argument --generation: {why.value}" in capsys.readouterr().err
