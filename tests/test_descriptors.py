"""What the descriptors carry."""

import resource
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.descriptors import RESERVED, Places, fit, http_connections, pipes

WANTED = Places(4096, 1024)


def test_with_plenty_nothing_is_lowered():
    assert fit(WANTED, 100_000) == WANTED


@pytest.mark.parametrize("descriptors", [16, 64, 1024, 5000])
def test_with_few_both_are_lowered_and_never_to_nothing(descriptors):
    places = fit(WANTED, descriptors)
    assert 1 <= places.connections < WANTED.connections
    assert 1 <= places.pending <= WANTED.pending


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(16, 10**6), st.sampled_from([1, 2]))
def test_all_that_may_be_open_at_once_fits(connections, pending, descriptors, each):
    """So many for each admitted one, one for each that waits, one for each whose refusal is on its way."""
    places = fit(Places(connections, pending), descriptors, each=each)
    taken = each * places.connections + places.pending + places.lingering
    assert taken + min(RESERVED, descriptors // 4) <= descriptors
    assert places.connections <= connections
    assert places.pending <= pending


def test_eight_thousand_pairs_fit_into_twenty_thousand_and_twice_as_many_that_are_handed_over():
    assert fit(Places(8000, 1024), 20_000).connections == 8000
    assert fit(Places(16_000, 1024), 20_000, each=1).connections == 16_000


@given(st.integers(64, 10**6))
def test_what_is_reserved_carries_both_http_servers_and_the_pipes(descriptors):
    reserved = min(RESERVED, descriptors // 4)
    assert 2 * http_connections(descriptors) + 2 * pipes(descriptors) <= reserved


def test_the_soft_limit_is_raised_to_the_hard_one():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    script = (
        "import resource; from sidecar.descriptors import raise_limit;"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, (100, {hard}));"
        "print(raise_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(hard)] * 3
