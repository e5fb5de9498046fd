"""Sets the stage for the story and clears it: the directory, the pods, the signals, the exit code.

Owns that nothing is left behind. Whatever ends the demo, every process is ended and waited for, and the directory is
removed; only when something came out otherwise than told, logs and configurations stay to be read. Called by the
``demo`` command.
"""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import AsyncIterable
from pathlib import Path
from typing import Final, TextIO, TypeVar

import trio

from sidecar.demo import guide
from sidecar.demo.difference import DiffersError
from sidecar.demo.fleet import Fleet
from sidecar.demo.screen import Screen, ScreenLostError, Style
from sidecar.demo.story import Story

_DIFFERS: Final = 1
_SCREEN_LOST: Final = 1
_KILLED_BY: Final = 128  # plus the signal's number: what shells give
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

E = TypeVar("E", bound=BaseException)


class Stage:
    """One performance on *screen*; what goes wrong is told on *errors*.

    With *serve* everything keeps running after the story, until a signal.
    """

    def __init__(self, screen: Screen, errors: TextIO, *, serve: bool) -> None:
        self._screen = screen
        self._errors = errors
        self._serve = serve
        self._serving = False
        self._show = trio.CancelScope()
        self._code = 0

    async def perform(self) -> int:
        """The whole of it. The exit code."""
        # Signals are heard to the very end: a second one must not break into the clearing up after the first.
        with trio.open_signal_receiver(*_SIGNALS) as signals:
            async with trio.open_nursery() as attention:
                attention.start_soon(self._heed, signals)
                directory = Path(tempfile.mkdtemp(prefix="sidecar-demo-"))
                evidence = False
                try:
                    with self._show:
                        await self._play(directory)
                except* DiffersError as differences:
                    self._code = _DIFFERS
                    evidence = True
                    self._complain(differences, directory)
                except* ScreenLostError as losses:
                    self._code = _SCREEN_LOST
                    self._screen.abandon()
                    if reason := str(_first(losses)):
                        self._errors.write(f"sidecar demo: {reason}\n")
                if not evidence:
                    shutil.rmtree(directory)
                attention.cancel_scope.cancel()
        return self._code

    async def _play(self, directory: Path) -> None:
        screen, began = self._screen, trio.current_time()
        screen.paragraph(
            "Three replicas, a sidecar in front of each, and a controller that drives them.", Style.HEADING
        )
        screen.paragraph(
            "Real processes and connections on this machine's loopback, started for this demo and gone after it. "
            "What is printed has happened: each line is checked. All of it goes over mutual TLS, with certificates "
            "made for this demo. After a refusal's reason stands what to do next, and below it what differs: only a "
            "peer whose certificate is allowed is told so much."
        )
        async with trio.open_nursery() as pods:
            fleet = await Fleet.launch(directory, pods)
            self._introduce(fleet)
            story = Story(fleet, screen)
            try:
                await story.tell()
                if self._serve:
                    self._serving = True
                    self._conclude(began)
                    guide.show(screen, fleet, directory)
                    await trio.sleep_forever()
            finally:
                story.close()
            await fleet.end(*(pod.record.ordinal for pod in fleet))
        self._conclude(began)

    def _introduce(self, fleet: Fleet) -> None:
        rows = [
            (f"{record.host}:{fleet.ports.shard}", record.identity, record.generation.value, record.instance)
            for record in (pod.record for pod in fleet)
        ]
        self._screen.blank()
        self._screen.table(("sidecar listens at", "slot", "generation", "instance (the pod's UID)"), rows)

    def _conclude(self, began: float) -> None:
        self._screen.ending(f"All of it came out as told, in {trio.current_time() - began:.1f} seconds.")

    async def _heed(self, signals: AsyncIterable[int]) -> None:
        async for number in signals:
            if not self._show.cancel_called:
                self._code = 0 if self._serving else _KILLED_BY + number
                self._show.cancel()

    def _complain(self, differences: BaseExceptionGroup[DiffersError], directory: Path) -> None:
        difference = _first(differences)
        self._errors.write(
            "sidecar demo: this came out otherwise than told:\n"
            f"  what      {difference.what}\n"
            f"  expected  {difference.expected}\n"
            f"  happened  {difference.happened}\n"
            f"  logs and configurations are kept in {directory}\n"
        )


def _first(group: BaseExceptionGroup[E]) -> E:
    """What came of nothing else."""
    first = group.exceptions[0]
    return _first(first) if isinstance(first, BaseExceptionGroup) else first
