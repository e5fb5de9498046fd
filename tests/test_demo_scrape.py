from collections import Counter
from functools import partial

import pytest
import trio
from prometheus_client import CollectorRegistry

from sidecar.demo import scrape
from sidecar.demo.scrape import Counts, counts, page
from sidecar.metrics import Basis, Metrics
from sidecar.reasons import End, Probe, Reason


async def serve(nursery, answer):
    """The port of a server that sends *answer* to each connection and closes; its requests are kept in a list."""
    requests = []

    async def handle(stream):
        requests.append(bytes(await stream.receive_some()))
        await stream.send_all(answer)

    (listener,) = await nursery.start(partial(trio.serve_tcp, handle, 0, host="127.0.0.1"))
    return listener.socket.getsockname()[1], requests


async def test_a_page_is_asked_for_by_its_path(nursery):
    port, requests = await serve(nursery, b"HTTP/1.1 503 Service Unavailable\r\nX: y\r\n\r\nnot\n\nyet")
    assert await page("127.0.0.1", port, "/readyz") == (503, "not\n\nyet")
    assert requests[0].startswith(b"GET /readyz HTTP/1.0\r\nHost: 127.0.0.1\r\n")
    nursery.cancel_scope.cancel()


@pytest.mark.parametrize("answer", [b"", b"nonsense", b"HTTP/1.1 what\r\n\r\n"])
async def test_what_is_no_page_is_an_error(nursery, answer):
    port, _ = await serve(nursery, answer)
    with pytest.raises(OSError, match="gave no page"):
        await page("127.0.0.1", port, "/metrics")
    nursery.cancel_scope.cancel()


async def test_nobody_there_is_an_error():
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    await listener.aclose()
    with pytest.raises(OSError, match=str(port)):
        await page("127.0.0.1", port, "/metrics")


async def test_the_counts_are_those_of_a_real_page(nursery):
    metrics = Metrics(CollectorRegistry(), listeners=["shard", "other"], wall_clock=lambda: 0.0)
    shard, other = metrics.listener("shard"), metrics.listener("other")
    for _ in range(7):
        shard.accepted()
    shard.admitted(Basis.AUTHORITY)
    shard.admitted(Basis.AUTHORITY)
    shard.rejected(Reason.GENERATION_STALE)
    shard.ended(End.GENERATION_STALE)
    shard.probe(Probe.LOCAL)
    shard.probe(Probe.CLOSED_BEFORE_PREFACE)
    other.accepted()
    other.rejected(Reason.GENERATION_STALE)
    body, content_type = metrics.render(None)
    port, _ = await serve(nursery, f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n\r\n".encode() + body)
    assert await counts("127.0.0.1", port) == Counts(
        8, Counter(admitted=2, generation_stale=2, local_probe=1, closed_before_preface=1), Counter(generation_stale=1)
    )
    nursery.cancel_scope.cancel()


def test_the_ways_a_connection_comes_out_have_different_words():
    words = [*Reason, *Probe, "admitted"]
    assert len(words) == len(set(words))


def test_counts_add_up_and_read_in_words():
    both = Counts(2, Counter(admitted=2)) + Counts(3, Counter(admitted=1, draining=2))
    assert both == Counts(5, Counter(admitted=3, draining=2))
    cut = Counts(1, Counter(admitted=1), Counter(superseded=1))
    assert cut + cut == Counts(2, Counter(admitted=2), Counter(superseded=2))
    assert str(cut) == "1 accepted (admitted 1), of them ended: superseded 1"
    assert str(both) == "5 accepted (admitted 3, draining 2)"
    assert str(Counts(0, Counter())) == "0 accepted (none settled)"


async def test_a_server_that_says_nothing_is_given_up(nursery, monkeypatch):
    monkeypatch.setattr(scrape, "READ_SECONDS", 0.05)

    async def handle(stream):
        await trio.sleep_forever()

    (listener,) = await nursery.start(partial(trio.serve_tcp, handle, 0, host="127.0.0.1"))
    with pytest.raises(OSError, match="gave no page"):
        await page("127.0.0.1", listener.socket.getsockname()[1], "/metrics")
    nursery.cancel_scope.cancel()
