"""What the sidecar writes on stderr, one line an event.

Owns the lines' form, over ``structlog``: JSON for machines, text for a terminal. Both escape what they are given, since
most values come from the wire: a line break in a claim can't forge a second event, and no control character reaches a
terminal. A logger is built and passed in; nothing global is configured, and a stream that can't be written to costs
lines, never a connection (``line_sink``).

``app`` builds a logger, everything from the flow on writes to it.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum, unique
from typing import Final, TextIO, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from sidecar.line_sink import LineSink
from sidecar.reasons import Reason

Logger = FilteringBoundLogger


@unique
class Format(StrEnum):
    """How a line is written."""

    AUTO = "auto"  # text on a terminal, else JSON
    JSON = "json"
    TEXT = "text"


class _Sink(LineSink):
    """Takes finished lines. structlog calls the method named like the level; here all are one."""

    debug = info = warning = error = critical = exception = LineSink.line


class LogSwitch:
    """Form and level of a logger's lines, which a reload may change while the logger is in use.

    Args:
        stream: where the lines go; one that is a terminal gets text where the format is ``auto``.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self._text = False
        self._level = 0

    def set(self, format: Format | str, level: str) -> None:  # noqa: A002  the configuration's word
        """Lines of *level* and above, in this form, from now on."""
        self._text = format == Format.TEXT or (format == Format.AUTO and self.stream.isatty())
        self._level = _LEVELS[level]

    def drop_below(self, _logger: WrappedLogger, name: str, event: EventDict) -> EventDict:
        """The processor that comes first."""
        if _LEVELS.get(name, self._level) < self._level:
            raise structlog.DropEvent
        return event

    def line(self, logger: WrappedLogger, name: str, event: EventDict) -> str:
        """The processor that comes last."""
        return (_text_line if self._text else _json_line)(logger, name, event)

    def lost(self, count: int) -> str:
        """The line that says how many were lost."""
        return _lost_as_text(count) if self._text else _lost_as_json(count)


def build_logger(
    format: Format | str,  # noqa: A002  the configuration's word
    level: str,
    stream: TextIO,
    switch: LogSwitch | None = None,
) -> Logger:
    """A logger that writes lines of *level* and above to *stream*.

    Values may be anything: text as it is, numbers as numbers, and the rest as its ``str``, which is taken only when the
    line is written. Fields that are None are left out.

    Args:
        format: the lines' form.
        level: ``debug``, ``info``, ``warning`` or ``error``.
        stream: where to; one that is a terminal gets text where *format* is ``auto``.
        switch: by which form and level can be changed later.
    """
    switch = switch if switch is not None else LogSwitch(stream)
    switch.set(format, level)
    processors: list[Processor] = [
        switch.drop_below,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        switch.line,
    ]
    proxy = structlog.wrap_logger(
        _Sink(stream, lost=switch.lost),
        processors=processors,
        wrapper_class=structlog.make_filtering_bound_logger("debug"),
        context_class=dict,
    )
    return cast("Logger", proxy.bind())


_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40, "critical": 50, "exception": 40}
_FIRST: Final = ("timestamp", "level", "event")
_RECENT: Final = 64  # refusals that are remembered


def _lost_as_json(count: int) -> str:
    return to_json({"level": "warning", "event": "log_lines_lost", "lines": count})


def _lost_as_text(count: int) -> str:
    return f"{'warning':<7} log_lines_lost lines={count}"


def _in_order(event: EventDict) -> Iterator[tuple[str, object]]:
    """The line's fields: what every line has, then its own, less what is absent."""
    for key in _FIRST:
        yield key, event.pop(key)
    yield from _present(event).items()


def _present(fields: Mapping[str, object]) -> dict[str, object]:
    """*fields* less what is absent."""
    return {key: value for key, value in fields.items() if value is not None}


def to_json(value: object) -> str:
    """*value* as JSON in printable ASCII: every other character comes out as an escape, other types as their text."""
    return _ENCODER.encode(value)


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("ascii", "backslashreplace")
    return str(value)


_ENCODER: Final = json.JSONEncoder(default=_text)


def _json_line(_logger: WrappedLogger, _name: str, event: EventDict) -> str:
    return to_json(dict(_in_order(event)))


def _text_line(_logger: WrappedLogger, _name: str, event: EventDict) -> str:
    traceback = event.pop("exception", None)
    fields = dict(_in_order(event))
    timestamp, level, name = (fields.pop(key) for key in _FIRST)
    line = f"{timestamp} {level:<7} {_word(name)}"
    for key, value in fields.items():
        line += f" {key}={_word(value)}"
    if traceback is not None:
        # A person reads this: the lines stay lines, marked as part of the event, and are escaped one by one.
        line += "".join(f"\n    | {row.encode('unicode_escape').decode()}" for row in str(traceback).splitlines())
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
        self._recent: deque[tuple[float, Reason, dict[str, object]]] = deque(maxlen=_RECENT)

    def refused(self, event: str, reason: Reason, **fields: object) -> None:
        """A connection was refused. Values are turned into text only where a line is written: pass them as they are."""
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
        self._logger.info(event, reason=reason, **fields, suppressed=left_out or None)

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
            {"seconds_ago": round(now - when, 3), "reason": reason, **_present(fields)}
            for when, reason, fields in self._recent
        ]
