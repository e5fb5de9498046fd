"""The context that new connections are made with, kept as fresh as its files.

Theory of operation. All files are read every second, and what was read is compared with what was read before. No file's
times are looked at: a symlink that is swapped doesn't change them, and a file rewritten at once may not either. Watches
are for files, and miss the second swap of a link.

Files change one after the other, and a file may be seen half written. So what is new is taken only when two readings
in a row agree, and what is wrong is called so only when it has stayed as it is for ``SETTLED`` seconds: a certificate
whose key comes a moment later is no fault. Meanwhile readings are closer together, and what was good before is served,
then and afterwards. Reading and judging happen in a thread; the swap is one assignment on trio's loop. A file system
that hangs stops the readings, and nothing else.

Owns the reference to what is served. Which of the files' contents that is, ``choice`` decides; what became of a change
is told to a :class:`Witness`, which counts, logs, and cuts the connections of the revoked. ``app`` runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol, TypeVar

import trio
from OpenSSL import SSL

from sidecar.errors import StartError
from sidecar.tls.choice import Choice, Found
from sidecar.tls.contexts import ContextRefused, check_credentials, check_crls, check_roots
from sidecar.tls.files import Contents, TlsFiles, read_files
from sidecar.tls.material import Material, TlsFilesError
from sidecar.tls.peer_certificate import PeerCertificates

INTERVAL: Final = 1.0  # seconds between readings
CLOSER: Final = 0.1  # the same, while something is changing
SETTLED: Final = 2.0  # seconds after which what is wrong is no longer taken for a change half done

Part = TypeVar("Part")


@dataclass(frozen=True, slots=True)
class Served:
    """What new connections are made with.

    Attributes:
        material: what the context was made of.
        context: OpenSSL's.
        peers: reads the certificates of peers that the context has verified.
    """

    material: Material
    context: SSL.Context
    peers: PeerCertificates

    @property
    def not_before(self) -> float:
        """When the own chain has begun to be valid, in seconds since 1970."""
        return self.material.own.not_before

    @property
    def not_after(self) -> float:
        """When the own chain ceases to be valid, in seconds since 1970."""
        return self.material.own.not_after

    @property
    def ca_not_after(self) -> float:
        """When the first of the peers' roots ceases to be valid, in seconds since 1970."""
        return self.material.roots.not_after


class Witness(Protocol):
    """Hears what became of changes, on trio's loop; raises nothing."""

    def swapped(self, served: Served, before: Served | None) -> None:
        """New connections get *served*; *before* is None for the first.

        Where their ``material.crls`` differ, established connections may be revoked.
        """

    def refused(self, problems: tuple[str, ...]) -> None:
        """The files can't be used as they are, or not all: once for each change, and for each poke."""

    def waits(self, start: float) -> None:
        """A new certificate isn't served before *start*, in seconds since 1970."""

    def broken(self, error: Exception) -> None:
        """Readings fail by a fault of ours, from now on: what was served still is."""


class Rotation:
    """Keeps what is served as fresh as its files.

    Args:
        files: where everything is read.
        build: makes a context; runs in a thread.
        witness: hears what became of changes.
        wall_clock: seconds since 1970.
        read: reads files; blocks, so it runs in a thread.
    """

    def __init__(
        self,
        files: TlsFiles,
        *,
        build: Callable[[Material], SSL.Context],
        witness: Witness,
        wall_clock: Callable[[], float],
        read: Callable[[Iterable[Path]], Contents] = read_files,
    ) -> None:
        self._files = files
        self._build = build
        self._witness = witness
        self._wall_clock = wall_clock
        self._read = read
        self._thread = trio.CapacityLimiter(1)
        self._poked = trio.Event()
        self._served: Served | None = None
        self._choice = Choice()
        self._seen: Contents = {}
        self._seen_since = 0.0
        self._judged = False  # whether what was seen has been seen twice, and judged
        self._problems: tuple[str, ...] = ()
        self._told = True  # whether the witness knows of them
        self._broken = False  # whether the last reading has failed by a fault of ours

    @property
    def served(self) -> Served | None:
        """What new connections get; None while the only certificate there is starts in the future."""
        return self._served

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with the files as they are now."""
        return self._problems

    def poke(self) -> None:
        """Look at the files now, and say once more what is wrong with them."""
        self._told = not self._problems
        self._poked.set()

    async def begin(self) -> None:
        """Read everything. Raises StartError where some of it can't be used."""
        await self._look()
        while not self._choice.complete:
            if self._judged and self._settled():
                raise StartError("\n".join(self._problems))
            await trio.sleep(CLOSER)
            await self._look()

    async def run(self) -> None:
        """Keep it fresh, until cancelled."""
        while True:
            quiet = self._broken or (self._judged and self._told)
            with trio.move_on_after(INTERVAL if quiet else CLOSER):
                await self._poked.wait()
            self._poked = trio.Event()
            try:
                await self._look()
            except Exception as error:  # noqa: BLE001  the boundary: what is served outlives it
                if not self._broken:
                    self._witness.broken(error)
                self._broken = True
            else:
                self._broken = False

    async def _look(self) -> None:
        contents = await self._in_thread(self._read, self._files.paths)
        if contents != self._seen:
            first = not self._seen
            self._seen, self._seen_since, self._judged = contents, trio.current_time(), False
            self._problems, self._told = (), True
            if not first:
                return
        if not self._judged:
            await self._judge(contents)
        await self._serve(self._choice.at(self._wall_clock()))
        if self._problems and not self._told and self._settled():
            self._told = True
            self._witness.refused(self._problems)

    async def _judge(self, contents: Contents) -> None:
        found = await self._in_thread(_found, self._files, contents)
        chosen, problems = self._choice.after(found, self._wall_clock())
        kept = problems[
            len(found.problems) :
        ]  # what the choice has found is about the own certificate, and names no file
        self._problems = (*found.problems, *(f"{self._files.certificate}: {each}" for each in kept))
        self._told = not self._problems
        if chosen.waiting is not None and chosen.waiting != self._choice.waiting:
            self._witness.waits(chosen.waiting.not_before)
        await self._serve(chosen)
        self._judged = True

    async def _serve(self, chosen: Choice) -> None:
        before, material = self._served, chosen.material
        if material is not None and (before is None or material != before.material):
            context = await self._in_thread(self._build, material)  # checked part by part: nothing is refused
            self._served = Served(material, context, PeerCertificates(material.roots))
            self._witness.swapped(self._served, before)
        self._choice = chosen

    def _settled(self) -> bool:
        return trio.current_time() >= self._seen_since + SETTLED

    async def _in_thread(self, function: Callable[..., Part], *arguments: object) -> Part:
        return await trio.to_thread.run_sync(function, *arguments, abandon_on_cancel=True, limiter=self._thread)


def _found(files: TlsFiles, contents: Contents) -> Found:
    """What *contents* are, each part for itself."""
    problems: list[str] = []

    def part(path: Path | None, read: Callable[[Contents], Part], check: Callable[[Part], None]) -> Part | None:
        try:
            value = read(contents)
            check(value)
        except TlsFilesError as error:
            problems.append(str(error))
        except ContextRefused as error:
            problems.append(f"{path}: {error}")
        else:
            return value
        return None

    own = part(files.certificate, files.credentials, check_credentials)
    roots = part(files.client_ca, files.roots, check_roots)
    crls = part(files.crl, files.crls, check_crls)
    return Found(own, roots, crls, tuple(problems))
