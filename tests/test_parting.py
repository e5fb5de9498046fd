"""Leave is taken of many at once: what they still send is taken, up to a limit and for a moment."""

from __future__ import annotations

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from sidecar.parting import PARTING_SECONDS, Parting
from tests.wires import closed, is_reset, plain, receive_all, tcp_pair


class Room:
    """Where leave is taken, and who has gone."""

    def __init__(self, nursery):
        self.parting = Parting()
        self.gone = []
        nursery.start_soon(self.parting.run)

    async def see_off(self, *, drain=1 << 20, **pair):
        peer, far = await tcp_pair(**pair)
        sock = plain(far)
        number = len(self.gone)
        hurry = self.parting.leave(sock, drain=drain, gone=lambda: self.gone.append(number))
        return peer, sock, hurry

    async def until_gone(self, count=1):
        with trio.fail_after(5):
            while len(self.gone) < count:
                await wait_all_tasks_blocked(0.005)


@pytest.fixture
async def room(nursery):
    return Room(nursery)


async def test_the_peer_sees_the_end_at_once_and_is_gone_when_it_has_ended_too(room):
    peer, sock, _ = await room.see_off()
    async with peer:
        assert await receive_all(peer) == b""
        assert not room.gone
        await peer.send_all(b"too late")
        await peer.send_eof()
        await room.until_gone()
    assert closed(sock)


async def test_unread_input_up_to_the_limit_lets_no_reset_eat_the_reason(room):
    peer, far = await tcp_pair()
    sock = plain(far)
    await peer.send_all(bytes(100_000))
    sock.send(b"reason")
    room.parting.leave(sock, drain=1 << 20, gone=lambda: room.gone.append(0))
    async with peer:
        await wait_all_tasks_blocked(0.02)
        assert await receive_all(peer) == b"reason"
        await peer.send_eof()
        await room.until_gone()


async def test_beyond_the_limit_it_is_closed_whatever_still_comes(room):
    peer, sock, _ = await room.see_off(drain=1000)
    async with peer:
        await peer.send_all(bytes(5000))
        await room.until_gone()
    assert closed(sock)


async def test_one_that_breaks_off_is_gone(room):
    peer, _, _ = await room.see_off()
    peer.socket.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    peer.socket.close()
    await room.until_gone()


async def test_one_that_stays_silent_is_left_after_its_moment(nursery, patient_clock):
    room = Room(nursery)
    began = trio.current_time()
    peers = [await room.see_off() for _ in range(3)]
    with trio.fail_after(10 * PARTING_SECONDS):
        while len(room.gone) < 3:
            await trio.sleep(0.1)
    assert trio.current_time() - began == pytest.approx(PARTING_SECONDS, abs=0.5)
    assert all(closed(sock) for _, sock, _ in peers)
    for peer, _, _ in peers:
        await peer.aclose()


async def test_one_can_be_hurried_and_to_hurry_one_that_is_gone_does_nothing(room):
    peer, sock, hurry = await room.see_off()
    hurry()
    assert closed(sock)
    assert room.gone == [0]
    hurry()
    assert room.gone == [0]
    await peer.aclose()


async def test_to_hurry_one_that_is_gone_does_nothing_to_the_one_that_has_its_number_now(room):
    peer, sock, hurry = await room.see_off()
    number = sock.fileno()
    hurry()
    await peer.aclose()
    others = [await room.see_off() for _ in range(3)]
    assert number in {other.fileno() for _, other, _ in others}
    hurry()
    assert not any(closed(other) for _, other, _ in others)
    for peer, _, hurry_other in others:
        hurry_other()
        await peer.aclose()


async def test_one_whose_peer_is_gone_already_is_the_callers_again(room):
    peer, far = await tcp_pair()
    sock = plain(far)
    peer.socket.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    peer.socket.close()
    with pytest.raises(OSError, match="not connected"):
        room.parting.leave(sock, drain=1, gone=lambda: room.gone.append(0))
    assert not closed(sock)
    assert not room.gone
    sock.close()


async def test_when_it_ends_everybody_is_closed_and_said_to_be_gone():
    async with trio.open_nursery() as nursery:
        room = Room(nursery)
        leaving = [await room.see_off() for _ in range(3)]
        nursery.cancel_scope.cancel()
    assert len(room.gone) == 3
    assert all(closed(sock) for _, sock, _ in leaving)
    for peer, _, _ in leaving:
        assert not await is_reset(peer)
        await peer.aclose()


async def test_one_that_is_hurried_by_another_whose_end_came_at_the_same_moment_is_closed_once(room):
    peers, hurries = [], []
    for number in range(2):
        peer, far = await tcp_pair()
        peers.append(peer)

        def gone(number=number):
            room.gone.append(number)
            hurries[1 - number]()

        hurries.append(room.parting.leave(plain(far), drain=1 << 20, gone=gone))
    for peer in peers:
        peer.socket.close()
    await room.until_gone(2)
    await wait_all_tasks_blocked(0.01)
    assert sorted(room.gone) == [0, 1]
