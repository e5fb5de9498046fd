from __future__ import annotations

import pytest

from sidecar.tls.choice import Choice, Found
from sidecar.tls.material import ANY_DOMAIN, Credentials, Crls, Roots
from tests.certificates import CA, HOUR, now

NOW = now()
ROOT, OTHER = CA("root"), CA("other")
ROOTS, NEWER_ROOTS = (Roots({ANY_DOMAIN: (ca.certificate,)}) for ca in (ROOT, OTHER))
NO_CRLS, CRLS = Crls(), Crls((ROOT.crl(),))


def own(start=-HOUR, end=HOUR):
    passed = now() - NOW  # the suite takes minutes to come here
    leaf = ROOT.issue(start=start - passed, end=end - passed)
    return Credentials(leaf.chain, leaf.key)


OLD, NEW = own(), own()
SERVED = Choice(OLD, None, ROOTS, NO_CRLS)


def test_what_is_good_is_taken():
    assert SERVED.after(Found(NEW, NEWER_ROOTS, CRLS), NOW) == (Choice(NEW, None, NEWER_ROOTS, CRLS), ())


def test_a_bad_pair_keeps_the_old_one_and_holds_up_no_new_list():
    chosen, problems = SERVED.after(Found(None, NEWER_ROOTS, CRLS, ("doesn't fit",)), NOW)
    assert chosen == Choice(OLD, None, NEWER_ROOTS, CRLS)
    assert problems == ("doesn't fit",)


def test_bad_roots_and_lists_keep_the_old_ones_and_hold_up_no_new_pair():
    listed = Choice(OLD, None, ROOTS, CRLS)
    assert listed.after(Found(NEW, None, None, ("x", "y")), NOW) == (Choice(NEW, None, ROOTS, CRLS), ("x", "y"))


def test_lists_that_became_empty_are_taken():
    assert Choice(OLD, None, ROOTS, CRLS).after(Found(OLD, ROOTS, NO_CRLS), NOW)[0].crls == NO_CRLS


def test_a_pair_of_tomorrow_waits_and_what_comes_with_it_doesnt():
    tomorrow = own(start=20)
    chosen, problems = SERVED.after(Found(tomorrow, NEWER_ROOTS, CRLS), NOW)
    assert chosen == Choice(OLD, tomorrow, NEWER_ROOTS, CRLS)
    assert problems == ()


def test_a_pair_that_waits_is_taken_when_it_starts():
    tomorrow = own(start=20)
    waiting, _ = SERVED.after(Found(tomorrow, ROOTS, NO_CRLS), NOW)
    assert waiting.at(tomorrow.not_before - 0.001) == waiting
    assert waiting.at(tomorrow.not_before) == Choice(tomorrow, None, ROOTS, NO_CRLS)


def test_a_chain_waits_for_the_last_of_it_to_start():
    ca = CA("tomorrow's", parent=ROOT, start=HOUR)
    leaf = ca.issue()
    chosen, _ = SERVED.after(Found(Credentials(leaf.chain, leaf.key), ROOTS, NO_CRLS), NOW)
    assert chosen.own == OLD


def test_a_pair_in_date_takes_the_place_of_one_that_waits():
    chosen, _ = Choice(OLD, own(start=20), ROOTS, NO_CRLS).after(Found(NEW, ROOTS, NO_CRLS), NOW)
    assert (chosen.own, chosen.waiting) == (NEW, None)


def test_an_expired_pair_never_takes_the_place_of_a_better_one():
    chosen, problems = SERVED.after(Found(own(end=-5), ROOTS, CRLS), NOW)
    assert chosen == Choice(OLD, None, ROOTS, CRLS)
    (problem,) = problems
    assert "expired at 20" in problem


def test_an_expired_pair_is_served_where_there_is_none_better():
    expired, more_so = own(end=-5), own(end=-50)
    assert Choice().after(Found(expired, ROOTS, NO_CRLS), NOW)[0].own == expired
    assert Choice(more_so, None, ROOTS, NO_CRLS).after(Found(expired, ROOTS, NO_CRLS), NOW)[0].own == expired


def test_a_pair_that_expires_sooner_is_taken_while_it_is_valid():
    sooner = own(end=60)
    assert SERVED.after(Found(sooner, ROOTS, NO_CRLS), NOW)[0].own == sooner


@pytest.mark.parametrize(
    "choice", [Choice(), Choice(OLD, None, None, CRLS), Choice(OLD, None, ROOTS, None), Choice(None, None, ROOTS, CRLS)]
)
def test_nothing_is_served_before_every_part_is_there(choice):
    assert choice.material is None
    assert not choice.complete


def test_where_the_only_pair_waits_nothing_is_missing_and_nothing_served():
    choice = Choice(None, own(start=20), ROOTS, CRLS)
    assert choice.complete
    assert choice.material is None


def test_the_same_chain_is_the_same_credentials():
    leaf = ROOT.issue()
    assert Credentials(leaf.chain, leaf.key) == Credentials(leaf.chain, ROOT.key)
