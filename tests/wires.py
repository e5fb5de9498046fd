"""Connected sockets for tests of what needs real ones: an RST, a half-close and a full buffer are the kernel's."""

from __future__ import annotations

import socket

import trio


async def tcp_pair(*, buffers: int | None = None) -> tuple[trio.SocketStream, trio.SocketStream]:
    """Two ends of one TCP connection over loopback; *buffers*: bytes for each of the four socket buffers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        if buffers is not None:  # before connecting, so that the window is never announced larger
            server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffers)
        near = trio.socket.socket()
        if buffers is not None:
            near.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffers)
            near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffers)
        await near.connect(server.getsockname())
        accepted, _ = server.accept()
    far = trio.socket.from_stdlib_socket(accepted)
    if buffers is not None:
        far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, buffers)
    return trio.SocketStream(near), trio.SocketStream(far)


async def receive_all(stream: trio.SocketStream) -> bytes:
    """Everything up to the end of the stream. Raises BrokenResourceError where an RST comes first."""
    return b"".join([bytes(data) async for data in stream])


async def is_reset(stream: trio.SocketStream) -> bool:
    """Whether the stream breaks off by an RST, after whatever still comes; False: it ends in order."""
    try:
        await receive_all(stream)
    except trio.BrokenResourceError as error:
        return isinstance(error.__cause__, ConnectionResetError)
    return False


def plain(stream: trio.SocketStream) -> socket.socket:
    """The same connection as a socket that doesn't block and that trio knows nothing of."""
    sock = socket.socket(fileno=stream.socket.detach())
    sock.setblocking(False)
    return sock


def closed(sock: socket.socket) -> bool:
    """Whether our end was closed."""
    return sock.fileno() == -1
