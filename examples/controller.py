"""A controller: one connection to each replica, through its sidecar, and a command to each every so often.

    python examples/controller.py examples/book.txt

It is written to be copied. What a sidecar asks of a dialler (docs/wire.md, "Rules for diallers") is in two places:
``open_connection`` sends nothing before it is admitted and compares who admits it, and :meth:`Slot.heed` does what a
refusal advises. What a refusal names as the sidecar's own side is printed and never used: every claim is the book's.

The book stands for what knows the pods: a watch on Kubernetes' Pods, a registry. It is read again only when an advice
says so, and the controller never ends because of it. Replace it by ``mv``, so that no half of it can be read.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, NoReturn

import trio

from sidecar.client import open_connection
from sidecar.dialler import DialError, parse_target
from sidecar.errors import MalformedValue
from sidecar.identity import ControllerName, Generation, Identity, Instance
from sidecar.preface.claim import Claim
from sidecar.reasons import Advice

FIRST_PAUSE: Final = 0.2  # seconds
LONGEST_PAUSE: Final = 10.0
FIX_PAUSE: Final = 60.0  # what a person must fix isn't fixed any sooner
REPLY_WITHIN: Final = 10.0

BAD_BOOK: Final = 2
STOPPED: Final = 14  # what `sidecar connect` gives for the advice stop
INTERRUPTED: Final = 130


class BookError(Exception):
    """The book can't be read, or what stands in it can't be used."""


class ReplacedError(Exception):
    """A later controller has taken over: this one must not dial again."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What the book says of one slot, read at one moment: address and claim belong together."""

    address: str
    claim: Claim


class Book:
    """Where every slot is, and which life of it is the present one.

    Args:
        path: a text file, a line a slot: ``slot address instance=... generation=...``.
        controller: the name by which the claims made from it say who dials.
    """

    def __init__(self, path: str, controller: ControllerName) -> None:
        self._path = trio.Path(path)
        self._controller = controller

    async def read(self) -> Mapping[Identity, Entry]:
        """All of it. Raises BookError."""
        try:
            text = await self._path.read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise BookError(f"{self._path}: {error}") from error
        entries: dict[Identity, Entry] = {}
        for number, line in enumerate(text.splitlines(), 1):
            words = line.partition("#")[0].split()
            if not words:
                continue
            try:
                entry = self._entry(words)
            except MalformedValue as error:
                raise BookError(f"{self._path}:{number}: {error}") from error
            if entry.claim.identity in entries:
                raise BookError(f"{self._path}:{number}: {entry.claim.identity} stands there twice")
            entries[entry.claim.identity] = entry
        return entries

    async def look_up(self, slot: Identity) -> Entry:
        """What it says of *slot* now. Raises BookError."""
        try:
            return (await self.read())[slot]
        except KeyError:
            raise BookError(f"{self._path} has no {slot}") from None

    def _entry(self, words: list[str]) -> Entry:
        if len(words) < 2:
            raise MalformedValue("must be: slot address instance=... generation=...")
        slot, address, *incarnation = words
        parts: dict[str, str] = {}
        for key, _, value in (word.partition("=") for word in incarnation):
            if key not in ("instance", "generation") or key in parts:
                raise MalformedValue(
                    f"{key} isn't known here, or stands there twice: give instance=... and generation=..."
                )
            parts[key] = value
        parse_target(address)
        claim = Claim(
            Identity.parse(slot),
            generation=Generation.parse(parts["generation"]) if "generation" in parts else None,
            instance=Instance.parse(parts["instance"]) if "instance" in parts else None,
            controller=self._controller,
        )
        return Entry(address, claim)


def pause(failures: int) -> float:
    """Seconds before the next attempt: longer with each failure, and never in step with other controllers."""
    longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(failures, 32))
    return random.uniform(longest / 2, longest)


