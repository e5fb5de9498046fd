"""What a hand-over amounts to, step by step: what is refused, what is cut, and what the numbers say meanwhile."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Start
from kernel import is_reset, receive_exactly
from names import CLAIM
from processes import eventually
from receiver import Lifeline, ScriptedReceiver
from replica import Sidecar, next_answer
from volume import Volume

from sidecar.identity import Generation


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[ScriptedReceiver]:
    with closing(ScriptedReceiver(tmp_path / "handoff.sock")) as receiver:
        yield receiver


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def begun(receiver: ScriptedReceiver, sidecar: Sidecar, opened: ExitStack) -> Lifeline:
    """A lifeline that connections may go through."""
    before = len(sidecar.lines("lifeline_ready"))
    lifeline = opened.enter_context(closing(receiver.accept()))
    lifeline.say("ready 1")
    assert eventually(lambda: len(sidecar.lines("lifeline_ready")) > before)
    return lifeline


def adds_up(sidecar: Sidecar, *, pending: int, admitted: int) -> bool:
    """Whether so many are on their way and so many live, and every connection is in exactly one place."""
    scrape = sidecar.scrape()
    ever = scrape.total("connections_admitted_total")
    settled = ever + scrape.total("connections_rejected_total") + scrape.total("probes_total")
    live = scrape.total("connections_active", state="admitted")
    assert scrape.total("connections_accepted_total") == settled + scrape.total("connections_active", state="pending")
    assert live == ever - scrape.total("connections_ended_total")
    return (scrape.total("connections_active", state="pending"), live) == (pending, admitted)


def test_nothing_is_handed_over_before_the_receiver_has_said_that_it_is_ready(
    start: Start, receiver: ScriptedReceiver, opened: ExitStack
) -> None:
    sidecar = start(upstream=receiver.upstream)
    lifeline = opened.enter_context(closing(receiver.accept()))
    assert eventually(lambda: bool(sidecar.lines("lifeline_connected")))
    answer = sidecar.refuse(CLAIM)
    assert (answer.verdict, "earlier life" in answer.detail) == ("upstream_unavailable", True)
    assert lifeline.empty()
    lifeline.say("ready 1")
    assert eventually(lambda: bool(sidecar.lines("lifeline_ready")))
    client = opened.enter_context(sidecar.dial(answer=True))
    connection = opened.enter_context(lifeline.take(lifeline.next()))
    assert next_answer(client).admitted
    connection.sendall(b"hello")
    assert receive_exactly(client, 5) == b"hello"


def test_a_change_of_a_file_cuts_what_was_handed_over_within_the_interval(
    start: Start, receiver: ScriptedReceiver, opened: ExitStack, tmp_path: Path
) -> None:
    volume = Volume(tmp_path / "podinfo")
    volume.publish(generation=7)
    fast = {"poll_interval": "100ms", "revalidate_interval": "100ms", "ahead_wait": "100ms"}
    sidecar = start(upstream=receiver.upstream, assignment={"generation": volume.source("generation"), **fast})
    lifeline = begun(receiver, sidecar, opened)
    client = opened.enter_context(sidecar.dial(answer=True))
    connection = opened.enter_context(lifeline.take(lifeline.next()))
    assert next_answer(client).admitted
    host, port = client.getsockname()
    assert eventually(lambda: [each["peer"] for each in sidecar.live()] == [f"{host}:{port}"])
    began = time.monotonic()
    volume.publish(generation=8)
    assert is_reset(client)
    assert time.monotonic() - began < 2.0
    with pytest.raises(OSError, match=r"Broken pipe|not connected|reset"):
        connection.send(b"too late")
    assert sidecar.line("connection_ended", (host, port))["end"] == "generation_stale"
    assert sidecar.scrape().total("connections_ended_total", cause="generation_stale") == 1
    assert eventually(lambda: adds_up(sidecar, pending=0, admitted=0))
    opened.enter_context(sidecar.dial(replace(CLAIM, generation=Generation(8))))
    opened.enter_context(lifeline.take(lifeline.next()))
    assert eventually(lambda: adds_up(sidecar, pending=0, admitted=1))


def test_every_connection_is_in_one_place_at_each_step_of_its_hand_over(
    start: Start, receiver: ScriptedReceiver, opened: ExitStack
) -> None:
    sidecar = start(upstream=receiver.upstream)
    lifeline = begun(receiver, sidecar, opened)
    at_rest = sidecar.descriptors()

    refused = opened.enter_context(sidecar.dial(answer=True))
    offered = lifeline.next()
    assert eventually(lambda: adds_up(sidecar, pending=1, admitted=0)), "it isn't admitted before it was taken"
    lifeline.refuse(offered, "full")
    answer = next_answer(refused)
    assert (answer.verdict, answer.detail.endswith("the receiver is full")) == ("upstream_unavailable", True)
    refused.close()
    assert eventually(lambda: adds_up(sidecar, pending=0, admitted=0))

    taken = opened.enter_context(sidecar.dial(answer=True))
    opened.enter_context(lifeline.take(lifeline.next()))
    assert next_answer(taken).admitted
    assert eventually(lambda: adds_up(sidecar, pending=0, admitted=1))

    in_both_hands = opened.enter_context(sidecar.dial(answer=True))
    opened.enter_context(lifeline.next().connection)
    assert eventually(lambda: adds_up(sidecar, pending=1, admitted=1))
    lifeline.close()
    assert is_reset(taken)
    assert is_reset(in_both_hands), "the receiver may have had it, and is gone"
    assert eventually(lambda: adds_up(sidecar, pending=0, admitted=0))
    scrape = sidecar.scrape()
    assert scrape.total("connections_ended_total", cause="upstream_reset") == 1
    assert scrape.total("connections_rejected_total", reason="upstream_unavailable") == 2
    begun(receiver, sidecar, opened)
    assert eventually(lambda: sidecar.idle)
    assert eventually(lambda: sidecar.descriptors() <= at_rest)
