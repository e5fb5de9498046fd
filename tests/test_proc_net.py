"""Who listens, from the kernel's own tables: the rows' format, and looks at real sockets of other processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.config import HostPort, UnixPath
from sidecar.proc_net import ListeningTcp, Look, can_be_seen, parse_tcp, parse_unix

# As Linux prints them on a little-endian machine.
TCP = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:0835 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 824162 1 0000000067a1473a 100 0 0 10 0
  11: 00000000:07E8 00000000:0000 0A 00000000:00000000 00:00000000 00000000 65534        0 1173 2 00000000b1dffbfa 100 0 0 10 0
   2: 0100007F:0835 0100007F:9CA9 01 00000000:00000000 02:000A7214 00000000     0        0 824163 1 000000005c6954b4 20 4 30 10 -1
"""  # noqa: E501  as they are, but for the blanks at their ends
TCP6 = """\
  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000001000000:0835 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 31 1 0000000000000000 100 0 0 10 0
   1: 00000000000000000000000000000000:0835 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 32 1 0000000000000000 100 0 0 10 0
   2: 0000000000000000FFFF00000100007F:0835 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 33 1 0000000000000000 100 0 0 10 0
   3: B80D0120000000000000000001000000:0835 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 34 1 0000000000000000 100 0 0 10 0
"""  # noqa: E501
UNIX = """\
Num       RefCount Protocol Flags    Type St Inode Path
00000000f12626c8: 00000003 00000000 00000000 0001 03 824158
0000000066a9efb6: 00000002 00000000 00010000 0001 01 20131 /run/app/app.sock
00000000cfff0442: 00000002 00000000 00010000 0001 01  1170 @abstract
00000000cfff0443: 00000002 00000000 00010000 0005 01  1171 /run/seqpacket.sock
00000000cfff0444: 00000002 00000000 00000000 0002 01  1172 /run/datagram.sock
00000000cfff0445: 00000003 00000000 00000000 0001 03  1173 /run/app/accepted.sock
00000000cd7900b3: 00000002 00000000 00010000 0001 01    77 /run/a name with blanks
"""

only_little_endian = pytest.mark.skipif(sys.byteorder != "little", reason="the rows are a little-endian machine's")

LISTENS = """
import socket, sys
family, address = getattr(socket, sys.argv[1]), sys.argv[2]
listening = socket.socket(family)
if family == socket.AF_INET6:
    listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
listening.bind(address if family == socket.AF_UNIX else (address, 0))
listening.listen()
print("" if family == socket.AF_UNIX else listening.getsockname()[1], flush=True)
sys.stdin.read()
"""


@contextmanager
def stranger(family: str, address: str, cwd: Path | None = None) -> Iterator[int]:
    """Another process that listens at *address*, on a port of the kernel's choice, which this gives."""
    command = [sys.executable, "-c", LISTENS, family, address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=cwd) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            yield int(line.strip() or 0)
        finally:
            process.stdin.close()


def own(host: str) -> socket.socket:
    return socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET)


# --- the rows


@only_little_endian
def test_the_sockets_that_listen_are_read_and_no_others() -> None:
    assert list(parse_tcp(TCP.splitlines(keepends=True))) == [
        ListeningTcp(IPv4Address("127.0.0.1"), 2101, 824162),
        ListeningTcp(IPv4Address("0.0.0.0"), 2024, 1173),
    ]


@only_little_endian
def test_ipv6_addresses_are_read_word_by_word_and_mapped_ones_as_ipv4() -> None:
    found = list(parse_tcp(TCP6.splitlines(keepends=True)))
    assert [str(each.address) for each in found] == ["::1", "::", "127.0.0.1", "2001:db8::1"]
    assert {each.port for each in found} == {2101}
    assert [each.inode for each in found] == [31, 32, 33, 34]


def test_stream_sockets_that_listen_at_a_path_are_read_and_no_others() -> None:
    found = list(parse_unix(UNIX.splitlines(keepends=True)))
    assert [(each.path, each.inode) for each in found] == [
        ("/run/app/app.sock", 20131),
        ("/run/a name with blanks", 77),
    ]


def row(address: IPv4Address | IPv6Address, port: int, inode: int, *, state: int = 0x0A) -> str:
    """A row as the kernel prints it: each four bytes as one number of this machine's own order (get_tcp4_sock)."""
    packed = address.packed
    words = [int.from_bytes(packed[i : i + 4], sys.byteorder) for i in range(0, len(packed), 4)]
    host = "".join(f"{word:08X}" for word in words)
    return (
        f"{7:4}: {host}:{port:04X} {'0' * len(host)}:0000 {state:02X} 00000000:00000000 00:00000000 00000000"
        f" {1000:5} {0:8} {inode} 1 0000000067a1473a 100 0 0 10 0\n"
    )


