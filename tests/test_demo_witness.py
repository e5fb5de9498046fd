import io
from collections import Counter
from functools import partial

import pytest
import trio
from demo_fakes import UIDS, FakeController, FakeFleet, FakePod, record

from sidecar.demo.difference import DiffersError
from sidecar.demo.front import Ports
from sidecar.demo.scrape import Counts
from sidecar.demo.screen import Screen
from sidecar.demo.witness import Witness, same
from sidecar.dialler import RefusedError, UnreachableError
from sidecar.reasons import Advice, End, Reason

STALE = "expected 1, this is 2"


def pod(ordinal=0, *, settled=(), **rest):
    counted = Counter(dict(settled))
    return FakePod(record(ordinal, host=f"127.0.0.{ordinal + 2}"), Counts(counted.total(), counted), **rest)


def watching(*pods, ports=None):
    """A witness, and what it shows."""
    stream = io.StringIO()
    return Witness(FakeFleet(*pods, ports=ports), Screen(stream, color=False)), stream


def refused(reason="generation_stale", advice=Advice.REFRESH, detail=f"{STALE}; it is identity demo/replica-a/0"):
    return RefusedError(reason, advice, detail)


async def test_an_admission_is_shown_with_the_shards_reply_and_kept():
    there = pod()
    witness, shown = watching(there)
    await witness.admitted(FakeController([there.record]), 0)
    line = (
        f"   admitted  127.0.0.2 as demo/replica-a/0, generation 1, {UIDS[0][:8]}  shard 0, generation 1, command 1\n"
    )
    assert shown.getvalue() == line
    assert there.dialled == {"admitted": 1}


@pytest.mark.parametrize("outcome", [refused(), UnreachableError("nobody")])
async def test_an_admission_that_did_not_happen_is_not_shown(outcome):
    there = pod()
    witness, shown = watching(there)
    with pytest.raises(DiffersError) as caught:
        await witness.admitted(FakeController([there.record], outcome), 0)
    assert (caught.value.expected, caught.value.happened) == ("admitted", f"refused: {outcome}")
    assert shown.getvalue() == ""


async def test_a_refusal_is_shown_with_what_differs_and_kept():
    there = pod()
    witness, shown = watching(there)
    await witness.refused(FakeController([there.record], refused()), 0, Reason.GENERATION_STALE, STALE)
    first, second = shown.getvalue().splitlines()
    assert first.endswith("generation_stale -> refresh")
    assert second.strip() == STALE
    assert there.dialled == {"generation_stale": 1}


@pytest.mark.parametrize(
    "outcome",
    [
        None,
        refused(reason="instance_mismatch"),
        refused(advice=Advice.RETRY),
        refused(detail="expected 1, this is 3"),
        refused(detail=""),
    ],
)
async def test_any_other_outcome_than_the_refusal_told_is_a_difference(outcome):
    there = pod()
    witness, shown = watching(there)
    with pytest.raises(DiffersError):
        await witness.refused(FakeController([there.record], outcome), 0, Reason.GENERATION_STALE, STALE)
    assert shown.getvalue() == ""


async def test_a_refusal_without_a_difference_is_shown_without_one():
    there = pod()
    witness, shown = watching(there)
    outcome = refused("exclusive_conflict", Advice.RETRY, "it is identity demo/replica-a/0, generation 1")
    await witness.refused(FakeController([there.record], outcome), 0, Reason.EXCLUSIVE_CONFLICT)
    (line,) = shown.getvalue().splitlines()
    assert line.endswith("exclusive_conflict -> retry")


def cut_pod(**ended):
    counts = Counts(1, Counter(admitted=1), Counter(ended))
    return FakePod(record(host="127.0.0.2"), counts, 1, Counter(admitted=1), resets=1)


async def test_a_cut_is_shown_with_the_cause_that_was_counted_and_kept():
    there = cut_pod(generation_stale=1)
    witness, shown = watching(there)
    await witness.cut(FakeController([there.record]), 0, End.GENERATION_STALE)
    assert shown.getvalue().startswith("   cut       127.0.0.2 as demo/replica-a/0, generation 1")
    assert shown.getvalue().endswith("  reset, generation_stale\n")
    assert there.cut == {"generation_stale": 1}
    await witness.reconcile(0)
    assert witness.totals(0)[0].ended == {"generation_stale": 1}


