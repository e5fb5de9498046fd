"""Child processes that end with their parent, however that ends.

Owns one trick of the kernel. Cancelling ends a child while this program runs; but nobody cancels anything when it is
killed with SIGKILL, and then its children would live on. So each child's stdin is the reading end of a pipe that
signals its owner, made the child here, when something happens to it; and all that can happen is that the writing end
closes, which the kernel does for every process that ends. (PR_SET_PDEATHSIG would fire when the *thread* ends that
started the child, and trio starts processes from worker threads.)
"""

from __future__ import annotations

import fcntl
import os
import signal
from types import TracebackType
from typing import Self


class Leash:
    """Give ``child_end`` to a child as its stdin, then ``tie`` it. Leaving the block ends the child by SIGTERM."""

    def __enter__(self) -> Self:
        self.child_end, self._own_end = os.pipe()  # neither is inherited but where Popen passes it on
        return self

    def tie(self, pid: int) -> None:
        """Make the child *pid* the one that is signalled."""
        fcntl.fcntl(self.child_end, fcntl.F_SETOWN, pid)
        fcntl.fcntl(self.child_end, fcntl.F_SETSIG, signal.SIGTERM)
        flags = fcntl.fcntl(self.child_end, fcntl.F_GETFL)
        fcntl.fcntl(self.child_end, fcntl.F_SETFL, flags | os.O_ASYNC)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        os.close(self._own_end)
        os.close(self.child_end)
