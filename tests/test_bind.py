"""Listening: two families behind one port, left-over Unix sockets, and errors that say what to do."""

from __future__ import annotations

import errno
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from sidecar.bind import Bound, bind
from sidecar.config import HostPort, UnixPath
from sidecar.errors import StartError

WHAT = "listeners.compute.listen"


def port_of(bound: Bound) -> int:
    (port,) = {int(address.rpartition(":")[2]) for address in bound.addresses}
    return port


async def reaches(host: str, bound: Bound) -> bool:
    """Whether a connection to *host* arrives at *bound*."""
    async with trio.open_nursery() as nursery:
        arrived = trio.Event()

        async def accept(listener: trio.SocketListener) -> None:
            async with await listener.accept():
                arrived.set()

        for listener in bound.listeners:
            nursery.start_soon(accept, listener)
        async with await trio.open_tcp_stream(host, port_of(bound)):
            await arrived.wait()
        nursery.cancel_scope.cancel()
    return arrived.is_set()


class Host(trio.abc.SocketFactory):
    """A host that lacks an address family, or whose sockets meet an error at bind."""

    def __init__(self, *, lacks: socket.AddressFamily | None = None) -> None:
        self._lacks = lacks
        self.made: list[trio.socket.SocketType] = []

    def socket(
        self,
        family: int = socket.AF_INET,
        type: int = socket.SOCK_STREAM,  # noqa: A002  trio's name for it
        proto: int = 0,
    ) -> trio.socket.SocketType:
        if family == self._lacks:
            raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")
        self.made.append(trio.socket.from_stdlib_socket(socket.socket(family, type, proto)))
        return self.made[-1]


@pytest.fixture
def taken() -> Iterator[int]:
    """A port of 127.0.0.1 at which a stranger listens."""
    with socket.socket() as stranger:
        stranger.bind(("127.0.0.1", 0))
        stranger.listen()
        yield stranger.getsockname()[1]


# --- TCP


async def test_without_a_host_both_families_share_one_port() -> None:
    async with await bind(HostPort(None, 0), what=WHAT) as bound:
        assert [listener.socket.family for listener in bound.listeners] == [socket.AF_INET, socket.AF_INET6]
        port = port_of(bound)
        assert bound.addresses == (f"0.0.0.0:{port}", f"[::]:{port}")
        assert bound.missing == ()
        for listener in bound.listeners[1:]:
            assert listener.socket.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) == 1
        assert await reaches("127.0.0.1", bound)
        assert await reaches("::1", bound)


@pytest.mark.parametrize(("host", "address"), [("127.0.0.1", "127.0.0.1"), ("::1", "[::1]"), ("::", "[::]")])
async def test_an_address_is_bound_in_its_own_family_alone(host: str, address: str) -> None:
    async with await bind(HostPort(host, 0), what=WHAT) as bound:
        assert bound.addresses == (f"{address}:{port_of(bound)}",)


async def test_a_name_is_bound_at_every_address_that_it_has() -> None:
    async with await bind(HostPort("localhost", 0), what=WHAT) as bound:
        assert await reaches("127.0.0.1", bound)


@pytest.mark.parametrize(
    ("lacks", "name", "left"),
    [(socket.AF_INET6, "IPv6", socket.AF_INET), (socket.AF_INET, "IPv4", socket.AF_INET6)],
)
async def test_a_family_that_the_host_lacks_is_left_out_and_named(
    lacks: socket.AddressFamily, name: str, left: socket.AddressFamily
) -> None:
    trio.socket.set_custom_socket_factory(Host(lacks=lacks))

    async with await bind(HostPort(None, 0), what=WHAT) as bound:
        assert bound.missing == (name,)
        assert [listener.socket.family for listener in bound.listeners] == [left]


async def test_an_explicit_ipv6_address_on_a_host_without_ipv6_is_an_error() -> None:
    trio.socket.set_custom_socket_factory(Host(lacks=socket.AF_INET6))

    with pytest.raises(
        StartError, match=r"^listeners\.compute\.listen: this host has no IPv6, which \[::\]:7101 needs"
    ):
        await bind(HostPort("::", 7101), what=WHAT)


