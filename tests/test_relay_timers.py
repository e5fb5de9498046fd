"""Timers: each is called once, in the order of their moments, unless it was given up."""

from hypothesis import given
from hypothesis import strategies as st

from sidecar.relay.timers import Timers


@given(st.lists(st.tuples(st.integers(0, 50), st.booleans()), max_size=200))
def test_what_was_not_given_up_is_called_in_order_and_once(plans):
    timers, called = Timers(), []
    made = [(when, timers.at(when, lambda when=when: called.append(when)), keep) for when, keep in plans]
    for _, timer, keep in made:
        if not keep:
            timers.give_up(timer)
            timers.give_up(timer)
    kept = sorted(when for when, _, keep in made if keep)
    assert timers.next() == (kept[0] if kept else None)
    for now in range(0, 51, 10):
        for action in timers.due(now):
            action()
        assert called == [when for when in kept if when <= now]
    assert timers.next() is None


def test_given_up_ones_are_not_kept_until_their_time():
    timers = Timers()
    keep = timers.at(5.0, list)
    for _ in range(10_000):
        timers.give_up(timers.at(300.0, list))
    assert len(timers._heap) < 200
    assert timers.next() == 5.0
    timers.give_up(keep)
    assert timers.next() is None


def test_one_that_is_called_may_make_another():
    timers, called = Timers(), []

    def again():
        called.append("once")
        timers.at(2.0, lambda: called.append("twice"))

    timers.at(1.0, again)
    for action in timers.due(3.0):
        action()
    assert called == ["once", "twice"]
