"""Asking a running sidecar's admin server, over TCP and over a Unix socket."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sidecar.cli.admin_client import Admin, NoAdminError, Reply
from sidecar.errors import MalformedValue, SidecarError

READY = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nready\n"


@contextmanager
def answering(listening: socket.socket, answer: bytes) -> Iterator[list[bytes]]:
    """Whoever connects to *listening* is answered once; what was asked is in the list by then."""
    requests: list[bytes] = []

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            requests.append(connection.recv(65536))
            connection.sendall(answer)

    listening.listen()
    server = threading.Thread(target=serve)
    server.start()
    yield requests
    server.join()


@pytest.fixture
def tcp() -> Iterator[tuple[socket.socket, str]]:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        yield listening, f"127.0.0.1:{listening.getsockname()[1]}"


def test_a_page_is_asked_for_over_tcp(tcp: tuple[socket.socket, str]) -> None:
    listening, address = tcp
    with answering(listening, READY) as requests:
        assert Admin.parse(address).ask("GET", "/readyz") == Reply(200, "ready")

    assert requests[0].startswith(b"GET /readyz HTTP/1.1\r\n")


def test_a_page_is_asked_for_over_a_unix_socket_in_the_name_of_this_host(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "admin.sock"))
        with answering(listening, READY) as requests:
            assert Admin.parse(f"unix:{tmp_path / 'admin.sock'}").do("POST", "/drain") == "ready"

    assert requests[0].startswith(b"POST /drain HTTP/1.1\r\nHost: localhost\r\n")


def test_a_reply_that_says_no_is_an_error_that_repeats_it(tcp: tuple[socket.socket, str]) -> None:
    listening, address = tcp
    with (
        answering(listening, b"HTTP/1.1 403 Forbidden\r\nContent-Length: 3\r\n\r\nno\n"),
        pytest.raises(NoAdminError, match=r"answered POST /shutdown with 403: no$"),
    ):
        Admin.parse(address).do("POST", "/shutdown")


def _refusing(tmp_path: Path) -> str:
    with socket.socket() as gone:
        gone.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{gone.getsockname()[1]}"


@pytest.mark.parametrize(
    ("address", "why"),
    [(_refusing, "Connection refused"), (lambda tmp_path: f"unix:{tmp_path}/none", "No such file or directory")],
    ids=["tcp", "unix"],
)
def test_nobody_there_is_an_error_that_says_where_and_what_to_check(
    tmp_path: Path, address: Callable[[Path], str], why: str
) -> None:
    spelt = address(tmp_path)

    with pytest.raises(SidecarError) as caught:
        Admin.parse(spelt).ask("GET", "/readyz")

    assert str(caught.value) == (
        f"no sidecar answers at {spelt} ({why}): is it running, and is that its admin.listen? --admin says where else"
    )


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"])
def test_somebody_who_speaks_no_http_is_no_sidecar(tcp: tuple[socket.socket, str], answer: bytes) -> None:
    listening, address = tcp
    with answering(listening, answer), pytest.raises(NoAdminError, match="no sidecar answers at"):
        Admin.parse(address).ask("GET", "/readyz")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n", "(no HTTP came back: SSH-2.0-OpenSSH_9.6)"),
        (b"\x1b[2J\x16\xff\n", r"(no HTTP came back: \x1b[2J\x16\xff)"),
        (b"x" * 5000 + b"\n", f"(no HTTP came back: {'x' * 117}...)"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 8\r\n\r\n<p>\n\x1b[2J", r"with 404: <p>\x0a\x1b[2J"),
        (b"HTTP/1.1 500 Oh\r\nContent-Length: 5000\r\n\r\n" + b"x" * 5000, f"with 500: {'x' * 117}..."),
    ],
    ids=["ssh", "control characters", "long", "a page", "a long page"],
)
def test_what_a_stranger_says_is_escaped_and_shortened(
    tcp: tuple[socket.socket, str], answer: bytes, told: str
) -> None:
    listening, address = tcp
    with answering(listening, answer), pytest.raises(NoAdminError) as caught:
        Admin.parse(address).do("POST", "/drain")
    assert told in str(caught.value)


@pytest.mark.parametrize("text", ["", "9901", "unix:", "host:port"])
def test_what_is_no_address_is_malformed(text: str) -> None:
    with pytest.raises(MalformedValue):
        Admin.parse(text)
