"""A load balancer in front: its own header first, then TLS, then the preface."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from names import CLAIM, OWN, inet, preface
from replica import LocalProcess, Sidecar, next_answer, sidecar_at
from tls_client import ROOT, TlsClient, tls_block

from sidecar.preface.proxy_v2 import Command, write_header

DIALLER = inet("203.0.113.9", 40001)
OUTER = write_header(source=DIALLER, destination=inet("192.0.2.1", 7101))
GOOD = ROOT.issue()


@pytest.fixture(scope="module")
def balanced(own_shared_process: LocalProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    folder: Path = tmp_path_factory.mktemp("balanced")
    proxy = {"outer_proxy": {"from": ["127.1.0.0/16"]}}
    plain = {"name": "plain", **proxy, "sources": ["203.0.113.0/24"]}
    secure = {"tls": tls_block(folder, ROOT.issue()), "sources": []}
    with sidecar_at(folder, own_shared_process.address, listener=plain, beside={"secure": secure}) as running:
        running.listener = "plain"
        yield running


@pytest.fixture
def replica(own_shared_process: LocalProcess) -> Iterator[LocalProcess]:
    yield own_shared_process
    assert own_shared_process.untouched, "a connection reached the local process, and the test doesn't know of it"


def refused(sidecar: Sidecar, data: bytes, peer: str, *, end: bool = False) -> str:
    """The detail that a connection with *data* is refused with; *peer* is how the log names it."""
    with sidecar.connect() as sock:
        sock.sendall(data)
        if end:
            sock.shutdown(socket.SHUT_WR)
        own = sock.getsockname()
        assert sock.recv(1) == b""
    host, port = (own[0], own[1]) if not peer else peer.split(":")
    line = sidecar.line("connection_refused", (host, int(port)))
    return f"{line['reason']} {line.get('detail', '')}".strip()


@pytest.mark.parametrize("pieces", [1, 7, 1000])
def test_the_address_in_the_header_stands_for_the_peers(balanced: Sidecar, replica: LocalProcess, pieces: int) -> None:
    data = OUTER + preface(CLAIM, answer=True) + b"and payload"
    with balanced.connect() as sock:
        for start in range(0, len(data), max(1, len(data) // pieces)):
            sock.sendall(data[start : start + max(1, len(data) // pieces)])
        assert next_answer(sock).admitted
        with replica.accept() as upstream:
            assert upstream.recv(100) == b"and payload"
            (live,) = balanced.live()
            assert live["peer"] == str(DIALLER)


def test_header_and_client_hello_in_one_segment_come_through(balanced: Sidecar, replica: LocalProcess) -> None:
    with balanced.connect(listener="secure") as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
        sock.sendall(OUTER)
        client = TlsClient(sock, GOOD)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
        assert client.state().identity == OWN
        replica.accept().close()


def test_tls_at_once_is_refused_at_once_and_it_is_said_why(balanced: Sidecar, replica: LocalProcess) -> None:
    balanced.listener = "secure"
    try:
        assert refused(balanced, b"\x16\x03\x01\x02\x00\x01\x00", "") == "preface_missing outer_missing"
    finally:
        balanced.listener = "plain"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (OUTER[:5] + b"x", "preface_malformed outer_bad_signature"),
        (b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\r\n", "preface_malformed outer_version_not_allowed"),
        (OUTER[:12] + b"\x31" + OUTER[13:], "preface_malformed outer_bad_version"),
        (OUTER[:20], "preface_malformed outer_truncated"),
        (b"GET / HTTP/1.1\r\n", "preface_missing outer_missing"),
    ],
)
def test_its_faults_are_a_prefaces_and_say_whose_they_are(
    balanced: Sidecar, replica: LocalProcess, data: bytes, why: str
) -> None:
    assert refused(balanced, data, "", end=True) == why


def test_faults_behind_it_are_the_prefaces_own(balanced: Sidecar, replica: LocalProcess) -> None:
    other = inet("203.0.113.9", 40002)
    header = write_header(source=other, destination=inet("192.0.2.1", 7101))
    assert refused(balanced, header + b"GET / HTTP/1.1\r\n", str(other)) == "preface_missing"


def test_lists_go_by_the_address_that_it_names(balanced: Sidecar, replica: LocalProcess) -> None:
    stranger = inet("198.51.100.7", 40003)
    header = write_header(source=stranger, destination=inet("192.0.2.1", 7101))
    assert refused(balanced, header + preface(CLAIM), str(stranger)) == "source_not_allowed"


def test_nobody_else_is_believed(balanced: Sidecar, replica: LocalProcess) -> None:
    with balanced.counting(source_not_allowed=1), balanced.connect(source="127.0.0.1") as sock:
        sock.sendall(OUTER + preface(CLAIM))
        assert sock.recv(1) == b""


def test_a_local_header_and_an_end_before_the_first_byte_are_probes(balanced: Sidecar, replica: LocalProcess) -> None:
    with balanced.counting(local_probe=1, closed_before_preface=1):
        with balanced.connect() as sock:
            sock.sendall(write_header(source=None, destination=None, command=Command.LOCAL))
            assert sock.recv(1) == b""
        balanced.connect().close()


def test_a_header_without_addresses_leaves_the_sockets_own(balanced: Sidecar, replica: LocalProcess) -> None:
    header = write_header(source=None, destination=None)
    with balanced.connect() as sock:
        sock.sendall(header + preface(CLAIM, answer=True))
        assert next_answer(sock).admitted
        replica.accept().close()
