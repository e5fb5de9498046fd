"""What the local process is told of who dials, in a header of the sidecar's own."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kernel import receive_all, receive_exactly
from names import CLAIM, OWN, U1, inet
from replica import LocalProcess, Sidecar, next_answer, sidecar_at

from sidecar.identity import ControllerName, Epoch, Generation
from sidecar.preface.claim import Claim, read_claim, write_claim
from sidecar.preface.proxy_v2 import Header, Tlv, bytes_wanted, read_header, write_header


def next_header(sock: socket.socket) -> Header:
    """The header that comes on *sock*; what follows it stays unread."""
    buffer = bytearray()
    while (header := read_header(buffer)) is None:
        received = sock.recv(bytes_wanted(buffer))
        assert received, f"the connection ended within the header, after {bytes(buffer)!r}"
        buffer += received
    return header


@pytest.fixture(scope="module")
def telling(shared_local_process: LocalProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    folder: Path = tmp_path_factory.mktemp("telling")
    sections = {
        "listener": {"send_proxy": True, "unsafe_epoch": True},
        "require": ["identity", "instance", "generation", "epoch", "controller"],
        "state_dir": str(folder / "state"),
        "enforcement": "shadow",
    }
    with sidecar_at(folder, shared_local_process.address, **sections) as sidecar:
        yield sidecar


def test_the_local_process_learns_who_dials_and_who_it_is(telling: Sidecar, local_process: LocalProcess) -> None:
    claim = replace(CLAIM, controller=ControllerName("leader"), epoch=Epoch(3))
    lie = inet("192.0.2.1", 1)
    tlvs = [*write_claim(claim, answer=True), Tlv(0xE0, b"a stranger's"), Tlv(0x02, b"example.org")]
    with telling.connect() as client:
        client.sendall(write_header(source=lie, destination=lie, tlvs=tlvs) + b"first bytes")
        assert next_answer(client).admitted
        with local_process.accept() as upstream:
            header = next_header(upstream)
            assert (header.source, header.destination) == (inet(*client.getsockname()), inet(*telling.address()))
            told = read_claim(header.tlvs)
            assert (told.identity, told.generation, told.instance) == (OWN, Generation(7), U1)
            assert (told.controller, told.epoch) == (ControllerName("leader"), Epoch(3))
            assert {tlv.type for tlv in header.tlvs} == {0xE5, 0xE6, 0xE7, 0xE8, 0xE9}  # none is copied
            assert receive_exactly(upstream, 11) == b"first bytes"
            upstream.sendall(b"reply")
            assert receive_exactly(client, 5) == b"reply"
            client.shutdown(socket.SHUT_WR)
            assert receive_all(upstream) == b""


@pytest.mark.parametrize(
    "claim",
    [replace(CLAIM, generation=Generation(6), controller=ControllerName("rival"), epoch=Epoch(9)), None],
    ids=["wrong claim", "no preface"],
)
def test_what_the_shadow_lets_through_is_told_as_nobodys(
    claim: Claim | None, telling: Sidecar, local_process: LocalProcess
) -> None:
    with telling.connect() as client:
        if claim is not None:
            client.sendall(write_header(source=None, destination=None, tlvs=write_claim(claim, answer=False)))
        client.sendall(b"GET / HTTP/1.1\r\n\r\n")
        with local_process.accept() as upstream:
            header = next_header(upstream)
            told = read_claim(header.tlvs)
            assert (told.identity, told.generation, told.instance) == (OWN, Generation(7), U1)
            assert (told.controller, told.epoch) == (None, None)  # nothing of it was checked
            assert header.source == inet(*client.getsockname())
            assert receive_exactly(upstream, 18) == b"GET / HTTP/1.1\r\n\r\n"
