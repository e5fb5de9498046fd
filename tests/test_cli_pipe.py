import os
from contextlib import contextmanager

import pytest
import trio
import trio.testing

from sidecar.cli.pipe import pipe


@contextmanager
def fd_pipe():
    """A pipe as (file to read, file to write); unbuffered, so that what is written is there."""
    read, write = os.pipe()
    with open(read, "rb", buffering=0) as reader, open(write, "wb", buffering=0) as writer:
        yield reader, writer


@pytest.fixture
def stdin():
    with fd_pipe() as ends:
        yield ends


@pytest.fixture
def stdout():
    with fd_pipe() as ends:
        yield ends


async def test_both_directions_are_copied_and_end_on_their_own(stdin, stdout):
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: pipe(ours, source=stdin[0].fileno(), sink=stdout[1].fileno()))
        await theirs.send_all(b"server speaks first")
        assert await trio.to_thread.run_sync(stdout[0].read, 100) == b"server speaks first"
        await theirs.send_eof()  # and the other direction goes on
        stdin[1].write(b"request")
        assert await theirs.receive_some() == b"request"
        stdin[1].close()
        assert await theirs.receive_some() == b""


async def test_the_answer_to_a_finished_request_still_comes(stdin, stdout):
    ours, theirs = trio.testing.memory_stream_pair()
    stdin[1].close()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: pipe(ours, source=stdin[0].fileno(), sink=stdout[1].fileno()))
        assert await theirs.receive_some() == b""
        await theirs.send_all(b"late")
        await theirs.send_eof()
        assert await trio.to_thread.run_sync(stdout[0].read, 100) == b"late"


async def test_who_leaves_with_the_peer_is_not_held_by_a_source_that_stays_open(stdin, stdout):
    ours, theirs = trio.testing.memory_stream_pair()
    await theirs.send_all(b"goodbye")
    await theirs.send_eof()
    with trio.fail_after(10):
        await pipe(ours, source=stdin[0].fileno(), sink=stdout[1].fileno(), leave_with_peer=True)
    assert await trio.to_thread.run_sync(stdout[0].read, 100) == b"goodbye"


async def test_who_leaves_with_the_peer_still_gets_the_answer_to_a_finished_request(stdin, stdout):
    ours, theirs = trio.testing.memory_stream_pair()
    stdin[1].close()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(lambda: pipe(ours, source=stdin[0].fileno(), sink=stdout[1].fileno(), leave_with_peer=True))
        assert await theirs.receive_some() == b""
        await theirs.send_all(b"late")
        await theirs.send_eof()
        assert await trio.to_thread.run_sync(stdout[0].read, 100) == b"late"


async def test_much_data_through_a_small_pipe_comes_whole(stdin, stdout):
    ours, theirs = trio.testing.memory_stream_pair()
    sent = os.urandom(1 << 20)
    stdin[1].close()
    received = bytearray()

    def drain():
        while chunk := stdout[0].read(4096):
            received.extend(chunk)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.to_thread.run_sync, drain)
        await theirs.send_all(sent)
        await theirs.send_eof()
        await pipe(ours, source=stdin[0].fileno(), sink=stdout[1].fileno())
        stdout[1].close()
    assert received == sent


class BrokenStream(trio.abc.HalfCloseableStream):
    """A connection that was reset."""

    async def send_all(self, data):
        raise trio.BrokenResourceError

    async def wait_send_all_might_not_block(self):
        raise trio.BrokenResourceError

    async def send_eof(self):
        raise trio.BrokenResourceError

    async def receive_some(self, max_bytes=None):
        raise trio.BrokenResourceError

    async def aclose(self):
        pass


async def test_a_broken_connection_ends_it_though_nobody_types(stdin, stdout):
    with pytest.RaisesGroup(trio.BrokenResourceError):
        await pipe(BrokenStream(), source=stdin[0].fileno(), sink=stdout[1].fileno())


async def test_a_reader_that_went_away_ends_it(stdin, stdout):
    ours, theirs = trio.testing.memory_stream_pair()
    stdout[0].close()
    await theirs.send_all(b"for nobody")
    with pytest.RaisesGroup(BrokenPipeError):
        await pipe(ours, source=stdin[0].fileno(), sink=stdout[1].fileno())
