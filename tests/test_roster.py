"""Places: who gets one, who gives way, and how others end a connection."""

from functools import partial

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from sidecar.handshake import DRAINING_PREFACE_SECONDS
from sidecar.reasons import End, Reason
from sidecar.roster import Roster, Step
from tests.names import inet

LOCAL = inet("127.0.0.1", 7101)


def enter(roster, host="192.0.2.1", now=0.0):
    peer = inet(host, 51000) if host else None
    connection = roster.enter("compute", peer, LOCAL, now)
    roster.wait(connection)
    return connection


class FakeAdmission:
    """What a connection was admitted on, and whether it still holds."""

    def __init__(self, end, *, spared=False, outdated=None):
        self.end, self.spared, self.told = end, spared, []
        self.outdated = lambda: outdated

    def recheck(self):
        return self.end

    def spares(self, end):
        self.told.append(end)
        return self.spared


def admit(roster, connection):
    assert roster.take_place(connection)
    connection.step = Step.ADMITTED


async def test_when_pending_is_full_the_oldest_of_the_source_that_holds_most_gives_way():
    roster = Roster(connections=10, pending=4)
    good = enter(roster, "192.0.2.1")
    flood = [enter(roster, "192.0.2.9") for _ in range(3)]
    interrupted = []
    for each in (good, *flood):
        each.interrupt = partial(interrupted.append, each)
    newcomer = enter(roster, "192.0.2.2")
    assert flood[0].ended_by is Reason.OVER_CAPACITY
    assert interrupted == [flood[0]]
    assert [each.ended_by for each in (good, newcomer, *flood[1:])] == [None] * 4


async def test_a_connection_from_an_address_in_ipv6_or_from_a_unix_socket_counts_as_its_own_source():
    roster = Roster(connections=10, pending=3)
    unix = [enter(roster, None), enter(roster, None)]
    six = enter(roster, "2001:db8::1")
    enter(roster, "2001:db8::2")
    assert unix[0].ended_by is Reason.OVER_CAPACITY
    assert six.ended_by is None


async def test_one_that_passed_its_first_decision_holds_no_pending_place_and_never_gives_way():
    roster = Roster(connections=10, pending=1)
    passed = enter(roster)
    assert roster.take_place(passed)
    waiting = enter(roster)
    enter(roster)
    assert passed.ended_by is None
    assert waiting.ended_by is Reason.OVER_CAPACITY


async def test_one_that_gave_way_gets_no_place_even_if_it_asks_at_the_same_moment():
    roster = Roster(connections=10, pending=1)
    first = enter(roster)
    enter(roster)
    assert not roster.take_place(first)


async def test_there_are_as_many_places_as_the_limit_says_and_one_that_leaves_frees_its_own():
    roster = Roster(connections=2, pending=10)
    first, second, third = (enter(roster) for _ in range(3))
    admit(roster, first)
    admit(roster, second)
    assert roster.full
    assert not roster.take_place(third)
    roster.leave(first)
    assert not roster.full
    assert roster.take_place(third)


async def test_a_refused_one_frees_its_place_at_once_and_lingers_until_it_leaves():
    roster = Roster(connections=1, pending=1)
    refused = enter(roster)
    assert roster.take_place(refused)
    roster.linger(refused)
    assert not roster.full
    assert len(roster) == 1
    roster.leave(refused)
    assert len(roster) == 0


async def test_of_too_many_that_linger_the_longest_gives_way():
    roster = Roster(connections=9, pending=9, lingering=2)
    interrupted = []
    for number in range(3):
        refused = enter(roster)
        refused.interrupt = partial(interrupted.append, number)
        roster.linger(refused)
    assert interrupted == [0]


async def test_one_that_was_refused_at_accept_takes_nobodys_place():
    roster = Roster(connections=9, pending=1)
    good = enter(roster)
    roster.linger(roster.enter("compute", inet("192.0.2.9", 1), LOCAL, 0.0))
    assert good.ended_by is None
    assert len(roster) == 2


async def test_deciding_again_cuts_those_who_do_not_pass_and_waits_until_they_are_gone(nursery):
    roster = Roster(connections=9, pending=9)
    right, wrong, dialling = (enter(roster) for _ in range(3))
    for connection in (right, wrong):
        admit(roster, connection)
    roster.take_place(dialling)
    right.admission = FakeAdmission(None)
    wrong.admission = FakeAdmission(End.GENERATION_STALE)
    done = trio.Event()

    async def decide():
        await roster.decide_again()
        done.set()

    nursery.start_soon(decide)
    await wait_all_tasks_blocked()
    assert wrong.ended_by is End.GENERATION_STALE
    assert right.ended_by is dialling.ended_by is None, "who is being dialled is decided again after the dial"
    assert not done.is_set()
    roster.leave(wrong)
    await wait_all_tasks_blocked()
    assert done.is_set()


async def test_what_the_shadow_mode_spares_is_told_and_not_waited_for():
    roster = Roster(connections=9, pending=9)
    connection = enter(roster)
    admit(roster, connection)
    connection.admission = FakeAdmission(End.GENERATION_STALE, spared=True)
    await roster.decide_again()
    roster.cut_all(End.AUTHORITY_STALE)
    assert connection.admission.told == [End.GENERATION_STALE, End.AUTHORITY_STALE]
    assert connection.ended_by is None


