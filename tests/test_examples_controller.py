"""examples/controller.py against sidecars that refuse: it does what they advise, and adopts nothing that they say."""

from __future__ import annotations

import runpy
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from names import inet
from processes import Process, eventually, running

from sidecar.identity import ControllerName, Epoch, Generation, Identity, Instance
from sidecar.preface.answer import Answer, write_answer
from sidecar.preface.claim import AnswerRequest, ReceivedClaim, read_claim
from sidecar.preface.proxy_v2 import bytes_wanted, read_header
from sidecar.reasons import Advice

CONTROLLER = Path(__file__).resolve().parent.parent / "examples" / "controller.py"
SLOT = Identity("example", "replica-a", 0)
NAME = ControllerName("somebody")
SECONDS = 30.0


@pytest.fixture
def module() -> dict[str, Any]:
    """What the example defines."""
    return runpy.run_path(str(CONTROLLER))


class Refuser:
    """A sidecar that refuses everybody, and keeps what they claimed."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        self.claims: list[ReceivedClaim] = []

    @property
    def address(self) -> str:
        """Where it listens."""
        host, port = self._listening.getsockname()
        return f"{host}:{port}"

    def close(self) -> None:
        """Be gone."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listening.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, peer = self._listening.accept()
            except OSError:  # shut down
                return
            with connection:
                buffer = bytearray()
                while (header := read_header(buffer)) is None:
                    buffer += connection.recv(bytes_wanted(buffer))
                self.claims.append(read_claim(header.tlvs))
                ends = {"dialler": inet(*peer), "sidecar": inet(*connection.getsockname())}
                connection.sendall(write_answer(self._answer, **ends))


@contextmanager
def refusing(verdict: str, advice: Advice) -> Iterator[Refuser]:
    """A sidecar that refuses, and says that it is another slot, of another life, after another leader's epoch."""
    own = Identity("example", "replica-b", 5)
    refuser = Refuser(Answer(verdict, advice, "as told", own, Generation(99), Instance("own"), Epoch(99)))
    try:
        yield refuser
    finally:
        refuser.close()


def write_book(book: Path, address: str, **incarnation: str) -> None:
    """Replace *book* by one that says this of the one slot."""
    new = book.with_suffix(".new")
    new.write_text(" ".join([str(SLOT), address, *(f"{part}={value}" for part, value in incarnation.items())]) + "\n")
    new.rename(book)


@contextmanager
def controlling(book: Path) -> Iterator[Process]:
    """The controller, with *book*, once it has said something."""
    with running([sys.executable, str(CONTROLLER), str(book), "--name", str(NAME)], ready=".") as process:
        yield process


@pytest.mark.parametrize("advice", [Advice.RETRY, Advice.REFRESH, Advice.RE_RESOLVE])
def test_it_tries_again_and_adopts_nothing_of_what_a_refusal_names(advice: Advice, tmp_path: Path) -> None:
    book = tmp_path / "book"
    with refusing("a_reason_of_later_times", advice) as refuser:
        write_book(book, refuser.address, instance="first", generation="7")
        with controlling(book) as controller:
            assert eventually(lambda: len(refuser.claims) >= 4, seconds=SECONDS), controller.output
    written = ReceivedClaim(SLOT, Generation(7), Instance("first"), controller=NAME, answer=AnswerRequest.FORMAT_1)
    assert set(refuser.claims) == {written}


def test_it_takes_a_new_claim_from_the_book_when_told_to_refresh_and_keeps_the_address(tmp_path: Path) -> None:
    book = tmp_path / "book"
    with refusing("generation_stale", Advice.REFRESH) as refuser, refusing("wrong", Advice.STOP) as elsewhere:
        write_book(book, refuser.address, generation="7")
        with controlling(book) as controller:
            write_book(book, elsewhere.address, generation="8")
            assert eventually(lambda: refuser.claims[-1].generation == Generation(8), seconds=SECONDS), (
                controller.output
            )
        assert elsewhere.claims == []


