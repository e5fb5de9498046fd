"""Asking a running sidecar's admin server, for the commands that do.

Owns the one blocking HTTP exchange that they make, and what to say when nobody answers. Knows no page. The commands
load it only when they run.
"""

from __future__ import annotations

import http.client
import socket
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from sidecar.dialler import TcpTarget, UnixTarget, parse_target
from sidecar.errors import SidecarError
from sidecar.preface.printable import printable

SECONDS: Final = 5.0  # for each step of an exchange that never leaves the host

_SHOWN: Final = 120  # characters of what somebody said who is no sidecar


class NoAdminError(SidecarError):
    """The admin server doesn't answer, or not as one does."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the admin server answered."""

    status: int
    text: str


@dataclass(frozen=True, slots=True)
class Admin:
    """An admin server's address."""

    spelling: str
    target: TcpTarget | UnixTarget

    @classmethod
    def parse(cls, text: str) -> Admin:
        """The admin server at *text*. Raises MalformedValue."""
        return cls(text, parse_target(text))

    def ask(self, method: str, path: str) -> Reply:
        """One request and its reply, whatever its status.

        Raises:
            NoAdminError: nobody answers, or somebody who doesn't speak HTTP.
        """
        connection = self._connection()
        try:
            connection.request(method, path)
            response = connection.getresponse()
            return Reply(response.status, response.read().decode("utf-8", "backslashreplace").rstrip("\n"))
        except (OSError, http.client.HTTPException) as error:
            raise NoAdminError(
                f"no sidecar answers at {self.spelling} ({_words(error)}): is it running, and is that its "
                "admin.listen? --admin says where else"
            ) from error
        finally:
            connection.close()

    def do(self, method: str, path: str) -> str:
        """The text of a reply that says yes.

        Raises:
            NoAdminError: as ``ask``, or the reply says no.
        """
        return self.granted(self.ask(method, path), method, path)

    def granted(self, reply: Reply, method: str, path: str) -> str:
        """The text of *reply*, which says yes. Raises NoAdminError where it doesn't."""
        if reply.status != HTTPStatus.OK:
            raise NoAdminError(
                f"{self.spelling} answered {method} {path} with {reply.status}: {_shown(reply.text.encode())}"
            )
        return reply.text

    def _connection(self) -> http.client.HTTPConnection:
        if isinstance(self.target, UnixTarget):
            return _UnixConnection(self.target.path)
        return http.client.HTTPConnection(self.target.host, self.target.port, timeout=SECONDS)


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(SECONDS)
        self.sock.connect(self._path)


def _words(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"nothing within {SECONDS:g} seconds"
    if isinstance(error, http.client.BadStatusLine) and not isinstance(error, OSError):
        return f"no HTTP came back: {_shown(str(error).encode('latin-1'))}"
    return (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__


def _shown(said: bytes) -> str:
    """What a stranger said, so that it fits a line and can't move a terminal's cursor."""
    return printable(said.strip(), _SHOWN)