class Slot:
    """One slot, and the one connection that this controller has to it.

    Args:
        entry: what the book said of it at first.
        book: where to look again.
        every: seconds between two commands.
    """

    def __init__(self, entry: Entry, book: Book, every: float) -> None:
        self._entry = entry
        self._book = book
        self._every = every
        self._failures = 0  # since the last reply: being admitted alone is no success

    async def drive(self) -> NoReturn:
        """Dial, send commands, and dial again, for ever. Raises ReplacedError."""
        while True:
            address, claim = self._entry.address, self._entry.claim
            try:
                stream = await open_connection(address, claim)
            except DialError as error:
                self._say(f"{address}  {error}  -> {error.advice}")
                await self.heed(error)
                continue
            self._say(f"{address}  admitted")
            async with stream:
                self._say(f"{address}  {await self._converse(stream)}")
            await self._wait()  # the next answer says why it ended, where there is a reason

    async def heed(self, error: DialError) -> None:
        """Do what the advice says, so that the next attempt may go better. Raises ReplacedError."""
        match error.advice:
            case Advice.STOP:
                raise ReplacedError(str(error))
            case Advice.FIX:
                print(f"A PERSON IS NEEDED: {self._entry.claim.identity}: {error}", file=sys.stderr, flush=True)
                await trio.sleep(FIX_PAUSE)
                await self._look_up()
            case Advice.REFRESH:  # it is the right process, and the claim is out of date
                await self._wait()
                await self._look_up(address=self._entry.address)
            case Advice.RETRY:  # it is the right process, and it can't just now
                await self._wait()
            case Advice.RE_RESOLVE:  # another process, or nobody: with a new address comes the claim that belongs to it
                await self._wait()
                await self._look_up()

    async def _look_up(self, *, address: str | None = None) -> None:
        """Believe what the book says now; *address*: but for the address."""
        try:
            entry = await self._book.look_up(self._entry.claim.identity)
        except BookError as error:
            self._say(f"{error}: going by what was known")
            return
        entry = replace(entry, address=address or entry.address)
        if entry != self._entry:
            self._entry = entry
            self._failures = 0  # news are worth an early try

    async def _wait(self) -> None:
        await trio.sleep(pause(self._failures))
        self._failures += 1

    async def _converse(self, stream: trio.SocketStream) -> str:
        """Send commands until the connection is over; how it ended."""
        shard = f"shard {self._entry.claim.identity.ordinal},"
        try:
            while True:
                with trio.fail_after(REPLY_WITHIN):
                    await stream.send_all(b"command\n")
                    reply = await receive_line(stream)
                if reply is None:
                    return "ended"
                if not reply.startswith(shard):
                    return f"WRONG PROCESS: {reply!r} isn't {shard[:-1]}"  # what the sidecars are there to prevent
                self._say(reply)
                self._failures = 0
                with trio.move_on_after(self._every):
                    unasked = await stream.receive_some(1)  # notices the end of the connection when it comes
                    return "spoke unasked" if unasked else "ended"
        except trio.BrokenResourceError:
            return "broke: it was cut, or its pod is gone"
        except trio.TooSlowError:
            return f"no reply within {REPLY_WITHIN:g} seconds"

    def _say(self, text: str) -> None:
        print(f"{self._entry.claim.identity}  {text}", flush=True)


async def receive_line(stream: trio.SocketStream) -> str | None:
    """The one line that comes now; None: the stream has ended."""
    received = bytearray()
    while not received.endswith(b"\n"):
        data = await stream.receive_some(4096)
        if not data:
            return None
        received += data
    return received.decode(errors="backslashreplace").rstrip("\n")


async def drive_all(book: Book, every: float) -> None:
    """Drive the slots that the book has now. Raises BookError, and ReplacedError in a group."""
    entries = await book.read()
    async with trio.open_nursery() as nursery:
        for entry in entries.values():
            nursery.start_soon(Slot(entry, book, every).drive)


def main() -> int:
    """Drive what the command line names; the exit code."""
    parser = argparse.ArgumentParser(description="Keeps one connection to each replica and sends commands.")
    parser.add_argument("book", help="which slot is where, and which life of it that is")
    parser.add_argument("--name", default="example-controller", help="who dials (default: %(default)s)")
    parser.add_argument("--every", type=float, default=2.0, metavar="SECONDS", help="between commands (default: 2)")
    options = parser.parse_args()
    code = 0
    try:
        trio.run(drive_all, Book(options.book, ControllerName(options.name)), options.every)
    except* BookError as errors:
        print(errors.exceptions[0], file=sys.stderr)
        code = BAD_BOOK
    except* ReplacedError as errors:
        print(f"Stopping, another controller has taken over: {errors.exceptions[0]}", file=sys.stderr)
        code = STOPPED
    except* KeyboardInterrupt:
        code = INTERRUPTED
    return code


if __name__ == "__main__":
    sys.exit(main())
