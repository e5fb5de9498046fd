"""A stream that stalls costs lines and never time."""

from __future__ import annotations

import io
import os

import pytest

from sidecar.line_sink import LineSink


@pytest.fixture
def pipe():
    reading, writing = os.pipe()
    with open(reading, "rb", buffering=0) as reader, open(writing, "w") as writer:
        os.set_blocking(reading, False)
        yield reader, writer


def sink(stream):
    return LineSink(stream, lost=lambda count: f"lost {count}")


def drain(reader):
    data = b""
    while piece := reader.read(1 << 16):
        data += piece
    return data


def test_lines_arrive_whole_and_in_order(pipe):
    reader, writer = pipe
    each = sink(writer)
    for number in range(10):
        each.line(f"line {number}")
    assert drain(reader).decode().splitlines() == [f"line {number}" for number in range(10)]


def test_a_pipe_that_nobody_reads_costs_lines_which_are_counted_exactly(pipe):
    reader, writer = pipe
    each = sink(writer)
    for _ in range(5000):
        each.line("x" * 99)
    arrived = drain(reader).decode().splitlines()
    assert 0 < len(arrived) < 5000
    each.line("again")
    lost, again = drain(reader).decode().splitlines()
    assert lost == f"lost {5000 - len(arrived)}"
    assert again == "again"


def test_a_line_longer_than_a_pipe_takes_at_once_is_written_in_pieces(pipe):
    reader, writer = pipe
    sink(writer).line("x" * 20_000)
    assert drain(reader) == b"x" * 20_000 + b"\n"


def test_a_line_longer_than_the_room_that_is_left_waits_for_nobody(pipe):
    reader, writer = pipe
    each = sink(writer)
    each.line("x" * 1_000_000)
    drain(reader)
    each.line("again")
    assert drain(reader).decode().splitlines()[-2:] == ["lost 1", "again"]


def test_a_reader_that_is_gone_is_borne():
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as writer:
        each = sink(writer)
        each.line("to nobody")
        each.line("to nobody")


def test_a_full_disk_is_borne():
    with open("/dev/full", "w") as full:
        sink(full).line("no room")


def test_a_stream_without_a_descriptor_is_simply_written_to():
    stream = io.StringIO()
    sink(stream).line("here")
    assert stream.getvalue() == "here\n"
    stream.close()
    sink(stream).line("closed")
