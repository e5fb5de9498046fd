"""The pages for who is inside the pod: what is going on, by name, and the buttons.

Owns the pages' shape and their guard. The admin server listens on loopback or a Unix socket only, but a browser on the
same host can be talked into sending requests there: whatever names another host (DNS rebinding) is refused, and so is
every button pressed by a web page. Knows the process only through :class:`Control`, which ``app`` implements.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from http import HTTPStatus
from ipaddress import ip_address
from typing import Protocol
from urllib.parse import urlsplit

from sidecar.http_server import Handler, Request, Response, Routes, text
from sidecar.log import to_json


@dataclass(frozen=True, slots=True)
class ListenerStatus:
    """One listener. ``counts`` are those of ``ListenerMetrics.counts``."""

    name: str
    addresses: Sequence[str]
    counts: Mapping[str, int | Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class ConnectionStatus:
    """One live connection. ``claim`` is what it said that it expects, as text."""

    id: int
    listener: str
    peer: str
    local: str
    claim: Mapping[str, str]
    state: str
    seconds: float
    bytes_up: int
    bytes_down: int


@dataclass(frozen=True, slots=True)
class Status:
    """What ``/status`` shows. ``not_ready`` is empty where the sidecar is ready."""

    identity: str
    generation: int | None
    instance: str | None
    state: str
    not_ready: Sequence[str]
    draining: bool
    listeners: Sequence[ListenerStatus]
    connections: Sequence[ConnectionStatus]


class Control(Protocol):
    """What the pages show and do."""

    def status(self) -> Status:
        """How things are at this moment."""

    def refusals(self) -> Sequence[Mapping[str, object]]:
        """The last refusals, oldest first."""

    def drain(self) -> None:
        """Refuse new claims and turn readiness off from now on; end nothing."""

    async def reload(self) -> list[str]:
        """Read the configuration again. What is wrong with it; empty: it is in effect."""

    def shutdown(self) -> None:
        """Begin the orderly end of the process."""


def routes(telemetry: Routes, control: Control) -> Routes:
    """The admin server's pages: those of telemetry, and its own."""

    def status(_request: Request) -> Response:
        return _json(_plain(control.status()))

    def refusals(_request: Request) -> Response:
        return _json(list(control.refusals()))

    async def reload(_request: Request) -> Response:
        problems = await control.reload()
        return text("\n".join(problems), HTTPStatus.UNPROCESSABLE_ENTITY) if problems else text("reloaded")

    own: Routes = {
        ("GET", "/status"): status,
        ("GET", "/refusals"): refusals,
        ("POST", "/drain"): _button(control.drain, "draining"),
        ("POST", "/reload"): _pressed(reload),
        ("POST", "/shutdown"): _button(control.shutdown, "shutting down"),
    }
    return {route: _guarded(handler) for route, handler in {**telemetry, **own}.items()}


def _plain(value: object) -> object:
    """Records as dicts. ``asdict`` would copy every value too, which takes the loop's time where many are connected."""
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    return [_plain(each) for each in value] if isinstance(value, list) else value


def _json(value: object) -> Response:
    return Response(to_json(value).encode() + b"\n", content_type="application/json")


def _button(press: Callable[[], None], said: str) -> Handler:
    def handle(_request: Request) -> Response:
        press()
        return text(said)

    return _pressed(handle)


def _pressed(handler: Handler) -> Handler:
    def handle(request: Request) -> Response | Awaitable[Response]:
        if "origin" in request.headers:  # browsers send it with every POST
            return text("not for web pages: use curl or the sidecar command", HTTPStatus.FORBIDDEN)
        return handler(request)

    return handle


def _guarded(handler: Handler) -> Handler:
    def handle(request: Request) -> Response | Awaitable[Response]:
        if not _names_this_host(request.headers.get("host", "localhost")):  # HTTP/1.0 may lack it; no browser does
            return text("ask for localhost or a loopback address by that name", HTTPStatus.FORBIDDEN)
        return handler(request)

    return handle


def _names_this_host(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname
        return name == "localhost" or ip_address(name or "").is_loopback
    except ValueError:
        return False
