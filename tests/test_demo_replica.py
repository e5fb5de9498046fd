import pytest
import trio
import trio.testing

from sidecar.demo.lines import Lines
from sidecar.demo.replica import HOST, Replica, reply


async def dial(port):
    return Lines(await trio.open_tcp_stream(HOST, port))


async def say(lines, text):
    await lines.send(text)
    return await lines.receive()


async def test_commands_are_numbered_over_all_connections(nursery):
    replica = Replica(2, 7)
    port = await nursery.start(replica.serve)
    one, other = await dial(port), await dial(port)
    assert await say(one, "a") == "shard 2, generation 7, command 1"
    assert await say(other, "b") == "shard 2, generation 7, command 2"
    assert await say(one, "c") == reply(2, 7, 3)
    assert (replica.connections, replica.commands) == (2, 3)
    for lines in (one, other):
        lines.close()
    nursery.cancel_scope.cancel()


async def test_another_life_begins_with_an_empty_memory_and_its_connections_go_on(nursery):
    replica = Replica(2, 7)
    lines = await dial(await nursery.start(replica.serve))
    await say(lines, "a")
    replica.begin_anew(8)
    assert await say(lines, "b") == reply(2, 8, 1)
    assert (replica.connections, replica.resets) == (1, 0)
    lines.close()
    nursery.cancel_scope.cancel()


async def test_its_end_is_the_end_of_every_connection(nursery):
    replica = Replica(0, 1)
    port = await nursery.start(replica.serve)
    lines = await dial(port)
    await say(lines, "a")
    replica.end()
    assert await lines.receive() is None
    lines.close()
    with pytest.raises(OSError, match="all attempts"):
        await dial(port)


async def test_a_connection_counts_though_it_never_says_anything(nursery):
    replica = Replica(0, 1)
    port = await nursery.start(replica.serve)
    (await dial(port)).close()
    lines = await dial(port)
    await say(lines, "accepted after it")
    lines.close()
    assert replica.connections == 2
    nursery.cancel_scope.cancel()


async def test_a_connection_that_breaks_leaves_the_others_alone(nursery):
    replica = Replica(0, 1)
    port = await nursery.start(replica.serve)
    broken, whole = await trio.open_tcp_stream(HOST, port), await dial(port)
    broken.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    broken.socket.close()  # by RST
    assert await say(whole, "still there?") == reply(0, 1, 1)
    assert replica.resets == 1
    whole.close()
    nursery.cancel_scope.cancel()
