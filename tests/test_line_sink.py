"""A stream that stalls costs lines and never time."""

from __future__ import annotations

import io
import os
import socket

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


def test_a_line_longer_than_the_room_that_is_left_is_cut_off_and_the_next_ones_are_whole(pipe):
    reader, writer = pipe
    each = sink(writer)
    each.line("x" * 1_000_000)
    cut_off = drain(reader)
    assert set(cut_off) == {ord("x")}
    each.line("again")
    assert drain(reader).decode().splitlines() == ["", "lost 1", "again"]


def test_a_terminal_that_nobody_reads_costs_lines_and_no_time():
    master, terminal = os.openpty()
    with open(terminal, "w") as stream:
        each = sink(stream)
        for _ in range(5000):
            each.line("x" * 99)
        assert os.get_blocking(terminal), "others who write there go on as before"
        assert each._lost > 0
    os.close(master)


def test_a_socket_that_nobody_reads_costs_lines_and_no_time():
    ours, theirs = socket.socketpair()
    with ours, theirs, ours.makefile("w") as stream:
        each = sink(stream)
        for _ in range(50_000):
            each.line("x" * 99)
        assert each._lost > 0


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


def test_a_regular_file_is_written_where_it_stands_and_holds_every_line(tmp_path):
    with open(tmp_path / "log", "w+") as stream:
        stream.write("before\n")
        stream.flush()
        each = sink(stream)
        for number in range(3):
            each.line(f"{number} " + "x" * 10_000)
        stream.seek(0)
        lines = stream.read().splitlines()
    assert [line[:6].rstrip(" x") for line in lines] == ["before", "0", "1", "2"]
    assert {len(line) for line in lines[1:]} == {10_002}