async def test_where_ipv6_is_switched_off_its_wildcard_counts_as_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel would let it be bound."""
    (tmp_path / "if_inet6").touch()
    monkeypatch.setattr("sidecar.bind._IPV6_ADDRESSES", tmp_path / "if_inet6")

    async with await bind(HostPort(None, 0), what=WHAT) as bound:
        assert bound.missing == ("IPv6",)
        assert await reaches("127.0.0.1", bound)
    with pytest.raises(StartError, match=r"this host has no IPv6, which \[::\]:7101 needs"):
        await bind(HostPort("::", 7101), what=WHAT)


async def test_a_host_that_doesnt_list_its_ipv6_addresses_may_have_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sidecar.bind._IPV6_ADDRESSES", tmp_path / "if_inet6")

    async with await bind(HostPort(None, 0), what=WHAT) as bound:
        assert bound.missing == ()


async def test_a_port_that_is_taken_is_an_error_that_says_what_to_do(taken: int) -> None:
    with pytest.raises(StartError) as caught:
        await bind(HostPort("127.0.0.1", taken), what=WHAT)

    assert str(caught.value) == (
        f"{WHAT}: address 127.0.0.1:{taken} is already in use: stop what listens there or change {WHAT}"
    )
    assert isinstance(caught.value.__cause__, OSError)


async def test_a_port_taken_in_one_family_leaves_no_socket_of_the_other_behind() -> None:
    host = Host()
    trio.socket.set_custom_socket_factory(host)
    with socket.socket(socket.AF_INET6) as stranger:
        stranger.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        stranger.bind(("::", 0))
        stranger.listen()

        with pytest.raises(StartError, match="already in use"):
            await bind(HostPort(None, stranger.getsockname()[1]), what=WHAT)

    assert len(host.made) == 2
    assert all(sock.fileno() == -1 for sock in host.made)


async def test_a_chosen_port_that_is_taken_in_the_other_family_is_chosen_again() -> None:
    class Unlucky(Host):
        """The first port that the kernel chooses for IPv4 is taken in IPv6."""

        def socket(
            self,
            family: int = socket.AF_INET,
            type: int = socket.SOCK_STREAM,  # noqa: A002  trio's name for it
            proto: int = 0,
        ) -> trio.socket.SocketType:
            if family == socket.AF_INET6 and len(self.made) == 1:
                self.stranger = socket.socket(socket.AF_INET6)
                self.stranger.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                self.stranger.bind(("::", self.made[0].getsockname()[1]))
                self.stranger.listen()
            return super().socket(family, type, proto)

    host = Unlucky()
    trio.socket.set_custom_socket_factory(host)
    async with await bind(HostPort(None, 0), what=WHAT) as bound:
        with host.stranger:
            assert port_of(bound) != host.stranger.getsockname()[1]
        assert len(bound.listeners) == 2


async def test_an_address_of_another_host_is_an_error() -> None:
    with pytest.raises(StartError, match=r"192\.0\.2\.1:7101 is no address of this host: change listeners"):
        await bind(HostPort("192.0.2.1", 7101), what=WHAT)  # TEST-NET-1, RFC 5737


async def test_a_name_that_doesnt_resolve_is_an_error() -> None:
    class NoNames(trio.abc.HostnameResolver):
        async def getaddrinfo(self, *_args: object, **_kwargs: object) -> list[object]:  # type: ignore[override]
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        async def getnameinfo(self, *_args: object) -> tuple[str, str]:
            raise AssertionError

    trio.socket.set_custom_hostname_resolver(NoNames())

    with pytest.raises(StartError, match=r"sidecar\.invalid can't be resolved \(Name or service not known\)"):
        await bind(HostPort("sidecar.invalid", 7101), what=WHAT)


async def test_a_port_is_free_again_at_once_after_a_life_with_open_connections() -> None:
    bound = await bind(HostPort("127.0.0.1", 0), what=WHAT)
    port = port_of(bound)
    client = await trio.open_tcp_stream("127.0.0.1", port)
    server = await bound.listeners[0].accept()

    await server.aclose()  # the side that closes first is left in TIME_WAIT
    await bound.aclose()
    await client.aclose()

    async with await bind(HostPort("127.0.0.1", port), what=WHAT) as again:
        assert await reaches("127.0.0.1", again)


async def test_closing_stops_listening() -> None:
    bound = await bind(HostPort("127.0.0.1", 0), what=WHAT)
    port = port_of(bound)

    await bound.aclose()

    with pytest.raises(OSError, match="connect"):
        await trio.open_tcp_stream("127.0.0.1", port)


# --- Unix


async def reaches_path(path: Path, bound: Bound) -> bool:
    async with await trio.open_unix_socket(path) as client, await bound.listeners[0].accept() as server:
        await server.send_all(b"x")
        return await client.receive_some(1) == b"x"


async def test_a_unix_socket_is_for_its_owner_alone_unless_said_otherwise(tmp_path: Path) -> None:
    for name, kwargs, mode in (("a", {}, 0o600), ("b", {"mode": 0o660}, 0o660)):
        path = tmp_path / name
        async with await bind(UnixPath(str(path)), what="admin.listen", **kwargs) as bound:
            assert stat.S_IMODE(path.stat().st_mode) == mode
            assert bound.addresses == (f"unix:{path}",)
            assert await reaches_path(path, bound)


async def test_closing_removes_the_sockets_file(tmp_path: Path) -> None:
    path = tmp_path / "admin.sock"

    await (await bind(UnixPath(str(path)), what="admin.listen")).aclose()

    assert not path.exists()


async def test_closing_leaves_a_file_that_somebody_else_has_put_there(tmp_path: Path) -> None:
    path = tmp_path / "admin.sock"
    first = await bind(UnixPath(str(path)), what="admin.listen")
    path.unlink()
    async with await bind(UnixPath(str(path)), what="admin.listen") as second:
        await first.aclose()

        assert await reaches_path(path, second)


async def test_the_socket_that_a_dead_process_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "admin.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
        dead.listen()

    async with await bind(UnixPath(str(path)), what="admin.listen") as bound:
        assert await reaches_path(path, bound)


@pytest.mark.parametrize("queue_is_full", [False, True])
async def test_a_live_listener_is_left_alone(tmp_path: Path, queue_is_full: bool) -> None:
    path = tmp_path / "admin.sock"
    with socket.socket(socket.AF_UNIX) as stranger, socket.socket(socket.AF_UNIX) as waiting:
        stranger.bind(str(path))
        stranger.listen(0)
        if queue_is_full:
            waiting.connect(str(path))
        inode = path.stat().st_ino

        with pytest.raises(StartError, match=rf"address unix:{path} is already in use: stop what listens there"):
            await bind(UnixPath(str(path)), what="admin.listen")

        assert path.stat().st_ino == inode
        stranger.accept()[0].close()


@pytest.mark.parametrize("kind", ["file", "directory", "link to a file"])
async def test_what_is_no_socket_is_left_alone(tmp_path: Path, kind: str) -> None:
    path, target = tmp_path / "admin.sock", tmp_path / "precious"
    target.write_text("data")
    match kind:
        case "file":
            path.write_text("data")
        case "directory":
            path.mkdir()
        case _:
            path.symlink_to(target)
    before = path.lstat()

    with pytest.raises(StartError, match=r"exists and is no socket: remove it or change admin\.listen"):
        await bind(UnixPath(str(path)), what="admin.listen")

    assert path.lstat() == before
    assert target.read_text() == "data"


async def test_a_directory_that_doesnt_exist_is_an_error_that_names_the_path(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "admin.sock"

    with pytest.raises(StartError, match=rf"admin\.listen: can't listen on unix:{path}: No such file or directory"):
        await bind(UnixPath(str(path)), what="admin.listen")


async def test_it_knows_whether_its_file_is_still_there(tmp_path: Path) -> None:
    path, aside = tmp_path / "compute.sock", tmp_path / "aside"
    async with await bind(UnixPath(str(path)), what=WHAT) as bound:
        assert bound.is_there()
        path.chmod(0o666)
        assert bound.is_there()
        path.rename(aside)
        assert not bound.is_there()
        path.symlink_to(aside)
        assert not bound.is_there()
        aside.replace(path)
        assert bound.is_there()


async def test_another_socket_at_its_path_isnt_taken_for_its_own(tmp_path: Path) -> None:
    """Not even on a file system that gives a removed file's inode to the next one: an open socket keeps its own."""
    path = tmp_path / "compute.sock"
    async with await bind(UnixPath(str(path)), what=WHAT) as bound:
        for _ in range(8):
            path.unlink(missing_ok=True)
            async with await bind(UnixPath(str(path)), what=WHAT):
                assert not bound.is_there()