@pytest.mark.parametrize(
    ("ended", "reset", "difference"),
    [
        ({"generation_stale": 1}, False, "expected a reset, but an end in order"),
        ({"drain_timeout": 1}, True, "the counters"),  # another cause
        ({"generation_stale": 2}, True, "the counters"),  # others with it
        ({}, True, "the counters"),
    ],
)
async def test_any_other_end_than_the_cut_told_is_a_difference(ended, reset, difference):
    there = cut_pod(**ended)
    witness, shown = watching(there)
    with pytest.raises(DiffersError, match=difference):
        await witness.cut(FakeController([there.record], reset=reset), 0, End.GENERATION_STALE)
    assert shown.getvalue() == ""


async def test_what_was_dialled_belongs_to_the_pod_that_is_at_the_address():
    moved, other = pod(0), pod(1)
    witness, _ = watching(moved, other)
    await witness.refused(
        FakeController([record(0, host=other.record.host)], refused()), 0, Reason.GENERATION_STALE, STALE
    )
    assert (moved.dialled, other.dialled) == ({}, {"generation_stale": 1})


async def test_a_replica_that_was_reached_is_a_difference():
    witness, _ = watching(pod(0), pod(1, reached=1))
    witness.untouched(0)
    with pytest.raises(DiffersError, match="new connections that replica 1 has seen: expected 0, but 1"):
        witness.untouched(0, 1)


async def test_pods_of_one_slot_add_up():
    first = pod(settled={"admitted": 1}, reached=1, dialled=Counter(admitted=1))
    witness, _ = watching(first)
    await witness.reconcile(0)
    first.counted, first.dialled = Counts(3, Counter(admitted=1, draining=2)), Counter(admitted=1, draining=2)
    await witness.reconcile(0)
    assert witness.totals(0) == (Counts(4, Counter(admitted=2, draining=2)), 2)


@pytest.mark.parametrize(
    "there",
    [
        pod(settled={"admitted": 2}, reached=1, dialled=Counter(admitted=1)),  # an admission more
        pod(settled={"admitted": 1}, reached=1, dialled=Counter(admitted=1, draining=1)),  # a refusal uncounted
        pod(settled={"admitted": 1}, reached=2, dialled=Counter(admitted=1)),  # one went round the sidecar
        pod(settled={"draining": 1}, reached=1, dialled=Counter(draining=1)),  # refused, and passed on
        FakePod(record(host="127.0.0.2"), Counts(2, Counter(admitted=1)), 1, Counter(admitted=1)),  # one unsettled
        pod(settled={"admitted": 1}, reached=1, dialled=Counter(admitted=1), resets=1),  # reset, and not counted
        pod(settled={"admitted": 1}, reached=1, dialled=Counter(admitted=1), cut=Counter(superseded=1)),  # not cut
    ],
)
async def test_counters_that_differ_from_what_was_done_are_a_difference(there):
    witness, _ = watching(there)
    with pytest.raises(DiffersError):
        await witness.reconcile(0)


async def serve(nursery, answer):
    async def handle(stream):
        if await stream.receive_some():
            await stream.send_all(answer)

    (listener,) = await nursery.start(partial(trio.serve_tcp, handle, 0, host="127.0.0.2"))
    return Ports(listener.socket.getsockname()[1], 0, 0)


async def test_strangers_are_shown_as_counted(nursery):
    there = pod(settled={"tls_failed": 1})
    witness, shown = watching(there, ports=await serve(nursery, b""))
    await witness.http_is_refused(0)
    there.counted = Counts(2, Counter(tls_failed=1, closed_before_preface=1))
    await witness.probe_is_no_refusal(0)
    first, second = shown.getvalue().splitlines()
    assert first.split()[0] == "refused"
    assert "tls_failed" in first
    assert second.split()[0] == "probe"
    assert "closed_before_preface" in second
    nursery.cancel_scope.cancel()


async def test_an_answer_to_an_http_client_is_a_difference(nursery):
    witness, _ = watching(pod(settled={"tls_failed": 1}), ports=await serve(nursery, b"HTTP/1.1 400"))
    with pytest.raises(DiffersError, match="what an HTTP client gets"):
        await witness.http_is_refused(0)
    nursery.cancel_scope.cancel()


async def test_a_stranger_who_is_not_counted_is_a_difference(nursery):
    witness, shown = watching(pod(), ports=await serve(nursery, b""))
    with pytest.raises(DiffersError, match="the counters"):
        await witness.http_is_refused(0)
    with pytest.raises(DiffersError, match="the counters"):
        await witness.probe_is_no_refusal(0)
    assert shown.getvalue() == ""
    nursery.cancel_scope.cancel()


def test_only_what_is_equal_is_the_same():
    same("a thing", 1, 1)
    with pytest.raises(DiffersError, match="a thing: expected 1, but 2"):
        same("a thing", 1, 2)
