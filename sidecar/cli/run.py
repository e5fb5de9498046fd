"""``sidecar run``: the sidecar itself.

Owns the order in which a process comes to be one: configuration first, then the log, then the rest (``app``); and what
signals do before ``app`` heeds them and after.
"""

from __future__ import annotations

import argparse
import gc
import signal
import sys
from collections.abc import Awaitable, Callable
from functools import partial
from types import FrameType
from typing import Final

_ENDING: Final = (signal.SIGTERM, signal.SIGINT)
_LOOK_AGAIN_SECONDS: Final = 0.01
_ALLOCATIONS_BETWEEN_COLLECTIONS: Final = 20_000  # of some 30 that a connection makes; Python's own number is 700


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command to *subparsers*."""
    parser = subparsers.add_parser(
        "run", help="run the sidecar", description="Run the sidecar until SIGTERM or SIGINT; a second one cuts at once."
    )
    parser.add_argument("config", metavar="CONFIG", help="the YAML file")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Run until a signal ends it. Raises ConfigurationError, StartError."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a reload that is asked for before there is anything to reload

    import trio

    from sidecar import app
    from sidecar.cli.configuration import read_config
    from sidecar.config.explain import explain
    from sidecar.log import LogSwitch, build_logger

    config = read_config(options.config)
    switch = LogSwitch(sys.stderr)
    logger = build_logger(config.log.format, config.log.level, sys.stderr, switch)
    for remark in explain(config):
        if remark.warning:
            logger.warning("configuration", about=remark.about, remark=remark.text)
        elif remark.about == "assignment":
            logger.info("configuration", about=remark.about, remark=remark.text)
    reread = partial(read_config, options.config)
    _collect_rarely()
    return trio.run(_with_signals, partial(app.run, config, logger, reread=reread, switch=switch))


def _collect_rarely() -> None:
    """Look for reference cycles less often, and never among what was loaded by now.

    A collection walks the live objects of every connection, and by default comes after a few dozen of them: a tenth of
    what a refusal costs. Nothing that a connection leaves behind waits for it but a few objects.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS_BETWEEN_COLLECTIONS, 10, 10)


async def _with_signals(run_app: Callable[[], Awaitable[int]]) -> int:
    """Run the app; once it has heeded signals, one that comes too late for it changes no exit code."""
    import trio

    trio.lowlevel.spawn_system_task(_Unheeded().wait_heeded)
    try:
        return await run_app()
    finally:
        for number in (*_ENDING, signal.SIGHUP):  # the interpreter, on its way out, takes handlers away but not this
            signal.signal(number, signal.SIG_IGN)


class _Unheeded:
    """Handles signals that nobody waits for: they end the process before the app has begun to, and do nothing after.

    When the app leaves, it puts the handlers back that it found, which are these, and they get whatever it hadn't come
    to. Ignoring signals from the start would be simpler, and a pod that is told to end while it starts would go on.
    """

    def __init__(self) -> None:
        self._were_heeded = False
        for number in _ENDING:
            signal.signal(number, self._handle)

    async def wait_heeded(self) -> None:
        """Return once the app has handlers of its own in place of these."""
        import trio

        # Nothing tells when a handler changes, but the app's first pause comes after that: there is no second look.
        while signal.getsignal(signal.SIGTERM) == self._handle:  # noqa: ASYNC110  as just said
            await trio.sleep(_LOOK_AGAIN_SECONDS)
        self._were_heeded = True

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if not self._were_heeded:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
