"""What the sidecar writes on stderr, one line an event.

Owns the lines' form: JSON for machines, text for a terminal. Both escape what they are given, since most values come
from the wire: a line break in a claim can't forge a second event, and no control character reaches a terminal. A logger
is built and passed in; nothing global is configured, and a stream that can't be written to costs lines, never a
connection (``line_sink``).

Every connection leaves a line, so a line has to be cheap: there is no library underneath, whose chain of processors
would cost more than all the rest, and who writes a line for every connection makes the JSON of its fields itself
(``Logger.encoded``).

``app`` builds a logger, everything from the flow on writes to it.
"""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import StrEnum, unique
from json.encoder import encode_basestring_ascii
from typing import Final, TextIO

from sidecar.line_sink import LineSink
from sidecar.reasons import Reason

_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}
_RECENT: Final = 64  # refusals that are remembered

Fields = Mapping[str, object]


@unique
class Format(StrEnum):
    """How a line is written."""

    AUTO = "auto"  # text on a terminal, else JSON
    JSON = "json"
    TEXT = "text"


class LogSwitch:
    """Form and level of a logger's lines, which a reload may change while the logger is in use.

    Args:
        stream: where the lines go; one that is a terminal gets text where the format is ``auto``.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self.json = True
        self._level = 0

    def set(self, format: Format | str, level: str) -> None:  # noqa: A002  the configuration's word
        """Lines of *level* and above, in this form, from now on."""
        self.json = not (format == Format.TEXT or (format == Format.AUTO and self.stream.isatty()))
        self._level = _LEVELS[level]

    def writes(self, level: str) -> bool:
        """Whether there are lines of *level*."""
        return _LEVELS[level] >= self._level

    def line(self, head: dict[str, str], fields: Fields) -> str:
        """The line that begins with *head* and goes on with those of *fields* that aren't None."""
        fields = _present(fields)
        return to_json({**head, **fields}) if self.json else _text_line(head, fields)

    def lost(self, count: int) -> str:
        """The line that says how many were lost."""
        return self.line({"level": "warning", "event": "log_lines_lost"}, {"lines": count})


class Logger:
    """Writes events, a line each.

    Values may be anything: text as it is, numbers as numbers, and the rest as its ``str``, which is taken only when the
    line is written. Fields that are None are left out. An exception given as ``exc_info`` is written as its traceback.
    """

    __slots__ = ("_bound", "_clock", "_sink", "_switch")

    def __init__(self, sink: LineSink, switch: LogSwitch, bound: Fields) -> None:
        self._sink = sink
        self._switch = switch
        self._bound = bound
        self._clock = _Clock()

    def bind(self, **fields: object) -> Logger:
        """A logger whose lines have these fields as well."""
        return Logger(self._sink, self._switch, {**self._bound, **fields})

    def debug(self, event: str, **fields: object) -> None:
        """For who looks for something."""
        self._write("debug", event, fields)

    def info(self, event: str, **fields: object) -> None:
        """All is as it should be."""
        self._write("info", event, fields)

    def warning(self, event: str, **fields: object) -> None:
        """Somebody should look at it."""
        self._write("warning", event, fields)

    def error(self, event: str, **fields: object) -> None:
        """Somebody must look at it."""
        self._write("error", event, fields)

    def exception(self, event: str, **fields: object) -> None:
        """An error, with the traceback of the exception that is being handled."""
        self._write("error", event, {**fields, "exc_info": sys.exception()})

    def encoded(self, level: str, event: str, fields: Callable[[], str]) -> None:
        """Write an event whose fields come as JSON, without the braces around it, and only where there is a line.

        A line of text is made of the values that the JSON says: people can wait.
        """
        if not self._switch.writes(level):
            return
        if self._bound or not self._switch.json:
            self._write(level, event, decoded(fields()))
            return
        head = f'"timestamp": "{self._clock.now()}", "level": "{level}", "event": {quoted(event)}'
        self._sink.line(f"{{{head}, {fields()}}}")

    def _write(self, level: str, event: str, fields: dict[str, object]) -> None:
        if not self._switch.writes(level):
            return
        fault = fields.pop("exc_info", None)
        if isinstance(fault, BaseException):
            fields["exception"] = "".join(traceback.format_exception(fault)).removesuffix("\n")
        head = {"timestamp": self._clock.now(), "level": level, "event": event}
        self._sink.line(self._switch.line(head, {**self._bound, **fields} if self._bound else fields))


def build_logger(
    format: Format | str,  # noqa: A002  the configuration's word
    level: str,
    stream: TextIO,
    switch: LogSwitch | None = None,
) -> Logger:
    """A logger that writes lines of *level* and above to *stream*.

    Args:
        format: the lines' form.
        level: ``debug``, ``info``, ``warning`` or ``error``.
        stream: where to; one that is a terminal gets text where *format* is ``auto``.
        switch: by which form and level can be changed later.
    """
    switch = switch if switch is not None else LogSwitch(stream)
    switch.set(format, level)
    return Logger(LineSink(stream, lost=switch.lost), switch, {})


