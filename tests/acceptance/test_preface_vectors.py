"""Every byte string of tests/vectors/preface.json, through a running sidecar, in one piece and in many."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kernel import ends_in_order, receive_all, receive_exactly, send_segments
from replica import LocalProcess, Sidecar, admission

Vector = dict[str, Any]

VECTORS: list[Vector] = json.loads(Path(__file__).parent.parent.joinpath("vectors/preface.json").read_text())["vectors"]
ASKS_FOR_AN_ANSWER = [0xEB, b"1".hex()]


def stalls(vector: Vector) -> bool:
    return vector["expect"]["result"] == "need_more"


def ways(vector: Vector) -> Iterator[tuple[str, list[bytes]]]:
    """The ways to write a vector, each as segments, by name."""
    data = bytes.fromhex(vector["hex"])
    yield "as given", [bytes.fromhex(chunk) for chunk in vector.get("chunks_hex", [vector["hex"]])]
    # Behind the byte that decides the rest may come at once: nobody looks at it any more.
    single = min(len(data), (vector.get("decidable_at_byte") or len(data)) + 1)
    if single > 1:
        yield "byte by byte", [*(data[at : at + 1] for at in range(single)), data[single:]]
    if not stalls(vector):
        header = vector["expect"].get("header_len") or 0
        for at in sorted({1, 12, 13, 16, header - 1, header, header + 1}):
            if 0 < at < len(data):
                yield f"cut at {at}", [data[:at], data[at:]]


def written(vectors: list[Vector]) -> list[Any]:
    """The parameters of a test that takes a vector and its segments."""
    return [
        pytest.param(vector, segments, id=f"{vector['id']}, {name}")
        for vector in vectors
        for name, segments in ways(vector)
    ]


def decided(decision: str) -> list[Vector]:
    return [v for v in VECTORS if v["product_expect"]["decision"] == decision and not stalls(v)]


@pytest.mark.parametrize(("vector", "segments"), written(decided("forward")))
def test_what_is_admitted_reaches_the_local_process_byte_for_byte(
    vector: Vector, segments: list[bytes], sidecar: Sidecar, local_process: LocalProcess
) -> None:
    with sidecar.counting(authority=1, ended_client_closed=1), sidecar.connect() as client:
        send_segments(client, segments)
        if vector["eof_after"]:
            client.shutdown(socket.SHUT_WR)
        with local_process.accept() as upstream:
            if ASKS_FOR_AN_ANSWER in vector["expect"]["tlvs"]:
                answer = admission(client)
                assert receive_exactly(client, len(answer)) == answer  # the local process hasn't said anything yet
            if not vector["eof_after"]:
                client.shutdown(socket.SHUT_WR)
            assert receive_all(upstream) == bytes.fromhex(vector["expect"]["payload_hex"])
            upstream.sendall(b"PONG")
        assert receive_all(client) == b"PONG"


@pytest.mark.parametrize(("vector", "segments"), written(decided("reject")))
def test_what_is_refused_gets_its_reason_and_touches_nothing(
    vector: Vector, segments: list[bytes], sidecar: Sidecar, local_process: LocalProcess
) -> None:
    reason = vector["product_expect"]["reason"]
    with sidecar.counting(**{reason: 1}), sidecar.connect() as client:
        address = client.getsockname()
        send_segments(client, segments)
        if vector["eof_after"]:
            client.shutdown(socket.SHUT_WR)
        assert receive_all(client) == b""  # none of these asks for an answer
        assert local_process.untouched
        assert vector["eof_after"] or ends_in_order(client)
    line = sidecar.line("connection_refused", address)
    assert line["reason"] == reason
    if reason == "preface_malformed":
        assert line["detail"] == vector["expect"]["error"]


@pytest.mark.parametrize(("vector", "segments"), written(decided("probe")))
def test_a_probe_is_closed_in_order_and_is_no_refusal(
    vector: Vector, segments: list[bytes], sidecar: Sidecar, local_process: LocalProcess
) -> None:
    kind = vector["product_expect"]["reason"]
    with sidecar.counting(**{kind: 1}), sidecar.connect() as client:
        address = client.getsockname()
        send_segments(client, segments)
        if vector["eof_after"]:
            client.shutdown(socket.SHUT_WR)
        assert receive_all(client) == b""
        assert local_process.untouched
        assert vector["eof_after"] or ends_in_order(client)
    line = sidecar.line("probe", address)
    assert (line["level"], line["kind"]) == ("debug", kind)


@pytest.mark.parametrize(("vector", "segments"), written([vector for vector in VECTORS if stalls(vector)]))
def test_what_stalls_is_refused_once_its_time_is_over(
    vector: Vector, segments: list[bytes], hasty_sidecar: Sidecar, local_process: LocalProcess
) -> None:
    with hasty_sidecar.counting(preface_timeout=1), hasty_sidecar.connect() as client:
        send_segments(client, segments)
        assert receive_all(client) == b""
        assert local_process.untouched
        assert ends_in_order(client)
