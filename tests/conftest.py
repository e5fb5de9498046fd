"""What every test file gets: Hypothesis without deadlines, and the same examples each time where CI is set.

Beside that the fixtures that several files share.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import settings
from trio.testing import MockClock

from tests.house import House, LocalProcess

settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture
def patient_clock():
    """A clock that jumps only once the kernel had a moment: for tests whose bytes are in real sockets."""
    return MockClock(autojump_threshold=0.02)


@pytest.fixture
async def process():
    """A local process that keeps every connection which reaches it."""
    process = LocalProcess()
    yield process
    await process.listener.aclose()


@pytest.fixture
async def house(nursery, process):
    """A listener in front of it, with everything that it needs."""
    return House(nursery, process)
