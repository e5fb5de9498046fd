"""Log lines: one event is one line whatever it carries, and what the rate limit leaves out is counted."""

from __future__ import annotations

import io
import json
import re
import time
from collections import Counter
from datetime import UTC, datetime
from functools import partial

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from sidecar.identity import Identity
from sidecar.log import Logger, RefusalLog, build_logger, to_json
from sidecar.reasons import Reason


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    """Monotonic seconds that pass only when told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Broken(io.StringIO):
    """A stream whose other end is gone."""

    def write(self, _text: str) -> int:
        raise BrokenPipeError


def json_lines(stream: io.StringIO) -> list[dict[str, object]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


# --- the form of a line


def test_a_line_begins_with_when_how_bad_and_what() -> None:
    stream = io.StringIO()

    build_logger("json", "info", stream).info("connection_ended", end="idle")

    (line,) = json_lines(stream)
    assert list(line) == ["timestamp", "level", "event", "end"]
    assert (line["level"], line["event"], line["end"]) == ("info", "connection_ended", "idle")


def test_times_are_iso_8601_in_utc() -> None:
    stream = io.StringIO()
    before = datetime.now(UTC)

    build_logger("json", "info", stream).info("x")

    (line,) = json_lines(stream)
    assert str(line["timestamp"]).endswith("Z")
    assert before <= datetime.fromisoformat(str(line["timestamp"])) <= datetime.now(UTC)


def test_values_are_written_as_their_own_text_and_absent_ones_not_at_all() -> None:
    stream = io.StringIO()
    log = build_logger("json", "info", stream).bind(listener="compute")

    log.info(
        "x", own=Identity("prod-eu", "replica-a", 2), reason=Reason.DRAINING, raw=b"a\xff", bytes_up=2**60, claim=None
    )

    (line,) = json_lines(stream)
    assert {key: line[key] for key in list(line)[3:]} == {
        "listener": "compute",
        "own": "prod-eu/replica-a/2",
        "reason": "draining",
        "raw": "a\\xff",
        "bytes_up": 2**60,
    }


def test_a_terminal_gets_text_and_everything_else_json() -> None:
    terminal, pipe = Terminal(), io.StringIO()

    for stream in (terminal, pipe):
        build_logger("auto", "info", stream).info("started", listener="compute", seconds=0.5, peer="")

    assert terminal.getvalue().endswith(' info    started listener=compute seconds=0.5 peer=""\n')
    assert json_lines(pipe)[0]["event"] == "started"


@pytest.mark.parametrize(("format_", "first"), [("json", "{"), ("text", "2")])
def test_a_format_that_is_asked_for_holds_on_any_stream(format_: str, first: str) -> None:
    for stream in (Terminal(), io.StringIO()):
        build_logger(format_, "info", stream).info("x")
        assert stream.getvalue().startswith(first)


def test_lines_below_the_level_are_left_out() -> None:
    stream = io.StringIO()
    log = build_logger("json", "warning", stream)

    log.info("no")
    log.warning("yes")

    assert [line["event"] for line in json_lines(stream)] == ["yes"]


def test_two_loggers_have_nothing_in_common() -> None:
    one, other = io.StringIO(), io.StringIO()
    first, second = build_logger("json", "info", one), build_logger("text", "error", other)

    first.info("mine")
    second.info("not shown")

    assert len(json_lines(one)) == 1
    assert other.getvalue() == ""


# --- the same line in other ways

values = st.one_of(
    st.none(), st.text(), st.binary(), st.integers(), st.floats(allow_nan=False), st.just(Identity("a", "b", 1))
)
fields = st.dictionaries(st.sampled_from(["peer", "claim", "own", "seconds"]), values)
LEVELS = ["debug", "info", "warning", "error"]


def without_time(text: str) -> str:
    return re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z", "T", text, count=1)


@given(st.sampled_from(LEVELS), fields, st.booleans())
def test_a_line_is_the_one_that_structlogs_processors_make(level: str, fields: dict[str, object], faulty: bool) -> None:
    if faulty:
        fields["exc_info"] = ValueError("bad")
    stream = io.StringIO()
    event: structlog.typing.EventDict = {"event": "x", **fields}
    for processor in (
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ):
        event = processor(None, level, event)
    first = {key: event.pop(key) for key in ("timestamp", "level", "event")}
    theirs = to_json(first | {key: value for key, value in event.items() if value is not None})

    getattr(build_logger("json", "debug", stream), level)("x", **fields)

    assert without_time(stream.getvalue()) == without_time(theirs + "\n")


@pytest.mark.parametrize("form", ["json", "text"])
@pytest.mark.parametrize("bound", [{}, {"shard": 'a "quoted" word'}])
@given(fields=fields.map(lambda fields: {"listener": "compute", **fields}))
def test_fields_that_come_as_json_make_the_same_line(
    form: str, bound: dict[str, object], fields: dict[str, object]
) -> None:
    one, other = io.StringIO(), io.StringIO()
    encoded = to_json({key: value for key, value in fields.items() if value is not None})[1:-1]

    build_logger(form, "info", one).bind(**bound).info("x", **fields)
    build_logger(form, "info", other).bind(**bound).encoded("info", "x", lambda: encoded)

    assert without_time(one.getvalue()) == without_time(other.getvalue())


def test_fields_that_come_as_json_are_made_only_for_a_line() -> None:
    build_logger("json", "info", io.StringIO()).encoded("debug", "x", lambda: pytest.fail("nobody reads it"))


@pytest.mark.parametrize("nanoseconds", [0, 999, 1_000, 999_999_999, 1_700_000_000_123_456_789])
def test_a_time_has_its_second_and_six_digits_after_it(monkeypatch: pytest.MonkeyPatch, nanoseconds: int) -> None:
    stream = io.StringIO()
    log = build_logger("json", "info", stream)
    for later in (0, 10**9, 0):
        monkeypatch.setattr(time, "time_ns", lambda: nanoseconds + later)  # noqa: B023  used at once
        log.info("x")

    shown = [str(line["timestamp"]) for line in json_lines(stream)]
    second, rest = divmod(nanoseconds, 10**9)
    expected = [datetime.fromtimestamp(second + later, UTC).replace(microsecond=rest // 1000) for later in (0, 1, 0)]
    assert shown == [f"{each:%Y-%m-%dT%H:%M:%S.%f}Z" for each in expected]


# --- what comes from the wire


@pytest.mark.parametrize("format_", ["json", "text"])
def test_a_value_with_control_bytes_stays_on_its_line_and_off_the_terminal(format_: str) -> None:
    stream = io.StringIO()
    value = 'x\r\n{"event": "admitted"}\x1b[31m\x07\x7f\x9b\u2028'

    build_logger(format_, "info", stream).info("refused", claim=value, raw=value.encode(), parts={"identity": value})

    assert stream.getvalue().count("\n") == 1
    assert "\\r\\n" in stream.getvalue()


@given(st.one_of(st.text(), st.binary()), st.sampled_from(["json", "text"]))
def test_any_value_makes_one_line_of_printable_ascii(value: str | bytes, format_: str) -> None:
    stream = io.StringIO()

    build_logger(format_, "info", stream).info("refused", claim=value, more=[value], event_="x")

    line, end, rest = stream.getvalue().partition("\n")
    assert (end, rest) == ("\n", "")
    assert line.isascii()
    assert line.isprintable()


@given(st.text())
def test_a_value_in_a_json_line_reads_back_as_it_was(value: str) -> None:
    stream = io.StringIO()

    build_logger("json", "info", stream).info("refused", claim=value)

    assert json_lines(stream)[0]["claim"] == value


@given(st.text())
def test_a_value_in_a_text_line_cant_be_taken_for_another_field(value: str) -> None:
    stream = io.StringIO()

    build_logger("text", "info", stream).info("refused", claim=value, reason="draining")

    shown = stream.getvalue().partition(" claim=")[2].removesuffix(" reason=draining\n")
    assert shown == value or json.loads(shown) == value
    assert shown.startswith('"') or not set(shown) & set(' "=')


def test_a_traceback_stays_readable_and_its_lines_belong_to_the_event() -> None:
    stream = io.StringIO()
    log = build_logger("text", "info", stream)

    try:
        raise ValueError("bad \x1b[2J\n2026-01-01T00:00:00Z info    admitted")
    except ValueError:
        log.exception("internal_error")

    head, *rest = stream.getvalue().splitlines()
    assert head.endswith("error   internal_error")
    assert rest
    assert all(row.startswith("    | ") for row in rest)
    assert "\x1b" not in stream.getvalue()


def test_a_traceback_in_json_is_one_field_of_one_line() -> None:
    stream = io.StringIO()

    try:
        raise ValueError("bad")
    except ValueError:
        build_logger("json", "info", stream).exception("internal_error")

    (line,) = json_lines(stream)
    assert "ValueError: bad" in str(line["exception"])


@pytest.mark.parametrize("stream", [Broken(), io.StringIO()], ids=["broken pipe", "closed"])
def test_a_stream_that_takes_no_more_lines_is_no_error(stream: io.StringIO) -> None:
    log = build_logger("json", "info", stream)
    if not isinstance(stream, Broken):
        stream.close()

    log.info("said to nobody")

    assert stream.closed or isinstance(stream, Broken)


def test_json_for_pages_is_printable_ascii_too() -> None:
    assert to_json({"peer": "\x1bé", "own": Identity("a", "b", 1)}) == '{"peer": "\\u001b\\u00e9", "own": "a/b/1"}'


# --- the rate limit on refusals


def test_a_refusal_that_leaves_no_line_isnt_put_into_words() -> None:
    refusals = Refusals(per_second=0)
    refusals.log.refused("connection_refused", Reason.FENCED, lambda: pytest.fail("nobody reads it"))
    assert refusals.left_out == 1


class Refusals:
    """A RefusalLog, what it wrote, and what it said that it left out."""

    def __init__(self, per_second: int = 10) -> None:
        self.stream = io.StringIO()
        self.clock = Clock()
        self.left_out = 0
        logger: Logger = build_logger("json", "info", self.stream)
        self.log = RefusalLog(logger, per_second=per_second, clock=self.clock, on_suppressed=self._count)

    def _count(self) -> None:
        self.left_out += 1

    def refuse(self, times: int, reason: Reason = Reason.GENERATION_STALE) -> None:
        for _ in range(times):
            self.log.refused("connection_refused", reason, lambda: {"peer": "10.0.0.7:41000"})

    def lines(self, event: str = "connection_refused") -> list[dict[str, object]]:
        return [line for line in json_lines(self.stream) if line["event"] == event]

    def accounted(self) -> Counter[str]:
        """By reason: lines, and what lines say was left out."""
        counted: Counter[str] = Counter()
        for line in json_lines(self.stream):
            suppressed = line.get("suppressed", 0)
            assert isinstance(suppressed, int)
            counted[str(line["reason"])] += (line["event"] == "connection_refused") + suppressed
        return counted


def test_a_storm_of_one_reason_makes_few_lines_and_an_exact_count() -> None:
    refusals = Refusals(per_second=10)

    refusals.refuse(1000)
    refusals.log.flush()

    assert len(refusals.lines()) == 10
    assert refusals.lines("refusals_suppressed")[0]["suppressed"] == refusals.left_out == 990
    assert refusals.accounted() == {"generation_stale": 1000}


def test_the_next_line_says_what_was_left_out_before_it() -> None:
    refusals = Refusals(per_second=1)
    refusals.refuse(4)

    refusals.clock.now += 1
    refusals.refuse(1)

    first, second = refusals.lines()
    assert "suppressed" not in first
    assert second["suppressed"] == 3


def test_what_a_line_has_said_is_not_said_again() -> None:
    refusals = Refusals(per_second=1)
    refusals.refuse(4)
    refusals.clock.now += 1
    refusals.refuse(1)

    refusals.log.flush()
    refusals.log.flush()

    assert refusals.lines("refusals_suppressed") == []
    assert refusals.accounted() == {"generation_stale": 5}


def test_a_flood_of_one_reason_hides_no_other() -> None:
    refusals = Refusals(per_second=2)
    refusals.refuse(500, Reason.PREFACE_MISSING)

    refusals.refuse(1, Reason.INTERNAL_ERROR)

    assert [line["reason"] for line in refusals.lines()] == ["preface_missing", "preface_missing", "internal_error"]


def test_a_quiet_time_saves_up_one_second_of_lines_and_no_more() -> None:
    refusals = Refusals(per_second=3)
    refusals.clock.now += 3600

    refusals.refuse(100)

    assert len(refusals.lines()) == 3


def test_no_lines_at_all_still_leaves_the_counts() -> None:
    refusals = Refusals(per_second=0)

    refusals.refuse(5)
    refusals.log.flush()

    assert refusals.lines() == []
    assert refusals.accounted() == {"generation_stale": 5}


@given(
    st.integers(0, 5),
    st.lists(
        st.one_of(st.sampled_from([Reason.DRAINING, Reason.FENCED]), st.floats(0, 2), st.just("flush")),
        max_size=60,
    ),
)
def test_lines_and_left_out_counts_add_up_to_every_refusal(per_second: int, happenings: list[object]) -> None:
    refusals = Refusals(per_second)
    refused: Counter[str] = Counter()

    for happening in happenings:
        if isinstance(happening, Reason):
            refusals.refuse(1, happening)
            refused[happening.value] += 1
        elif isinstance(happening, float):
            refusals.clock.now += happening
        else:
            refusals.log.flush()
    refusals.log.flush()

    assert refusals.accounted() == refused
    assert len(refusals.lines()) + refusals.left_out == refused.total()


def test_the_last_refusals_are_remembered_whether_logged_or_not() -> None:
    refusals = Refusals(per_second=1)
    for port in range(100):
        fields = {"peer": f"10.0.0.7:{port}", "claim": None}
        refusals.log.refused("connection_refused", Reason.DRAINING, partial(dict, fields))
    refusals.clock.now += 2.5

    recent = refusals.log.recent()

    assert [entry["peer"] for entry in recent] == [f"10.0.0.7:{port}" for port in range(36, 100)]
    assert recent[-1] == {"seconds_ago": 2.5, "reason": Reason.DRAINING, "peer": "10.0.0.7:99"}
