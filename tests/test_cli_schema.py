"""``sidecar schema`` as a user runs it."""

from __future__ import annotations

import argparse

import pytest
from configurations import EXAMPLES

from sidecar.cli import schema


def test_it_prints_what_stands_beside_the_examples(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    schema.add_parser(parser.add_subparsers())
    options = parser.parse_args(["schema"])
    assert options.run(options) == 0
    assert capsys.readouterr().out == (EXAMPLES / "schema.json").read_text()
