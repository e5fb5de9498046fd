"""Arguments of commands as values: a value's own parser, and argparse's way to say what is wrong.

Called by the commands that take such arguments.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TypeVar

from sidecar.errors import MalformedValue

Value = TypeVar("Value")


def parsed(parse: Callable[[str], Value]) -> Callable[[str], Value]:
    """*parse* for argparse, which shows the message of one kind of exception only, and names the option with it."""

    def checked(text: str) -> Value:
        try:
            return parse(text)
        except MalformedValue as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return checked
