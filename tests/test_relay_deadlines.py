"""Which limit of a connection has passed, and when the next one does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.reasons import End
from sidecar.relay.deadlines import LIFETIME_JITTER, NEVER, Deadlines
from sidecar.relay.terms import RelayTimes


def deadlines(*, half_close=None, idle=None, lifetime=None):
    return Deadlines(RelayTimes(half_close, idle, lifetime), now=100.0)


def test_without_limits_nothing_ever_passes():
    each = deadlines()
    each.half_closed_at = 100.0
    assert each.next() == NEVER
    assert each.passed(1e12) is None


def test_half_close_counts_from_the_first_end_of_stream():
    each = deadlines(half_close=10)
    assert each.next() == NEVER
    each.half_closed_at = 150.0
    assert each.next() == 160.0
    assert each.passed(159.9) is None
    assert each.passed(160.0) is End.HALF_CLOSE


def test_idle_counts_from_the_last_byte():
    each = deadlines(idle=10)
    each.active_at = 130.0
    assert (each.passed(139.0), each.passed(140.0)) == (None, End.IDLE)


@given(st.floats(1, 1e6))
def test_a_lifetime_is_shortened_by_a_tenth_at_most(seconds):
    due = deadlines(lifetime=seconds).next() - 100.0
    assert seconds * (1 - LIFETIME_JITTER) <= due + 1e-6
    assert due <= seconds + 1e-6


def test_those_that_are_made_together_do_not_end_together():
    assert len({deadlines(lifetime=1000).next() for _ in range(20)}) > 10


@pytest.mark.parametrize("now", [500.0, 1000.0])
def test_being_idle_comes_last(now):
    each = deadlines(half_close=10, idle=10, lifetime=20)
    each.half_closed_at = 100.0
    assert each.passed(now) is End.HALF_CLOSE
    each.half_closed_at = None
    assert each.passed(now) is End.LIFETIME
