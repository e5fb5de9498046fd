"""Socket options and states, on real sockets."""

import errno
import socket

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from sidecar.sockets import (
    abort,
    connect_unix,
    failure_words,
    is_connected_to_itself,
    is_reset,
    tune,
    unsent,
)
from tests.wires import closed, tcp_pair


async def test_the_kernel_is_told_to_notice_a_silent_peer():
    near, far = await tcp_pair()
    async with near, far:
        tune(near, keepalive=30, user_timeout=12.5)
        sock = near.socket
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30
        tune(far, keepalive=None, user_timeout=None)
        assert not far.socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


class RecordingSocket:
    """A TCP socket of a pod: its options are kept, since a test has no second host to connect to."""

    family = socket.AF_INET

    def __init__(self, host):
        self._host = host
        self.options = {}

    def getsockname(self):
        return (self._host, 7101)

    def setsockopt(self, level, name, value):
        self.options[level, name] = value


class RecordingStream:
    def __init__(self, host):
        self.socket = RecordingSocket(host)


@pytest.mark.parametrize(("host", "milliseconds"), [("10.0.0.7", 12500), ("127.0.0.1", None), ("127.0.0.9", None)])
async def test_a_peer_on_another_host_has_its_time_and_a_local_one_may_pause_for_ever(host, milliseconds):
    stream = RecordingStream(host)
    tune(stream, keepalive=None, user_timeout=12.5)
    assert stream.socket.options.get((socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)) == milliseconds


async def test_a_unix_socket_has_nothing_to_tune_and_an_abort_closes_it():
    near, far = (trio.SocketStream(trio.socket.from_stdlib_socket(sock)) for sock in socket.socketpair())
    async with near, far:
        tune(near, keepalive=30, user_timeout=30)
        abort(near)
        abort(near)  # nothing, the second time
        assert closed(near)
        assert await far.receive_some() == b""


async def test_an_abort_is_an_rst_and_does_nothing_the_second_time():
    near, far = await tcp_pair()
    async with near, far:
        abort(near)
        abort(near)
        assert closed(near)
        with pytest.raises(trio.BrokenResourceError):
            await far.receive_some()


async def test_a_reset_shows_while_bytes_before_it_are_unread():
    near, far = await tcp_pair()
    async with near, far:
        await far.send_all(b"unread")
        assert not is_reset(near)
        abort(far)
        assert is_reset(near)


async def test_an_end_in_order_is_no_reset_even_in_both_directions_with_bytes_unread():
    near, far = await tcp_pair()
    async with near, far:
        await far.send_all(b"unread")
        await far.aclose()
        await near.send_eof()
        await wait_all_tasks_blocked(0.05)
        assert not is_reset(near)
        assert await near.receive_some() == b"unread"


async def test_what_the_kernel_still_holds_is_known():
    near, far = await tcp_pair(buffers=16 * 1024)
    async with near, far:
        assert unsent(near) == 0
        with trio.move_on_after(0.1):
            await near.send_all(bytes(1 << 20))
        assert unsent(near) > 1000


async def test_a_connection_to_itself_is_told_from_any_other():
    near, far = await tcp_pair()
    async with near, far:
        assert not is_connected_to_itself(near)
    with socket.socket() as lonely:
        lonely.bind(("127.0.0.1", 0))
        lonely.connect(lonely.getsockname())
        async with trio.SocketStream(trio.socket.from_stdlib_socket(lonely)) as stream:
            assert is_connected_to_itself(stream)


async def test_a_unix_socket_whose_queue_is_full_is_waited_for(tmp_path):
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(0)
        async with await connect_unix(path):
            with trio.move_on_after(0.1):
                await connect_unix(path)
                pytest.fail("its queue holds one, and that one is in it")
            server.accept()[0].close()
            with trio.fail_after(5):
                async with await connect_unix(path) as stream:
                    assert stream.socket.getpeername() == path


async def test_a_unix_socket_that_nobody_listens_on_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        await connect_unix(str(tmp_path / "gone"))


class TwoAddresses(trio.abc.HostnameResolver):
    """Every name has two."""

    async def getaddrinfo(self, host, port, *_args, **_kwargs):
        return [
            (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (each, port))
            for each in ("127.0.0.1", "127.0.0.2")
        ]

    async def getnameinfo(self, *_args):
        raise AssertionError


async def test_a_dial_of_several_addresses_that_fail_alike_says_it_once():
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    trio.socket.set_custom_hostname_resolver(TwoAddresses())
    with pytest.raises(OSError, match="all attempts") as caught:
        await trio.open_tcp_stream("replica-a-2", port)
    assert failure_words(caught.value) == "Connection refused"


def test_each_reason_of_a_dial_that_failed_in_several_ways_is_said():
    error = OSError("all attempts to connect failed")
    error.__cause__ = ExceptionGroup(
        "",
        [
            OSError(errno.EADDRNOTAVAIL, "Error connecting to ('::1', 7101, 0, 0): ..."),
            ConnectionRefusedError(errno.ECONNREFUSED, "Error connecting to ('127.0.0.1', 7101): ..."),
        ],
    )
    assert failure_words(error) == "Cannot assign requested address; Connection refused"


def test_an_error_that_has_no_number_of_the_kernels_keeps_its_own_words():
    assert failure_words(socket.gaierror(socket.EAI_NONAME, "Name or service not known")) == "Name or service not known"
    assert failure_words(OSError("closed meanwhile")) == "closed meanwhile"