async def test_a_tcp_listener_is_always_there() -> None:
    async with await bind(HostPort("127.0.0.1", 0), what=WHAT) as bound:
        assert bound.is_there()


async def test_a_left_over_stays_where_nothing_may_be_cleared(tmp_path: Path) -> None:
    path = tmp_path / "compute.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    inode = path.stat().st_ino

    with pytest.raises(StartError, match="already in use"):
        await bind(UnixPath(str(path)), what=WHAT, clear_left_over=False)

    assert path.stat().st_ino == inode
    path.unlink()
    async with await bind(UnixPath(str(path)), what=WHAT, clear_left_over=False) as bound:
        assert await reaches_path(path, bound)


async def test_the_socket_of_a_process_that_was_killed_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "compute.sock"
    listens = """
import socket, sys
listening = socket.socket(socket.AF_UNIX)
listening.bind(sys.argv[1])
listening.listen()
print(flush=True)
sys.stdin.read()
"""
    with subprocess.Popen(  # noqa: ASYNC220  nothing else runs meanwhile
        [sys.executable, "-c", listens, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(StartError, match="already in use"):
            await bind(UnixPath(str(path)), what=WHAT)
        process.kill()
        process.wait()
    assert path.is_socket()

    async with await bind(UnixPath(str(path)), what=WHAT) as bound:
        assert await reaches_path(path, bound)