def test_it_takes_address_and_claim_from_the_book_when_told_to_look_again(tmp_path: Path) -> None:
    book = tmp_path / "book"
    with refusing("identity_mismatch", Advice.RE_RESOLVE) as refuser, refusing("draining", Advice.RETRY) as elsewhere:
        write_book(book, refuser.address, instance="first")
        with controlling(book) as controller:
            write_book(book, elsewhere.address, instance="second")
            assert eventually(lambda: bool(elsewhere.claims), seconds=SECONDS), controller.output
        assert {claim.instance for claim in elsewhere.claims} == {Instance("second")}
        assert {claim.instance for claim in refuser.claims} == {Instance("first")}


def test_it_looks_again_where_nobody_answers(tmp_path: Path) -> None:
    book = tmp_path / "book"
    with refusing("draining", Advice.RETRY) as gone:
        address = gone.address
    with refusing("draining", Advice.RETRY) as elsewhere:
        write_book(book, address, instance="first")
        with controlling(book) as controller:
            assert "unreachable" in controller.output
            write_book(book, elsewhere.address, instance="first")
            assert eventually(lambda: bool(elsewhere.claims), seconds=SECONDS), controller.output


def test_it_goes_by_what_it_knew_while_the_book_is_unusable(tmp_path: Path) -> None:
    book = tmp_path / "book"
    with refusing("instance_mismatch", Advice.RE_RESOLVE) as refuser:
        write_book(book, refuser.address, instance="first")
        with controlling(book) as controller:
            write_book(book, "nowhere", instance="second")
            assert eventually(lambda: "going by what was known" in controller.output), controller.output
            before = len(refuser.claims)
            assert eventually(lambda: len(refuser.claims) > before, seconds=SECONDS), controller.output
    assert {claim.instance for claim in refuser.claims} == {Instance("first")}


def test_it_calls_a_person_and_waits_when_something_must_be_fixed(tmp_path: Path) -> None:
    book = tmp_path / "book"
    with refusing("incarnation_missing", Advice.FIX) as refuser:
        write_book(book, refuser.address)
        with controlling(book) as controller:
            called = f"A PERSON IS NEEDED: {SLOT}: incarnation_missing: as told"
            assert eventually(lambda: any(line.startswith(called) for line in controller.lines)), controller.output
            assert not eventually(lambda: len(refuser.claims) > 1, seconds=1.0)  # several first pauses long


def test_it_ends_when_another_controller_has_taken_over(tmp_path: Path) -> None:
    book = tmp_path / "book"
    with refusing("controller_stale", Advice.STOP) as refuser:
        write_book(book, refuser.address, instance="first")
        with controlling(book) as controller:
            assert controller.wait() == 14
        assert len(refuser.claims) == 1
    assert "another controller has taken over: controller_stale" in controller.output


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("example/replica-a/0", "must be: slot address"),
        ("example/replica-a 127.0.0.1:1", "exactly three segments"),
        ("example/replica-a/0 127.0.0.1", "must be host:port"),
        ("example/replica-a/0 127.0.0.1:1 generation=", "decimal"),
        ("example/replica-a/0 127.0.0.1:1 instance=", "printable"),
        ("example/replica-a/0 127.0.0.1:1 generation=1 generation=2", "twice"),
        ("example/replica-a/0 127.0.0.1:1 uid=x", "uid isn't known"),
        ("example/replica-a/0 127.0.0.1:1\nexample/replica-a/0 127.0.0.1:2", "stands there twice"),
    ],
)
async def test_a_book_that_cannot_be_right_is_an_error_that_names_the_line(
    module: dict[str, Any], text: str, complaint: str, tmp_path: Path
) -> None:
    path = tmp_path / "book"
    path.write_text(f"# a comment\n\n{text}\n")
    with pytest.raises(module["BookError"], match=rf"{path}:[34]: .*{complaint}"):
        await module["Book"](str(path), NAME).read()


def test_it_does_not_start_without_a_book(tmp_path: Path) -> None:
    with controlling(tmp_path / "none") as controller:
        assert controller.wait() == 2
    assert "No such file" in controller.output


def test_pauses_grow_to_a_limit_and_are_never_quite_the_same(module: dict[str, Any]) -> None:
    for failures, longest in [(0, 0.2), (1, 0.4), (5, 6.4), (6, 10.0), (10_000, 10.0)]:
        pauses = {module["pause"](failures) for _ in range(100)}
        assert len(pauses) > 1
        assert all(longest / 2 <= pause <= longest for pause in pauses)