addresses = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6))
ports = st.integers(1, 65535)
inodes = st.integers(1, 2**32 - 1)


@given(addresses, ports, inodes)
def test_whatever_listens_is_read_as_it_is(address: IPv4Address | IPv6Address, port: int, inode: int) -> None:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    assert list(parse_tcp([row(address, port, inode)])) == [ListeningTcp(mapped or address, port, inode)]


@given(addresses, ports, inodes, st.integers(1, 12).filter(lambda state: state != 0x0A))
def test_no_other_state_counts_as_listening(
    address: IPv4Address | IPv6Address, port: int, inode: int, state: int
) -> None:
    assert list(parse_tcp([row(address, port, inode, state=state)])) == []


@only_little_endian
def test_nothing_is_read_beyond_the_sockets_that_listen() -> None:
    def rows() -> Iterator[str]:
        yield from TCP.splitlines(keepends=True)
        pytest.fail("read on, through every connection of the host")

    assert len(list(parse_tcp(rows()))) == 2


def test_the_kernel_shows_sockets_that_listen_before_all_others() -> None:
    with own("127.0.0.1") as first, socket.create_connection(first.getsockname()), own("127.0.0.1") as last:
        rows = Path("/proc/self/net/tcp").read_text().splitlines()[1:]
        states = [row.split()[3] for row in rows]
        assert states.index("01") > 1
        assert "0A" not in states[states.index("01") :]
        assert {first.getsockname()[1], last.getsockname()[1]} <= {each.port for each in parse_tcp(rows)}


@given(st.lists(st.one_of(st.text(), st.sampled_from([*TCP.splitlines(), *UNIX.splitlines()]).map(lambda s: s[1:]))))
def test_no_text_makes_the_parsers_fail(rows: list[str]) -> None:
    list(parse_tcp(rows))
    list(parse_unix(rows))


@given(st.text(st.characters(exclude_characters="\n", exclude_categories=["Cs"]), min_size=1), inodes)
def test_a_path_is_read_as_it_stands(name: str, inode: int) -> None:
    text = f"00000000f12626c8: 00000002 00000000 00010000 0001 01 {inode:5} /{name}\n"
    assert [(each.path, each.inode) for each in parse_unix([text])] == [(f"/{name}", inode)]


# --- who gets what is dialled


@pytest.mark.parametrize(
    ("listening", "dialled", "taken"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.2", "127.0.0.1", False),
        ("0.0.0.0", "127.0.0.1", True),
        ("0.0.0.0", "::1", False),
        ("::", "::1", True),
        ("::", "127.0.0.1", True),
        ("::1", "127.0.0.1", False),
        ("10.0.0.7", "127.0.0.1", False),
    ],
)
def test_a_wildcard_takes_what_is_dialled_in_its_family_and_ipv6_both(
    listening: str, dialled: str, taken: bool
) -> None:
    assert ListeningTcp(ip_address(listening), 2101, 1).takes(ip_address(dialled)) is taken


# --- a way round


@pytest.mark.parametrize(
    ("family", "address", "spelt"),
    [("AF_INET", "0.0.0.0", "0.0.0.0"), ("AF_INET6", "::", "[::]"), ("AF_INET6", "::ffff:0.0.0.0", "0.0.0.0")],
)
def test_a_strangers_socket_beyond_loopback_is_a_way_round(family: str, address: str, spelt: str) -> None:
    with stranger(family, address) as port:
        assert Look().beyond_loopback(HostPort("127.0.0.1", port)) == [f"{spelt}:{port}"]
        assert Look().beyond_loopback(HostPort("localhost", port)) == [f"{spelt}:{port}"]


@pytest.mark.parametrize(
    ("family", "address"),
    [("AF_INET", "127.0.0.1"), ("AF_INET", "127.1.2.3"), ("AF_INET6", "::1"), ("AF_INET6", "::ffff:127.0.0.1")],
)
def test_a_strangers_socket_on_loopback_is_none(family: str, address: str) -> None:
    with stranger(family, address) as port:
        assert Look().beyond_loopback(HostPort("127.0.0.1", port)) == []


def test_a_socket_of_ones_own_is_no_way_round() -> None:
    with own("0.0.0.0") as listening:
        assert Look().beyond_loopback(HostPort("127.0.0.1", listening.getsockname()[1])) == []


