"""Dialling the local process, and what is said where it doesn't answer."""

import socket

import pytest
import trio

from sidecar.config import HostPort, UnixPath
from sidecar.upstream import UpstreamUnavailable, connect


async def test_a_tcp_address_is_dialled():
    with socket.create_server(("127.0.0.1", 0)) as server:
        async with await connect(HostPort("127.0.0.1", server.getsockname()[1])) as stream:
            assert isinstance(stream, trio.SocketStream)


async def test_a_unix_path_is_dialled(tmp_path):
    path = tmp_path / "process.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        async with await connect(UnixPath(str(path))) as stream:
            assert stream.socket.family == socket.AF_UNIX


async def test_nobody_listening_is_said_with_the_address_in_the_kernels_words():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(UpstreamUnavailable, match=rf"^127\.0\.0\.1:{port}: Connection refused$"):
        await connect(HostPort("127.0.0.1", port))


async def test_a_path_without_a_socket_is_said(tmp_path):
    with pytest.raises(UpstreamUnavailable, match=r"^unix:.*gone: No such file or directory$"):
        await connect(UnixPath(str(tmp_path / "gone")))


async def test_a_name_that_does_not_resolve_is_said(monkeypatch):
    class NoNames(trio.abc.HostnameResolver):
        async def getaddrinfo(self, *_args, **_kwargs):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        async def getnameinfo(self, *_args):
            raise AssertionError

    trio.socket.set_custom_hostname_resolver(NoNames())
    with pytest.raises(UpstreamUnavailable, match=r"^replica\.invalid:1: Name or service not known$"):
        await connect(HostPort("replica.invalid", 1))
