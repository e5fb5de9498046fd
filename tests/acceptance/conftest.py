"""Running sidecars for the acceptance tests.

One serves all tests that can share it, since starting a process takes the better part of a second; a test that needs
other settings, or ends the process, starts its own with ``start``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from pairs import Pairs
from processes import eventually
from replica import PLACES, LocalProcess, Sidecar, sidecar_at

Start = Callable[..., Sidecar]


@pytest.fixture(scope="session")
def shared_local_process() -> Iterator[LocalProcess]:
    with closing(LocalProcess()) as local_process:
        yield local_process


@pytest.fixture(scope="session")
def shared_sidecar(shared_local_process: LocalProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sidecar]:
    with sidecar_at(tmp_path_factory.mktemp("shared"), shared_local_process.address) as running:
        yield running


@pytest.fixture(scope="session")
def shared_hasty_sidecar(
    shared_local_process: LocalProcess, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sidecar]:
    times = {"assignment": {"timeout": "300ms"}, "timeouts": {"preface": "400ms"}}
    with sidecar_at(tmp_path_factory.mktemp("hasty"), shared_local_process.address, **times) as running:
        yield running


@pytest.fixture
def local_process(shared_local_process: LocalProcess) -> Iterator[LocalProcess]:
    """The local process behind ``sidecar`` and ``hasty_sidecar``. A test accepts every connection that reaches it."""
    yield shared_local_process
    assert shared_local_process.untouched, "a connection reached the local process, and the test doesn't know of it"


@pytest.fixture
def sidecar(shared_sidecar: Sidecar, local_process: LocalProcess) -> Iterator[Sidecar]:
    """A sidecar with the settings of ``replica.configuration``. A test leaves no connection behind."""
    yield shared_sidecar
    assert eventually(lambda: shared_sidecar.idle), shared_sidecar.status()["connections"]


@pytest.fixture
def hasty_sidecar(shared_hasty_sidecar: Sidecar, local_process: LocalProcess) -> Iterator[Sidecar]:
    """The same, but for the 400 ms that it gives a preface."""
    yield shared_hasty_sidecar
    assert eventually(lambda: shared_hasty_sidecar.idle), shared_hasty_sidecar.status()["connections"]


@pytest.fixture(scope="module")
def own_shared_process() -> Iterator[LocalProcess]:
    """A local process for the sidecars of a file's own."""
    with closing(LocalProcess()) as local_process:
        yield local_process


@pytest.fixture(scope="module")
def places() -> Iterator[str]:
    """The listeners of a file's sidecars, one after the other."""
    return iter(PLACES)


@pytest.fixture
def place(places: Iterator[str]) -> str:
    """A listener that no other test of the file has used."""
    return next(places)


@pytest.fixture
def own_local_process() -> Iterator[LocalProcess]:
    """A local process for a sidecar of the test's own."""
    with closing(LocalProcess()) as local_process:
        yield local_process


@pytest.fixture
def pairs(own_local_process: LocalProcess) -> Iterator[Pairs]:
    """Admitted connections in front of ``own_local_process``; what is left of them is closed after the test."""
    with closing(Pairs(own_local_process)) as pairs:
        yield pairs


@pytest.fixture
def start(own_local_process: LocalProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts a sidecar in front of ``own_local_process``, or of *upstream*; it is stopped after the test."""
    with ExitStack() as stop:

        def start(*, upstream: str | None = None, **sections: object) -> Sidecar:
            folder: Path = tmp_path_factory.mktemp("own")
            return stop.enter_context(sidecar_at(folder, upstream or own_local_process.address, **sections))

        yield start
