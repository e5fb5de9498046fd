import pytest
import trio

from sidecar.demo.lines import Lines


@pytest.fixture
async def ends():
    """Both ends of one TCP connection."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        near = await trio.open_tcp_stream(*listener.socket.getsockname())
        async with near, await listener.accept() as far:
            yield near, far


async def test_a_line_arrives_as_it_was_sent(ends):
    near, far = map(Lines, ends)
    await near.send("one")
    await near.send("")
    assert [await far.receive(), await far.receive()] == ["one", ""]


async def test_lines_are_found_wherever_the_stream_is_cut(ends):
    near, far = ends
    lines = Lines(far)
    await near.send_all(b"one\ntwo\nthr")
    assert [await lines.receive(), await lines.receive()] == ["one", "two"]
    await near.send_all(b"ee\n")
    assert await lines.receive() == "three"


async def test_the_end_is_none_and_half_a_line_is_none(ends):
    near, far = ends
    await near.send_all(b"half")
    Lines(near).close()
    assert await Lines(far).receive() is None


async def test_bytes_that_are_no_text_do_not_stop_a_line(ends):
    near, far = ends
    await near.send_all(b"\xff\n")
    assert await Lines(far).receive() == "\\xff"
