"""Coroutines that run as plain calls for as long as they needn't wait, and borrow a trio task while they must.

Theory of operation. A task for each connection costs more than the kernel takes for the connection's whole life, and
one for each idle connection costs memory. Most connections wait for nothing before their verdict, and after it for one
thing alone: that the relay says how they ended. So :func:`start` drives a connection's coroutine by hand, in the
caller's call. It stops at the first of two requests:

- ``await borrow_task()``: from here on trio may be waited for. The rest runs in a task of the nursery, until
- ``await parked(begin)``: the task, if there is one, is given back. ``begin`` is called with a callable that takes the
  result, and the coroutine goes on inside that call, by hand again.

So one coroutine still tells a connection's life from top to bottom, and it is the same code whether it waited or not.
asyncio knows the first half as eager tasks. Rejected: the same steps twice, as calls and as a task, which drift apart;
and a state machine of callbacks, which nobody reads from top to bottom.

The rules: nothing of trio's is awaited, and no cancel scope or nursery entered, without a borrowed task; none is open
across ``parked``. What is awaited without a task raises RuntimeError in the coroutine. A coroutine raises nothing: its
boundary is its own. Knows nothing of connections; called by ``connection`` and ``hand_over``.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

import trio

Result = TypeVar("Result")
Resume = Callable[[Result], None]


class _BorrowTask:
    """The request for one."""


class _Park:
    """The request to go on when somebody calls."""

    __slots__ = ("begin",)

    def __init__(self, begin: Callable[[Resume[Any]], None]) -> None:
        self.begin = begin


_BORROW_TASK = _BorrowTask()
_Eager = Coroutine[Any, Any, None]


def start(nursery: trio.Nursery, coroutine: _Eager) -> None:
    """Run *coroutine* now, as far as it goes; what it must wait for, it waits for in a task of *nursery*."""
    _drive(nursery, coroutine, None)


@types.coroutine
def borrow_task() -> Generator[_BorrowTask, None, None]:
    """From here on trio may be waited for."""
    yield _BORROW_TASK


@types.coroutine
def parked(begin: Callable[[Resume[Result]], None]) -> Generator[_Park, Any, Result]:
    """Go on, without a task, when the callable that *begin* is given is called; its argument is the result.

    It is called once, in trio's thread. What *begin* raises is raised here.
    """
    result: Result = yield _Park(begin)
    return result


def _drive(nursery: trio.Nursery, coroutine: _Eager, value: object) -> None:
    request = _sent(coroutine, value)
    while request is not None:
        if request is _BORROW_TASK:
            try:
                nursery.start_soon(_in_task, nursery, coroutine)
            except RuntimeError as error:  # no more tasks there: all of it is ending
                request = _thrown(coroutine, error)
            else:
                return
        elif isinstance(request, _Park):
            request = _parked(nursery, coroutine, request)
        else:
            request = _thrown(coroutine, RuntimeError("awaited without a borrowed task"))


async def _in_task(nursery: trio.Nursery, coroutine: _Eager) -> None:
    await _carry(nursery, coroutine)


@types.coroutine
def _carry(nursery: trio.Nursery, coroutine: _Eager) -> Generator[Any, Any, None]:
    """Drive *coroutine* in the task that awaits this, and pass on what it waits for, until it parks or ends."""
    request = _sent(coroutine, None)
    while request is not None:
        if request is _BORROW_TASK:
            request = _sent(coroutine, None)
        elif isinstance(request, _Park):
            request = _parked(nursery, coroutine, request)
        else:
            try:
                value = yield request
            except BaseException as error:  # noqa: BLE001  trio throws Cancelled: it is the coroutine's to handle
                request = _thrown(coroutine, error)
            else:
                request = _sent(coroutine, value)


def _parked(nursery: trio.Nursery, coroutine: _Eager, park: _Park) -> object | None:
    """Let it be called back. None: it will be, or it is over; else its next request, since that couldn't be begun."""
    try:
        park.begin(lambda result: _drive(nursery, coroutine, result))
    except Exception as error:  # noqa: BLE001  its boundary is its own
        return _thrown(coroutine, error)
    return None


def _sent(coroutine: _Eager, value: object) -> object | None:
    """Its next request; None: it is over."""
    try:
        request: object = coroutine.send(value)
    except StopIteration:
        return None
    return request


def _thrown(coroutine: _Eager, error: BaseException) -> object | None:
    try:
        request: object = coroutine.throw(error)
    except StopIteration:
        return None
    return request