def test_another_hosts_port_is_no_matter_of_this_one() -> None:
    with stranger("AF_INET", "0.0.0.0") as port:
        assert Look().beyond_loopback(HostPort("192.0.2.1", port)) == []  # TEST-NET-1, RFC 5737
        assert Look().beyond_loopback(HostPort("app.invalid", port)) == []


def test_a_path_has_no_way_round(tmp_path: Path) -> None:
    assert Look().beyond_loopback(UnixPath(str(tmp_path / "app.sock"))) == []


# --- somebody there


@pytest.mark.parametrize(
    ("family", "address", "dialled", "there"),
    [
        ("AF_INET", "127.0.0.1", "127.0.0.1", True),
        ("AF_INET", "127.0.0.1", "localhost", True),
        ("AF_INET", "127.0.0.1", "0.0.0.0", True),
        ("AF_INET", "127.0.0.1", "::ffff:127.0.0.1", True),
        ("AF_INET", "127.0.0.1", "127.0.0.2", False),
        ("AF_INET", "127.0.0.1", "::1", False),
        ("AF_INET", "0.0.0.0", "127.0.0.1", True),
        ("AF_INET6", "::", "127.0.0.1", True),
        ("AF_INET6", "::1", "localhost", True),
        ("AF_INET6", "::1", "127.0.0.1", False),
    ],
)
def test_somebody_listens_where_a_dial_would_find_them(family: str, address: str, dialled: str, there: bool) -> None:
    with stranger(family, address) as port:
        assert Look().listens(HostPort(dialled, port)) is there
    assert not Look().listens(HostPort(dialled, port))


@pytest.mark.parametrize("host", ["192.0.2.1", "2001:db8::1", "fe80::1%nowhere", "app.invalid"])
def test_what_cant_be_seen_from_here_is_not_found_missing(host: str) -> None:
    assert not can_be_seen(HostPort(host, 2101))
    assert Look().listens(HostPort(host, 2101))


@pytest.mark.parametrize("upstream", [UnixPath("/run/app.sock"), HostPort("LOCALHOST", 1), HostPort("127.9.9.9", 1)])
def test_a_path_and_loopback_can_be_seen(upstream: HostPort | UnixPath) -> None:
    assert can_be_seen(upstream)


def test_somebody_listens_at_a_path(tmp_path: Path) -> None:
    path = tmp_path / "app.sock"
    upstream = UnixPath(str(path))
    assert not Look().listens(upstream)
    with stranger("AF_UNIX", str(path)):
        assert Look().listens(upstream)
    assert path.is_socket(), "it was left behind"
    assert not Look().listens(upstream)


def test_a_path_that_its_owner_knows_by_another_folder_is_found_by_its_name(tmp_path: Path) -> None:
    """As where two containers mount one volume at different places."""
    (tmp_path / "here").symlink_to(tmp_path)
    with stranger("AF_UNIX", "app.sock", cwd=tmp_path):
        assert Look().listens(UnixPath(str(tmp_path / "app.sock")))
        assert Look().listens(UnixPath(str(tmp_path / "here" / "app.sock")))
        (tmp_path / "link").symlink_to("app.sock")
        assert Look().listens(UnixPath(str(tmp_path / "link")))
        assert not Look().listens(UnixPath(str(tmp_path / "elsewhere" / "app.sock"))), "nothing to dial"


def test_a_listener_of_ones_own_with_the_same_name_is_nobody_there(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    path = tmp_path / "app.sock"
    with stranger("AF_UNIX", str(path)):
        pass
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "own" / "app.sock"))
        listening.listen()
        assert not Look().listens(UnixPath(str(path)))


# --- the files


def test_a_kernel_without_ipv6_has_one_file_less(tmp_path: Path) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "fd").mkdir()
    (tmp_path / "net" / "tcp").write_text(TCP)
    look = Look(tmp_path)
    assert not look.listens(HostPort("127.0.0.1", 2102))
    assert look.beyond_loopback(HostPort("127.0.0.1", 2024)) == ["0.0.0.0:2024"] * (sys.byteorder == "little")


def test_without_the_kernels_tables_a_look_fails(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Look(tmp_path).listens(HostPort("127.0.0.1", 2101))


def test_a_path_with_bytes_that_are_no_text_hides_nothing(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path)
    with socket.socket(socket.AF_UNIX) as odd:
        odd.bind(folder + b"/\xff\rodd")
        odd.listen()
        with stranger("AF_UNIX", str(tmp_path / "app.sock")):
            assert Look().listens(UnixPath(str(tmp_path / "app.sock")))
