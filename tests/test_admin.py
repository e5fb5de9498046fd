"""The pages for who is inside the pod, and whom they turn away."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest
import trio

from sidecar.admin import ConnectionStatus, ListenerStatus, Status, routes
from sidecar.http_server import Request, Response, text
from sidecar.reasons import Reason

STATUS = Status(
    identity="prod-eu/replica-a/2",
    generation=7,
    instance="U1",
    state="ready",
    not_ready=[],
    draining=False,
    listeners=[ListenerStatus("compute", ["0.0.0.0:7101", "[::]:7101"], {"accepted": 2, "rejected": {"draining": 1}})],
    connections=[
        ConnectionStatus(
            id=2,
            listener="compute",
            peer="10.0.0.7:41000",
            local="10.0.0.9:7101",
            claim={"identity": "prod-eu/replica-a/2\x1b[2J"},
            state="admitted",
            seconds=1.5,
            bytes_up=10,
            bytes_down=2**60,
        )
    ],
)


class Pressed:
    """A Control that remembers which buttons were pressed."""

    def __init__(self) -> None:
        self.buttons: list[str] = []
        self.problems: list[str] = []
        self.routes = routes({("GET", "/livez"): lambda _: text("alive")}, self)

    def status(self) -> Status:
        return STATUS

    def refusals(self) -> Sequence[Mapping[str, object]]:
        return [{"reason": Reason.DRAINING, "seconds_ago": 0.5, "claim": {"identity": "a\nb"}, "raw": b"\xff"}]

    def drain(self) -> None:
        self.buttons.append("drain")

    async def reload(self) -> list[str]:
        await trio.lowlevel.checkpoint()
        self.buttons.append("reload")
        return self.problems

    def shutdown(self) -> None:
        self.buttons.append("shutdown")

    def ask(self, method: str, path: str, **headers: str) -> Response:
        answer = self.routes[method, path](Request(method, path, headers))
        assert isinstance(answer, Response), "nothing has to be waited for"
        return answer


def test_the_pages_are_those_of_telemetry_and_its_own() -> None:
    assert set(Pressed().routes) == {
        ("GET", "/livez"),
        ("GET", "/status"),
        ("GET", "/refusals"),
        ("POST", "/drain"),
        ("POST", "/reload"),
        ("POST", "/shutdown"),
    }


async def test_a_reload_is_waited_for_and_one_that_is_refused_says_what_is_wrong() -> None:
    pressed = Pressed()

    async def reload() -> Response:
        answer = pressed.routes["POST", "/reload"](Request("POST", "/reload", {}))
        assert not isinstance(answer, Response)
        return await answer

    assert (await reload()).body == b"reloaded\n"

    pressed.problems = ["sidecar.yaml:3:1: identity: is missing", "and more"]
    response = await reload()
    assert (response.status, response.body) == (422, b"sidecar.yaml:3:1: identity: is missing\nand more\n")
    assert pressed.ask("POST", "/reload", origin="http://evil.example").status == 403
    assert pressed.buttons == ["reload", "reload"]


def test_the_status_is_json_in_printable_ascii_whatever_a_claim_holds() -> None:
    response = Pressed().ask("GET", "/status", host="127.0.0.1:9901")

    assert response.content_type == "application/json"
    assert response.body.decode("ascii").rstrip("\n").isprintable()
    shown = json.loads(response.body)
    assert (shown["identity"], shown["generation"], shown["not_ready"]) == ("prod-eu/replica-a/2", 7, [])
    assert shown["listeners"][0]["counts"] == {"accepted": 2, "rejected": {"draining": 1}}
    assert shown["connections"][0]["claim"] == {"identity": "prod-eu/replica-a/2\x1b[2J"}
    assert shown["connections"][0]["bytes_down"] == 2**60


def test_the_last_refusals_are_shown_in_words() -> None:
    response = Pressed().ask("GET", "/refusals", host="localhost")

    assert json.loads(response.body) == [
        {"reason": "draining", "seconds_ago": 0.5, "claim": {"identity": "a\nb"}, "raw": "\\xff"}
    ]


@pytest.mark.parametrize("button", ["drain", "shutdown"])
def test_a_button_does_its_one_thing(button: str) -> None:
    control = Pressed()

    assert control.ask("POST", f"/{button}", host="localhost:9901").status == 200
    assert control.buttons == [button]


@pytest.mark.parametrize("button", ["drain", "shutdown"])
@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:9901"])
def test_a_web_page_presses_no_button(button: str, origin: str) -> None:
    control = Pressed()

    assert control.ask("POST", f"/{button}", host="localhost:9901", origin=origin).status == 403
    assert control.buttons == []


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8:9901", "[::1]:9901", "localhost:9901", "LOCALHOST", None])
def test_a_request_that_names_this_host_is_answered(host: str | None) -> None:
    headers = {} if host is None else {"host": host}

    for path in ("/status", "/refusals", "/livez"):
        assert Pressed().ask("GET", path, **headers).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:9901",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "10.0.0.9:9901",
        "",
        "[",
        "1",
    ],
)
def test_a_request_that_names_another_host_is_refused(host: str) -> None:
    """A name of the attacker's that resolves to 127.0.0.1 would let a web page read what stands here."""
    control = Pressed()

    for method, path in control.routes:
        assert control.ask(method, path, host=host).status == 403
    assert control.buttons == []
