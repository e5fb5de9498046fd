"""An admitted connection as one thing: both of its ends, in the test's hands."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from dataclasses import dataclass

from kernel import is_reset, receive_exactly, silent_for
from names import CLAIM
from replica import LocalProcess, Sidecar

from sidecar.preface.claim import Claim


@dataclass(frozen=True)
class Pair:
    """The controller's end and the local process's."""

    client: socket.socket
    upstream: socket.socket

    @property
    def peer(self) -> tuple[str, int]:
        """The controller's address, by which the log knows the connection."""
        address: tuple[str, int] = self.client.getsockname()
        return address

    @property
    def works(self) -> bool:
        """Whether bytes still pass in both directions."""
        self.client.sendall(b"ping")
        self.upstream.sendall(b"pong")
        return receive_exactly(self.upstream, 4) + receive_exactly(self.client, 4) == b"pingpong"

    @property
    def is_cut(self) -> bool:
        """Whether both ends are reset; waits for it."""
        return is_reset(self.client) and is_reset(self.upstream)

    @property
    def is_cut_already(self) -> bool:
        """The same, without waiting."""
        return not silent_for(self.client, 0) and not silent_for(self.upstream, 0) and self.is_cut


class Pairs:
    """Makes pairs in front of one local process, and closes them all in the end."""

    def __init__(self, local_process: LocalProcess) -> None:
        self._local_process = local_process
        self._ends = ExitStack()

    def admit(self, sidecar: Sidecar, claim: Claim = CLAIM, *, listener: str = "") -> Pair:
        """A connection that *sidecar* has admitted."""
        pair = Pair(*sidecar.admit(self._local_process, claim, listener=listener))
        for end in (pair.client, pair.upstream):
            self._ends.enter_context(end)
        return pair

    def close(self) -> None:
        """Close every end."""
        self._ends.close()
