"""Taking connections: both ends are named, and errors say whether to try again at once."""

import errno
import socket

import pytest
import trio

from sidecar.accept import AcceptFailed, Acceptor
from tests.names import inet


async def take(listening):
    with Acceptor(listening) as acceptor:
        with trio.fail_after(5):
            await acceptor.wait()
        accepted = acceptor.accept()
        assert acceptor.accept() is None, "nobody else waits"
    return accepted


async def test_both_ends_of_a_tcp_connection_are_named():
    (listening,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listening:
        port = listening.socket.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client:
            accepted = await take(listening)
            with accepted.sock:
                assert accepted.peer == inet(*client.getsockname())
                assert accepted.local == inet("127.0.0.1", port)


async def test_on_all_addresses_the_one_that_was_dialled_is_named():
    (listening,) = await trio.open_tcp_listeners(0, host="0.0.0.0")
    async with listening:
        port = listening.socket.getsockname()[1]
        with socket.create_connection(("127.0.0.2", port)):
            accepted = await take(listening)
            with accepted.sock:
                assert accepted.local == inet("127.0.0.2", port)


async def test_a_peer_that_is_gone_already_is_named_all_the_same():
    (listening,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listening:
        client = socket.create_connection(listening.socket.getsockname())
        name = client.getsockname()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        client.close()
        accepted = await take(listening)
        with accepted.sock:
            assert accepted.peer == inet(*name)


async def test_the_ends_of_a_unix_connection_have_no_name(tmp_path):
    sock = trio.socket.socket(socket.AF_UNIX)
    await sock.bind(str(tmp_path / "s"))
    sock.listen()
    async with trio.SocketListener(sock) as listening, await trio.open_unix_socket(str(tmp_path / "s")):
        accepted = await take(listening)
        with accepted.sock:
            assert (accepted.peer, accepted.local) == (None, None)


async def test_what_is_taken_does_not_block_and_the_listening_socket_stays_open():
    (listening,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listening:
        for _ in range(2):
            with socket.create_connection(listening.socket.getsockname()):
                accepted = await take(listening)
                with accepted.sock, pytest.raises(BlockingIOError):
                    accepted.sock.recv(1)


class FailingSocket:
    def __init__(self, number):
        self._number = number

    def _accept(self):
        raise OSError(self._number, "no")


@pytest.mark.parametrize(
    ("number", "exhausted"),
    [
        (errno.EMFILE, True),
        (errno.ENFILE, True),
        (errno.ENOMEM, True),
        (errno.ENOBUFS, True),
        (errno.ECONNABORTED, False),
        (errno.EPROTO, False),
    ],
)
async def test_an_error_says_whether_something_has_run_out(number, exhausted):
    (listening,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listening:
        with Acceptor(listening) as acceptor:
            real, acceptor._listening = acceptor._listening, FailingSocket(number)
            with pytest.raises(AcceptFailed) as caught:
                acceptor.accept()
            acceptor._listening = real
    assert caught.value.exhausted == exhausted
    assert caught.value.error.errno == number
