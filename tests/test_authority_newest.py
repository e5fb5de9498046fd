"""The newest record: late results are dropped, and going back is noticed."""

from hypothesis import given
from hypothesis import strategies as st

from sidecar.assignment import Assignment, Regressed, Unassigned, Unavailable
from sidecar.authority.newest import Newest, Taken
from sidecar.identity import Generation

SIX, SEVEN, EIGHT = (Assignment(Generation(number)) for number in (6, 7, 8))


def test_before_the_first_record_it_says_why_there_is_none():
    newest = Newest()
    assert newest.record == Unavailable("nothing has been read yet")
    newest.take(1, Unavailable("connection refused"), floor=None, begun=1)
    assert newest.record == Unavailable("connection refused")


def test_the_first_record_is_news_and_the_same_again_is_not():
    newest = Newest()
    assert newest.take(1, SEVEN, floor=None, begun=1) == Taken(SEVEN, changed=True)
    assert newest.take(2, SEVEN, floor=Generation(7), begun=2) == Taken(SEVEN)
    assert newest.record == SEVEN


def test_a_result_that_comes_late_is_dropped_and_answered_with_the_newest():
    newest = Newest()
    newest.take(2, Assignment(Generation(8)), floor=Generation(7), begun=2)
    assert newest.take(1, SEVEN, floor=Generation(8), begun=2) == Taken(EIGHT)
    assert newest.record == EIGHT


def test_of_two_reads_at_once_the_later_one_may_have_looked_earlier():
    """It began before the newest record was known, so being behind it means nothing."""
    newest = Newest()
    newest.take(1, EIGHT, floor=None, begun=2)
    assert newest.take(2, SEVEN, floor=Generation(8), begun=2) == Taken(EIGHT)
    assert isinstance(newest.take(3, SEVEN, floor=Generation(8), begun=3).reading, Regressed)


def test_a_result_behind_the_floor_is_a_regress_that_says_both_and_changes_nothing():
    newest = Newest()
    newest.take(1, EIGHT, floor=None, begun=1)
    taken = newest.take(2, SEVEN, floor=Generation(8), begun=2)
    assert isinstance(taken.reading, Regressed)
    assert "generation 7" in taken.reading.detail
    assert "8 was seen" in taken.reading.detail
    assert not taken.changed
    assert newest.record == EIGHT
    assert newest.latest == taken.reading


def test_a_failure_keeps_the_record_and_shows_as_the_latest():
    newest = Newest()
    newest.take(1, SEVEN, floor=None, begun=1)
    assert newest.take(2, Unavailable("down"), floor=Generation(7), begun=2) == Taken(Unavailable("down"))
    assert (newest.record, newest.latest) == (SEVEN, Unavailable("down"))
    newest.take(3, SEVEN, floor=Generation(7), begun=3)
    assert newest.latest == SEVEN


def test_a_failure_that_comes_late_does_not_hide_a_success():
    newest = Newest()
    newest.take(2, SEVEN, floor=None, begun=2)
    newest.take(1, Unavailable("down"), floor=None, begun=1)
    assert newest.latest == SEVEN


def test_an_assignment_that_is_gone_is_news():
    newest = Newest()
    newest.take(1, SEVEN, floor=None, begun=1)
    assert newest.take(2, Unassigned(pending=False), floor=Generation(7), begun=2) == Taken(
        Unassigned(pending=False), changed=True
    )


def test_another_instance_at_the_same_generation_is_news():
    newest = Newest()
    newest.take(1, SEVEN, floor=None, begun=1)
    assert newest.take(2, Assignment(None), floor=None, begun=2).changed


@given(st.lists(st.tuples(st.integers(1, 20), st.integers(1, 5)), max_size=30, unique_by=lambda pair: pair[0]))
def test_whatever_the_order_of_results_the_record_never_goes_back(results):
    newest, floor, seen = Newest(), None, []
    for number, generation in results:
        taken = newest.take(number, Assignment(Generation(generation)), floor=floor, begun=20)
        if taken.changed:
            floor = max(filter(None, [floor, taken.reading.generation]))
        if isinstance(newest.record, Assignment):
            seen.append(newest.record.generation)
    assert seen == sorted(seen)
