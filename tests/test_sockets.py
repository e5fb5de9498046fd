"""Socket options and states, on real sockets."""

import errno
import socket

import pytest
import trio

from sidecar.sockets import (
    abort,
    connect_unix,
    disconnect,
    failure_words,
    give_up_after,
    is_connected_to_itself,
    is_loopback,
    is_unix,
    keep_alive,
    receive_now,
    tcp_counts,
    unsent,
)
from tests.turns import is_reset, tcp


@pytest.fixture
def pair():
    near, far = tcp()
    yield near, far
    near.close()
    far.close()


@pytest.fixture
def unix_pair():
    near, far = socket.socketpair()
    for sock in (near, far):
        sock.setblocking(False)
    yield near, far
    near.close()
    far.close()


def test_the_kernel_is_told_to_ask_a_silent_peer_or_not_to(pair):
    near, _ = pair
    keep_alive(near, 30)
    assert near.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert near.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30
    assert near.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) == 10
    assert near.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    keep_alive(near, None)
    assert not near.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


def test_a_listening_socket_hands_on_what_it_was_told():
    with socket.create_server(("127.0.0.1", 0)) as server:
        keep_alive(server, 20)
        with socket.create_connection(server.getsockname()), server.accept()[0] as accepted:
            assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 20
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


class PodSocket(socket.socket):
    """A TCP socket of a pod: a test has no second host to connect to."""

    host = "10.0.0.7"

    def getsockname(self):
        return (self.host, 7101)


@pytest.mark.parametrize(("host", "milliseconds"), [("10.0.0.7", 12500), ("127.0.0.1", 0), ("127.0.0.9", 0)])
def test_a_peer_on_another_host_has_its_time_and_a_local_one_may_pause_for_ever(host, milliseconds):
    with PodSocket() as sock:
        sock.host = host
        give_up_after(sock, 12.5)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == milliseconds
        give_up_after(sock, None)


def test_only_an_address_of_this_machine_is_loopback():
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert not any(map(is_loopback, ["10.0.0.1", "localhost", "", None]))


def test_a_unix_socket_has_nothing_to_tune_and_an_abort_closes_it(unix_pair, pair):
    near, far = unix_pair
    assert is_unix(near)
    assert not is_unix(pair[0])
    keep_alive(near, 30)
    give_up_after(near, 30)
    assert tcp_counts(near) is None
    abort(near)
    abort(near)  # nothing, the second time
    assert near.fileno() == -1
    assert far.recv(1) == b""


def test_an_abort_is_an_rst_and_does_nothing_the_second_time(pair):
    near, far = pair
    abort(near)
    abort(near)
    assert near.fileno() == -1
    assert is_reset(far)


def test_a_disconnect_ends_the_connection_for_everybody_who_has_it_and_its_peer_gets_an_rst(pair):
    near, far = pair
    with near.dup() as other:
        disconnect(near)
        assert is_reset(far)
        with pytest.raises(OSError, match=r"."):
            other.send(b"x")
        disconnect(near)  # nothing, the second time


def test_a_unix_connection_is_shut_down_instead(unix_pair):
    near, far = unix_pair
    with near.dup() as other:
        disconnect(near)
        assert far.recv(1) == b""
        with pytest.raises(BrokenPipeError):
            other.send(b"x")
    near.close()
    disconnect(near)  # nothing, once it is closed


def test_what_has_come_is_taken_and_nothing_is_waited_for(pair):
    near, far = pair
    assert receive_now(near, 10) is None
    far.send(b"hello")
    assert receive_now(near, 4) == b"hell"
    assert receive_now(near, 4) == b"o"
    abort(far)
    assert receive_now(near, 4) == b"", "one that broke has ended too"


def test_the_kernel_counts_the_payload_and_not_the_ends(pair):
    near, far = pair  # the second was accepted, as all of ours are
    near.send(b"12345")
    far.send(b"123")
    for end in (lambda: None, lambda: near.shutdown(socket.SHUT_WR)):
        end()
        counts = tcp_counts(far)
        assert (counts.received, counts.sent, counts.queued) == (5, 3, 0)
        assert not counts.ended
        assert not counts.over
    far.shutdown(socket.SHUT_WR)
    counts = tcp_counts(far)
    assert counts.over
    assert counts.end_acknowledged
    assert (counts.received, counts.sent) == (6, 3), "nothing tells any more that the last one was the end"


def test_a_connection_that_an_rst_has_ended_is_over_without_our_end_having_been_acknowledged(pair):
    near, far = pair
    near.send(b"12345")
    abort(near)
    counts = tcp_counts(far)
    assert counts.over
    assert not counts.end_acknowledged
    assert counts.received == 5


def test_what_the_kernel_still_holds_is_known():
    near, far = tcp(buffers=16 * 1024)
    with near, far:
        assert unsent(near) == 0
        near.send(bytes(1 << 20))
        assert unsent(near) > 1000


def test_a_connection_to_itself_is_told_from_any_other():
    near, far = tcp()
    with near, far:
        assert not is_connected_to_itself(near)
    with socket.socket() as lonely:
        lonely.bind(("127.0.0.1", 0))
        lonely.connect(lonely.getsockname())
        assert is_connected_to_itself(lonely)


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
