"""How the demo looks: lines of at most a hundred columns, with a little colour where that is wanted.

Owns layout and colour; every word of the story is the story's. Plain ASCII, so that it looks the same everywhere.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final, Self, TextIO

WIDTH: Final = 100

_INDENT: Final = "   "
_UUID = re.compile(r"\b([0-9a-f]{8})-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")


class Style(Enum):
    """The colours, by what they say; the values are ANSI's."""

    HEADING = "1"  # bold
    ADMITTED = "32"  # green
    REFUSED = "31"  # red
    ASIDE = "2"  # dim


class ScreenLostError(Exception):
    """What is shown gets nowhere any more. The message says why; empty: nobody reads, and that needs no words."""


class Screen:
    """Where the demo writes. Everything that does raises ScreenLostError."""

    def __init__(self, stream: TextIO, *, color: bool) -> None:
        self._stream = stream
        self._color = color

    @classmethod
    def on(cls, stream: TextIO, environ: Mapping[str, str]) -> Self:
        """A screen on *stream*, in colour only on a terminal and where NO_COLOR (no-color.org) isn't set."""
        return cls(
            stream, color=stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM", "dumb") != "dumb"
        )

    def paragraph(self, text: str, style: Style | None = None) -> None:
        """A paragraph from the left margin."""
        for line in textwrap.wrap(text, WIDTH):
            self._write(self._styled(line, style))

    def step(self, number: int, text: str) -> None:
        """The beginning of a step of the story."""
        self.blank()
        first, *rest = textwrap.wrap(text, WIDTH - len(_INDENT))
        self._write(self._styled(f"{number}  {first}", Style.HEADING))
        for line in rest:
            self._write(self._styled(f"{_INDENT}{line}", Style.HEADING))

    def note(self, text: str, style: Style | None = None) -> None:
        """What a step has to say beside its verdicts."""
        for line in textwrap.wrap(text, WIDTH - len(_INDENT)):
            self._write(self._styled(f"{_INDENT}{line}", style))

    def verdict(self, verdict: str, what: str, outcome: str, detail: str = "") -> None:
        """One connection: its verdict, or its end, in a word, what it was, what came of it, and below that why."""
        style = {"admitted": Style.ADMITTED, "refused": Style.REFUSED, "cut": Style.REFUSED}.get(verdict)
        padded = self._styled(f"{verdict:<8}", style)
        self._write(f"{_INDENT}{padded}  {_short(what):<52}  {outcome}")
        if detail:
            self._write(self._styled(f"{_INDENT}{'':<8}  {_short(detail)}", Style.ASIDE))

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """A table; numbers stand to the right of their column."""
        columns = list(zip(heads, *rows, strict=True))
        widths = [max(len(str(cell)) for cell in column) for column in columns]
        for number, row in enumerate((heads, *rows)):
            cells = (
                f"{cell!s:>{width}}" if isinstance(column[1], int) else f"{cell!s:<{width}}"
                for cell, width, column in zip(row, widths, columns, strict=True)
            )
            line = f"{_INDENT}{'  '.join(cells)}".rstrip()
            self._write(self._styled(line, None if number else Style.ASIDE))

    def command(self, *parts: str) -> None:
        """A command to paste, with a continued line for each part after the first."""
        self._write(" \\\n".join((f"{_INDENT}{parts[0]}", *(f"{_INDENT}  {part}" for part in parts[1:]))))

    def ending(self, text: str) -> None:
        """The end of the story."""
        self.blank()
        self.paragraph(text, Style.HEADING)

    def blank(self) -> None:
        """An empty line."""
        self._write("")

    def abandon(self) -> None:
        """It is lost: send what is still buffered nowhere, or Python would complain about it at its exit."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self._stream.fileno())
        os.close(nowhere)

    def _write(self, line: str) -> None:
        try:
            self._stream.write(f"{line}\n")
            self._stream.flush()  # a story is read while it happens
        except BrokenPipeError as error:
            raise ScreenLostError from error
        except OSError as error:
            raise ScreenLostError(f"standard output can't be written: {error.strerror}") from error

    def _styled(self, text: str, style: Style | None) -> str:
        return f"\x1b[{style.value}m{text}\x1b[0m" if self._color and style is not None else text


def _short(text: str) -> str:
    """*text* with pods' UIDs cut to the digits by which a reader tells them apart."""
    return _UUID.sub(r"\1", text)
