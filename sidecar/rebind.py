"""A listener that stays reachable.

Owns what happens when the file of a Unix listener's socket is removed while the sidecar runs, by somebody who cleans up
or by a volume that is made anew: the socket would go on listening where nobody can find it. It is bound again, unless
something else stands there now, which is left alone. TCP listeners have no such file and stay as they are. Accepts
nothing itself; built by ``app``, which says how connections are taken.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NoReturn

import trio

from sidecar.bind import Bound
from sidecar.errors import StartError
from sidecar.log import Logger

LOOK_SECONDS: Final = 3.0  # between two looks at the file: well within the 10 s that are promised
SAY_AGAIN_SECONDS: Final = 60.0


class Door(trio.abc.AsyncResource):
    """One configured listener's sockets, whichever they are at the moment. Closing it closes them.

    Args:
        bound: where it listens from the start.
        bind_again: binds the same address once more, and clears nothing out of its way.
        listener: its name, for the log.
        logger: told when it is bound again, or can't be.
    """

    def __init__(
        self, bound: Bound, bind_again: Callable[[], Awaitable[Bound]], *, listener: str, logger: Logger
    ) -> None:
        self._bound = bound
        self._bind_again = bind_again
        self._listener = listener
        self._logger = logger

    @property
    def listeners(self) -> Sequence[trio.SocketListener]:
        """The sockets that listen now."""
        return self._bound.listeners

    @property
    def addresses(self) -> Sequence[str]:
        """Where they listen: the same for life."""
        return self._bound.addresses

    async def serve(self, accept: Callable[[trio.SocketListener], Awaitable[None]]) -> NoReturn:
        """Run *accept*, which takes connections until it is cancelled, on each socket, and on those that follow it."""
        while True:
            lost = self._bound
            try:
                async with trio.open_nursery() as accepting:
                    for listening in lost.listeners:
                        accepting.start_soon(accept, listening)
                    self._bound = await self._successor()
                    accepting.cancel_scope.cancel()
            finally:
                if self._bound is not lost:
                    await lost.aclose()

    async def aclose(self) -> None:
        """Stop listening."""
        await self._bound.aclose()

    async def _successor(self) -> Bound:
        """The same address, bound again once the present socket's file is gone."""
        said_at = float("-inf")
        while True:
            await trio.sleep(LOOK_SECONDS)
            if self._bound.is_there():
                continue
            try:
                bound = await self._bind_again()
            except StartError as error:
                if trio.current_time() - said_at >= SAY_AGAIN_SECONDS:
                    said_at = trio.current_time()
                    self._logger.error(  # noqa: TRY400  it says what to do; a traceback says nothing
                        "listener_unreachable",
                        listener=self._listener,
                        error=error,
                        advice="its socket's file was removed: make room at its path, and it is bound again",
                    )
            else:
                self._logger.warning("listening_again", listener=self._listener, addresses=list(bound.addresses))
                return bound
