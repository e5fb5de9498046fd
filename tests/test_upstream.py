"""Dialling the local process, and what is said where it doesn't answer."""

import socket

import pytest
import trio

from sidecar.config import HostPort, UnixPath
from sidecar.upstream import UpstreamUnavailable, connect, connect_now


async def test_a_tcp_address_is_dialled():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = HostPort("127.0.0.1", server.getsockname()[1])
        for sock in (await connect(address), connect_now(address)):
            with sock:
                assert sock.getpeername() == server.getsockname()
                with pytest.raises(BlockingIOError):
                    sock.recv(1)


async def test_a_unix_path_is_dialled(tmp_path):
    path = tmp_path / "process.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        for sock in (await connect(UnixPath(str(path))), connect_now(UnixPath(str(path)))):
            with sock:
                assert sock.getpeername() == str(path)


async def test_nobody_listening_is_said_with_the_address_in_the_kernels_words():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(UpstreamUnavailable, match=rf"^127\.0\.0\.1:{port}: Connection refused$"):
        await connect(HostPort("127.0.0.1", port))
    with pytest.raises(UpstreamUnavailable, match=rf"^127\.0\.0\.1:{port}: Connection refused$"):
        connect_now(HostPort("127.0.0.1", port))


async def test_a_path_without_a_socket_is_said(tmp_path):
    with pytest.raises(UpstreamUnavailable, match=r"^unix:.*gone: No such file or directory$"):
        await connect(UnixPath(str(tmp_path / "gone")))
    with pytest.raises(UpstreamUnavailable, match=r"^unix:.*gone: No such file or directory$"):
        connect_now(UnixPath(str(tmp_path / "gone")))


def test_what_must_be_resolved_or_is_far_away_or_has_a_full_queue_is_not_there_at_once(tmp_path):
    assert connect_now(HostPort("localhost", 1)) is None
    assert connect_now(HostPort("192.0.2.1", 1)) is None
    path = tmp_path / "process.sock"
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as first:
        server.bind(str(path))
        server.listen(0)
        first.connect(str(path))
        assert connect_now(UnixPath(str(path))) is None


async def test_a_name_that_does_not_resolve_is_said(monkeypatch):
    class NoNames(trio.abc.HostnameResolver):
        async def getaddrinfo(self, *_args, **_kwargs):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        async def getnameinfo(self, *_args):
            raise AssertionError

    trio.socket.set_custom_hostname_resolver(NoNames())
    with pytest.raises(UpstreamUnavailable, match=r"^replica\.invalid:1: Name or service not known$"):
        await connect(HostPort("replica.invalid", 1))
