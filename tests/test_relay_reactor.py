"""The loop: who is called for what, in which thread, and that a fault is its own."""

from __future__ import annotations

import os
import socket
import threading

import pytest

from sidecar.reasons import End
from sidecar.relay.reactor import IN, OUT, Reactor
from sidecar.sockets import abort
from tests.turns import descriptors, tcp


class Watcher:
    """Notes what it is told, and does what the test says."""

    def __init__(self, reactor, sock, does=lambda watcher: None):
        self.reactor, self.sock, self.does = reactor, sock, does
        self.masks, self.faults, self.ends = [], [], []

    def ready(self, mask):
        self.masks.append(mask)
        self.does(self)

    def fault(self, error):
        self.faults.append(error)
        self.reactor.end(self.sock, orderly=False)

    def finish(self, end):
        self.ends.append(end)
        self.reactor.end(self.sock, orderly=False)


class Looker:
    """Waits for a moment."""

    def __init__(self, look):
        self.look, self.faults = look, []

    def fault(self, error):
        self.faults.append(error)


class House:
    def __init__(self):
        self.delivered = []
        self.now = 5.0
        self.reactor = Reactor(self.delivered.append, clock=lambda: self.now)
        self.sockets = []

    def watcher(self, does=lambda watcher: None, mask=IN):
        near, far = tcp()
        self.sockets += [near, far]
        watcher = Watcher(self.reactor, far, does)
        self.reactor.add({far.fileno(): (watcher, mask)})
        return near, watcher


@pytest.fixture
def house():
    house = House()
    yield house
    house.reactor.close()
    for sock in house.sockets:
        sock.close()


def test_who_waits_for_a_descriptor_is_called_as_long_as_it_holds(house):
    near, watcher = house.watcher()
    near.send(b"x")
    for _ in range(3):
        house.reactor.turn(0.5)
    assert watcher.masks == [IN] * 3


def test_what_is_wanted_changes_and_who_wants_nothing_still_hears_of_a_reset_once(house):
    near, watcher = house.watcher(mask=OUT)
    house.reactor.turn(0.5)
    assert watcher.masks == [OUT]
    house.reactor.want(watcher.sock.fileno(), 0)
    near.send(b"x")
    house.reactor.turn(0.01)
    assert watcher.masks == [OUT]
    near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    near.close()
    for _ in range(3):
        house.reactor.turn(0.05)
    assert len(watcher.masks) == 2


def test_a_fault_is_told_to_whom_it_is_of_and_the_others_go_on(house):
    def fail(_watcher):
        raise ZeroDivisionError

    first, broken = house.watcher(fail)
    second, other = house.watcher()
    first.send(b"x")
    second.send(b"x")
    house.reactor.turn(0.5)
    house.reactor.turn(0.5)
    assert [type(error) for error in broken.faults] == [ZeroDivisionError]
    assert other.masks


def test_sockets_are_closed_before_anybody_hears_of_their_end(house):
    near, watcher = house.watcher()
    seen = []
    house.reactor.tell(lambda: seen.append(watcher.sock.fileno()))
    house.reactor.end(watcher.sock, orderly=True)
    house.reactor.turn(0)
    (pass_on,) = house.delivered
    assert seen == []
    pass_on()
    assert seen == [-1]
    assert near.recv(1) == b""


def test_what_is_told_while_the_last_news_is_on_its_way_goes_with_it(house):
    news = []
    for number in range(3):
        house.reactor.tell(lambda number=number: news.append(number))
        house.reactor.turn(0)
    assert len(house.delivered) == 1
    house.delivered[0]()
    assert news == [0, 1, 2]
    house.reactor.tell(lambda: news.append(3))
    house.reactor.turn(0)
    assert len(house.delivered) == 2


def test_a_word_from_another_thread_wakes_it_and_is_heeded_in_its_own(house):
    heeded = []

    def work():
        house.reactor.turn(10)

    thread = threading.Thread(target=work)
    thread.start()
    house.reactor.call(lambda: heeded.append(threading.current_thread()))
    thread.join(5)
    assert heeded == [thread]


def test_timers_are_called_at_their_moment_and_again_replaces_one(house):
    called = []
    timer = house.reactor.again(None, 6.0, Looker(lambda: called.append("first")))
    timer = house.reactor.again(timer, 8.0, Looker(lambda: called.append("second")))
    house.now = 7.0
    house.reactor.turn(0)
    assert called == []
    house.now = 8.0
    house.reactor.turn(0)
    assert called == ["second"]
    assert house.reactor.again(timer, float("inf"), Looker(list)) is None


def test_a_fault_at_a_moment_is_told_to_whom_it_is_of_and_the_others_go_on(house):
    called = []
    broken = Looker(lambda: 1 / 0)
    house.reactor.again(None, 4.0, broken)
    house.reactor.again(None, 5.0, Looker(lambda: called.append("other")))
    house.reactor.turn(0)
    assert [type(error) for error in broken.faults] == [ZeroDivisionError]
    assert called == ["other"]


def test_what_another_holder_of_a_closed_connection_does_reaches_nobody_who_has_its_number_now(house):
    """The kernel's table goes by what is open, which a duplicate keeps so, and names it by a number of ours."""
    near, watcher = house.watcher(mask=0)
    number = watcher.sock.fileno()
    duplicate = watcher.sock.dup()
    house.reactor.forget(number)
    house.reactor.end(watcher.sock, orderly=True)
    house.reactor.turn(0)
    peer, other = tcp()
    heir = Watcher(house.reactor, socket.socket(fileno=os.dup2(other.fileno(), number, inheritable=False)))
    house.sockets += [duplicate, peer, other, heir.sock]
    house.reactor.add({number: (heir, 0)})
    abort(near)
    house.reactor.turn(0.01)
    assert heir.masks == []


def test_what_is_added_from_another_thread_while_events_come_loses_none(house):
    """An event may come before its watcher is known: it is seen again."""
    seen, stop = [], threading.Event()

    def take(watcher):
        seen.append(watcher.sock.recv(10))

    def drive():
        while not stop.is_set():
            house.reactor.turn(0.05)

    thread = threading.Thread(target=drive)
    thread.start()
    for number in range(200):
        near, far = tcp()
        house.sockets += [near, far]
        near.send(b"%d" % number)
        house.reactor.add({far.fileno(): (Watcher(house.reactor, far, take), IN)})
    for _ in range(500):
        if len(seen) == 200:
            break
        threading.Event().wait(0.01)
    stop.set()
    thread.join(5)
    assert sorted(map(int, seen)) == list(range(200))


def test_what_the_kernel_does_not_watch_is_refused_whole(house, tmp_path):
    file = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR)
    near, far = tcp()
    watcher = Watcher(house.reactor, far)
    with pytest.raises(PermissionError):
        house.reactor.add({far.fileno(): (watcher, IN), file: (watcher, IN)})
    near.send(b"x")
    house.reactor.turn(0.01)
    assert watcher.masks == []
    os.close(file)
    near.close()
    far.close()


def test_closing_ends_what_is_left_and_says_so_and_leaves_no_descriptor():
    before = descriptors()
    house = House()
    near, watcher = house.watcher()
    house.reactor.close()
    assert watcher.ends == [End.ABORTED]
    assert watcher.sock.fileno() == -1
    near.close()
    assert descriptors() == before
