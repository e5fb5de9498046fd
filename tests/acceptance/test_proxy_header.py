"""PROXY v2 headers as they come in the wild: in pieces, repeated, with odd bytes, too long."""

from __future__ import annotations

import json
import random
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest
from conftest import Start
from kernel import ends_in_order, receive_all, receive_exactly, send_segments, unread_by_peer
from names import CLAIM, OTHER, OWN, WRONG, preface
from processes import eventually
from replica import LocalProcess, Sidecar, next_answer

from sidecar.preface.claim import FORMAT_1, write_claim
from sidecar.preface.proxy_v2 import MAX_HEADER_LENGTH, Command, Tlv, write_header

MiB = 1 << 20
VECTORS = {
    vector["id"]: bytes.fromhex(vector["hex"])
    for vector in json.loads(Path(__file__).parent.parent.joinpath("vectors/preface.json").read_text())["vectors"]
}
TOO_LONG = VECTORS["v2-67-length-65535"]


def repeated(*identities: object) -> bytes:
    """A header that names each of *identities*, and is right in everything else."""
    rest = [tlv for tlv in write_claim(CLAIM, answer=True) if tlv.type != FORMAT_1.identity]
    named = [Tlv(FORMAT_1.identity, str(identity).encode()) for identity in identities]
    return write_header(source=None, destination=None, tlvs=[*named, *rest])


def test_a_header_cut_in_two_anywhere_is_put_together(sidecar: Sidecar, local_process: LocalProcess) -> None:
    data = VECTORS["v2-24-identity-good"]
    with sidecar.counting(authority=len(data) - 1):
        for at in range(1, len(data)):
            with sidecar.connect() as client:
                send_segments(client, [data[:at], data[at:]])
                client.shutdown(socket.SHUT_WR)
                with local_process.accept() as upstream:
                    assert receive_all(upstream) == b"PING", f"cut at {at}"


def test_no_byte_is_lost_that_came_together_with_the_header(sidecar: Sidecar, local_process: LocalProcess) -> None:
    payload = random.Random(1).randbytes(MiB)
    with sidecar.connect() as client:
        client.sendall(preface() + payload)
        client.shutdown(socket.SHUT_WR)
        with local_process.accept() as upstream:
            assert receive_all(upstream) == payload


def test_a_payload_that_is_a_header_itself_is_none_of_the_sidecars_business(
    sidecar: Sidecar, local_process: LocalProcess
) -> None:
    with sidecar.connect() as client:
        client.sendall(preface() + preface(WRONG))
        client.shutdown(socket.SHUT_WR)
        with local_process.accept() as upstream:
            assert receive_all(upstream) == preface(WRONG)


def test_a_health_check_is_a_probe_and_changes_nothing(sidecar: Sidecar, local_process: LocalProcess) -> None:
    header = write_header(source=None, destination=None, command=Command.LOCAL)
    with sidecar.counting(local_probe=1), sidecar.connect() as client:
        client.sendall(header)
        assert receive_all(client) == b""
        assert ends_in_order(client)
    assert local_process.untouched
    assert sidecar.page("/readyz").status == 200
    assert sidecar.scrape().total("probes_total", kind="local_probe") >= 1


@pytest.mark.parametrize(
    "identities", [(OWN, OWN), (OWN, OTHER), (OTHER, OWN)], ids=["same", "right first", "right last"]
)
def test_an_identity_given_twice_is_malformed_in_either_order(
    identities: tuple[object, object], sidecar: Sidecar, local_process: LocalProcess
) -> None:
    with sidecar.counting(identity_malformed=1), sidecar.connect() as client:
        client.sendall(repeated(*identities) + b"PING")
        assert next_answer(client).verdict == "identity_malformed"
        assert receive_all(client) == b""
    assert local_process.untouched


@pytest.mark.parametrize(
    ("identity", "shown"),
    [
        (b"prod-eu/replica-a/2\r\nHost: x", r"\x0d\x0aHost: x"),
        (b"prod-eu/replica-a/2\0", r"\x00"),
        (b"a\x1b[2Jb", r"\x1b[2J"),
    ],
    ids=["line break", "NUL", "escape sequence"],
)
def test_control_bytes_in_an_identity_stay_inside_one_line(
    identity: bytes, shown: str, sidecar: Sidecar, local_process: LocalProcess
) -> None:
    header = write_header(source=None, destination=None, tlvs=[Tlv(FORMAT_1.identity, identity)])
    with sidecar.counting(identity_malformed=1), sidecar.connect() as client:
        client.sendall(header)
        assert receive_all(client) == b""
        address = client.getsockname()
    line = sidecar.line("connection_refused", address)
    assert shown in line["claim"]["identity"]
    assert all(text.isprintable() for text in sidecar.process.lines)
    assert sidecar.scrape().total("connections_rejected_total", reason="identity_malformed") >= 1


@pytest.mark.parametrize("length", [257, MAX_HEADER_LENGTH], ids=["over 256 bytes", "the longest"])
def test_a_long_header_is_no_fault(length: int, sidecar: Sidecar, local_process: LocalProcess) -> None:
    claim = write_claim(CLAIM, answer=False)
    padding = Tlv(0xE0, bytes(length - len(preface()) - 3))
    with sidecar.counting(authority=1), sidecar.connect() as client:
        client.sendall(write_header(source=None, destination=None, tlvs=[padding, *claim]) + b"PING")
        with local_process.accept() as upstream:
            assert receive_exactly(upstream, 4) == b"PING"


def test_a_header_that_is_too_long_is_refused_at_its_sixteenth_byte(
    sidecar: Sidecar, local_process: LocalProcess
) -> None:
    with sidecar.counting(preface_malformed=1), sidecar.connect() as client:
        send_segments(client, [TOO_LONG[:15]])
        assert unread_by_peer(client) == 0
        client.sendall(TOO_LONG[15:16])
        assert receive_all(client) == b""  # long before the 30 s that a preface may take
        address = client.getsockname()
    assert sidecar.line("connection_refused", address)["detail"] == "header_too_long"


def test_a_thousand_open_connections_with_too_long_a_header_cost_little_memory(
    start: Start, own_local_process: LocalProcess
) -> None:
    sidecar = start()
    memory = sidecar.memory()
    with ExitStack() as open_until_the_end, sidecar.counting(preface_malformed=1000):
        for _ in range(1000):
            client = open_until_the_end.enter_context(sidecar.connect())
            client.sendall(TOO_LONG)
        assert eventually(lambda: sidecar.counts()["rejected preface_malformed"] == 1000)
        grown = sidecar.memory() - memory
    assert grown < 20 * MiB