class _Clock:
    """Wall-clock time as text, ISO 8601 in UTC: for people, nothing is decided on it.

    The text of a second is kept as long as that second lasts: making it takes longer than the rest of a line's form.
    """

    __slots__ = ("_second", "_text")

    def __init__(self) -> None:
        self._second = -1
        self._text = ""

    def now(self) -> str:
        second, nanoseconds = divmod(time.time_ns(), 10**9)
        if second != self._second:
            self._second = second
            self._text = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
        return f"{self._text}.{nanoseconds // 1000:06d}Z"


def _present(fields: Fields) -> dict[str, object]:
    """*fields* less what is absent."""
    return {key: value for key, value in fields.items() if value is not None}


def to_json(value: object) -> str:
    """*value* as JSON in printable ASCII: every other character comes out as an escape, other types as their text."""
    return _ENCODER.encode(value)


def decoded(fields: str) -> dict[str, object]:
    """The fields of which *fields* is the JSON, without the braces around it."""
    return dict(json.loads(f"{{{fields}}}"))


quoted: Final[Callable[[str], str]] = encode_basestring_ascii  # the JSON of text alone, in a fraction of the time


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("ascii", "backslashreplace")
    return str(value)


_ENCODER: Final = json.JSONEncoder(default=_text)


def _text_line(head: dict[str, str], fields: Fields) -> str:
    line = "".join(f"{head[key]:{width}} " for key, width in (("timestamp", ""), ("level", "<7")) if key in head)
    line += _word(head["event"])
    for key, value in fields.items():
        if key != "exception":
            line += f" {key}={_word(value)}"
    if "exception" in fields:
        # A person reads this: the lines stay lines, marked as part of the event, and are escaped one by one.
        rows = str(fields["exception"]).splitlines()
        line += "".join(f"\n    | {row.encode('unicode_escape').decode()}" for row in rows)
    return line


def _word(value: object) -> str:
    """*value* bare where that is unmistakable, else quoted and escaped."""
    if isinstance(value, (bool, int, float, dict, list, tuple)):
        return to_json(value)
    text = _text(value)
    plain = text.isascii() and text.isprintable() and not any(c in text for c in ' "\\=')
    return text if plain and text else to_json(text)


class _Bucket:
    """How many lines of one reason may still be written, and how many were left out since the last one."""

    __slots__ = ("filled_at", "left_out", "tokens")

    def __init__(self, tokens: float, now: float) -> None:
        self.tokens = tokens
        self.filled_at = now
        self.left_out = 0


class RefusalLog:
    """Lines about refused connections, at most so many a second for each reason, and the last few in any case.

    What is left out is counted: the reason's next line carries the number as ``suppressed``, and :meth:`flush` writes
    it where no line came. So for every reason, after a flush, lines of refusals + ``suppressed`` = refusals.

    Args:
        logger: where lines go.
        per_second: lines for each reason; may be changed at any time.
        clock: monotonic seconds.
        on_suppressed: called for each line left out.
    """

    def __init__(
        self, logger: Logger, *, per_second: int, clock: Callable[[], float], on_suppressed: Callable[[], None]
    ) -> None:
        self._logger = logger
        self.per_second = per_second
        self._clock = clock
        self._on_suppressed = on_suppressed
        now = clock()
        self._buckets = {reason: _Bucket(per_second, now) for reason in Reason}
        self._recent: deque[tuple[float, Reason, Callable[[], Fields]]] = deque(maxlen=_RECENT)

    def refused(self, event: str, reason: Reason, fields: Callable[[], Fields]) -> None:
        """A connection was refused. In a storm nearly all lines are left out: *fields* is called only for one."""
        now = self._clock()
        self._recent.append((now, reason, fields))
        bucket = self._buckets[reason]
        bucket.tokens = min(self.per_second, bucket.tokens + (now - bucket.filled_at) * self.per_second)
        bucket.filled_at = now
        if bucket.tokens < 1:
            bucket.left_out += 1
            self._on_suppressed()
            return
        bucket.tokens -= 1
        left_out, bucket.left_out = bucket.left_out, 0
        self._logger.info(event, reason=reason, **fields(), suppressed=left_out or None)

    def flush(self) -> None:
        """Say what was left out and no line has said yet. Called once a second, and at the end."""
        for reason, bucket in self._buckets.items():
            left_out, bucket.left_out = bucket.left_out, 0
            if left_out:
                self._logger.info("refusals_suppressed", reason=reason, suppressed=left_out)

    def recent(self) -> list[dict[str, object]]:
        """The last 64 refusals, oldest first, logged or not: their fields, and ``seconds_ago``."""
        now = self._clock()
        return [
            {"seconds_ago": round(now - when, 3), "reason": reason, **_present(fields())}
            for when, reason, fields in self._recent
        ]
