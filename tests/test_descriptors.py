"""What the descriptors carry."""

import resource
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.descriptors import RESERVED, Places, fit

WANTED = Places(4096, 1024)


def test_with_plenty_nothing_is_lowered():
    assert fit(WANTED, 100_000) == WANTED


@pytest.mark.parametrize("descriptors", [16, 64, 1024, 5000])
def test_with_few_both_are_lowered_and_never_to_nothing(descriptors):
    places = fit(WANTED, descriptors)
    assert 1 <= places.connections < WANTED.connections
    assert 1 <= places.pending <= WANTED.pending


@given(st.integers(1, 10**6), st.integers(1, 10**6), st.integers(16, 10**6))
def test_all_that_may_be_open_at_once_fits(connections, pending, descriptors):
    """Two for each admitted one, one for each that waits, one for each whose refusal is on its way."""
    places = fit(Places(connections, pending), descriptors)
    assert 2 * places.connections + 2 * places.pending + min(RESERVED, descriptors // 4) <= descriptors
    assert places.connections <= connections
    assert places.pending <= pending


def test_the_soft_limit_is_raised_to_the_hard_one():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    script = (
        "import resource; from sidecar.descriptors import raise_limit;"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, (100, {hard}));"
        "print(raise_limit(), *resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(hard)] * 3