async def test_a_certificate_that_doesnt_count_any_more_cuts_its_connections_alone():
    roster = Roster(connections=9, pending=9)
    revoked, right, wrong, offered, dialling, plain = (enter(roster) for _ in range(6))
    for connection in (revoked, right, wrong, plain):
        admit(roster, connection)
    for connection in (offered, dialling):
        roster.take_place(connection)
    revoked.admission = FakeAdmission(None, outdated=End.CERTIFICATE_REVOKED)
    right.admission = FakeAdmission(None)
    wrong.admission = FakeAdmission(End.GENERATION_STALE)
    offered.admission = FakeAdmission(None, outdated=End.CERTIFICATE_EXPIRED)
    roster.cut_outdated()
    assert revoked.ended_by is End.CERTIFICATE_REVOKED
    assert offered.ended_by is End.CERTIFICATE_EXPIRED, "the local process may have it already"
    assert [each.ended_by for each in (right, wrong, dialling, plain)] == [None] * 4


async def test_of_certificates_too_the_shadow_mode_is_asked():
    roster = Roster(connections=9, pending=9)
    connection = enter(roster)
    admit(roster, connection)
    connection.admission = FakeAdmission(None, spared=True, outdated=End.CERTIFICATE_EXPIRED)
    roster.cut_outdated()
    assert connection.admission.told == [End.CERTIFICATE_EXPIRED]
    assert connection.ended_by is None


async def test_cutting_all_cuts_the_admitted_alone():
    roster = Roster(connections=9, pending=9)
    admitted, dialling = enter(roster), enter(roster)
    admit(roster, admitted)
    roster.take_place(dialling)
    roster.cut_all(End.AUTHORITY_STALE)
    assert admitted.ended_by is End.AUTHORITY_STALE
    assert dialling.ended_by is None


async def test_new_limits_hold_for_those_who_come_from_now_on():
    roster = Roster(connections=1, pending=1)
    admit(roster, enter(roster))
    assert roster.full
    roster.resize(connections=2, pending=5)
    assert not roster.full
    waiting = [enter(roster) for _ in range(5)]
    assert all(connection.ended_by is None for connection in waiting)


async def test_the_first_word_on_why_a_connection_ends_counts():
    roster = Roster(connections=9, pending=9)
    connection = enter(roster)
    admit(roster, connection)
    connection.end(End.SUPERSEDED)
    connection.end(End.DRAIN_TIMEOUT)
    assert connection.ended_by is End.SUPERSEDED


async def test_a_connection_whose_fate_is_settled_cannot_be_ended_again():
    roster = Roster(connections=9, pending=9)
    connection = enter(roster)
    roster.linger(connection)
    connection.end(Reason.DRAINING)
    assert connection.ended_by is None


async def test_ending_those_who_passed_cuts_the_admitted_and_refuses_the_others():
    roster = Roster(connections=9, pending=9)
    admitted, dialling, reading, leaving = (enter(roster) for _ in range(4))
    admit(roster, admitted)
    roster.take_place(dialling)
    roster.linger(leaving)
    roster.end_passed(End.DRAIN_TIMEOUT)
    assert admitted.ended_by is End.DRAIN_TIMEOUT
    assert dialling.ended_by is Reason.DRAINING
    assert reading.ended_by is leaving.ended_by is None


async def test_a_drain_shortens_the_time_of_prefaces_and_of_nothing_else():
    roster = Roster(connections=9, pending=9)
    reading, asking, nearly_over = (enter(roster) for _ in range(3))
    asking.step = Step.AUTHORITY
    reading.deadline = asking.deadline = 105.0
    nearly_over.deadline = 100.1
    roster.hurry(100.0)
    assert reading.deadline == 100.0 + DRAINING_PREFACE_SECONDS
    assert asking.deadline == 105.0
    assert nearly_over.deadline == 100.1


async def test_waiting_for_the_admitted_does_not_wait_for_those_who_only_linger(nursery):
    roster = Roster(connections=9, pending=9)
    admitted, leaving = enter(roster), enter(roster)
    admit(roster, admitted)
    roster.linger(leaving)
    none_passed, empty = trio.Event(), trio.Event()

    async def watch(wait, event):
        await wait()
        event.set()

    nursery.start_soon(watch, roster.wait_none_passed, none_passed)
    nursery.start_soon(watch, roster.wait_empty, empty)
    await wait_all_tasks_blocked()
    assert not none_passed.is_set()
    roster.leave(admitted)
    await wait_all_tasks_blocked()
    assert none_passed.is_set()
    assert not empty.is_set()
    roster.leave(leaving)
    await wait_all_tasks_blocked()
    assert empty.is_set()


@pytest.mark.parametrize("steps", [(), ("take_place",), ("linger",), ("take_place", "linger")])
async def test_whatever_its_way_a_connection_that_left_holds_nothing(steps):
    roster = Roster(connections=1, pending=1)
    for _ in range(3):
        connection = enter(roster)
        for step in steps:
            getattr(roster, step)(connection)
        roster.leave(connection)
    assert len(roster) == 0
    assert list(roster) == []
    assert not roster.full
    assert enter(roster).ended_by is None
