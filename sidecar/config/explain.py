"""What a configuration stops and what it doesn't, in words.

Owns those words. Judges nothing and refuses nothing: whatever stands here is allowed, and somebody should know it.
Called by ``sidecar check``, which prints all of it, and at every start for the warnings.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sidecar.admission import Requirement
from sidecar.config.addresses import is_local
from sidecar.config.effective import Config, Listener


@dataclass(frozen=True, slots=True)
class Remark:
    """One sentence about a configuration.

    Attributes:
        about: The listener's name, or ``assignment``.
        text: The sentence.
        warning: Whether it is worth saying at every start.
    """

    about: str
    text: str
    warning: bool = False

    def __str__(self) -> str:
        return f"{self.about}: {'warning: ' if self.warning else ''}{self.text}"


_STOPS = {
    Requirement.IDENTITY: "stops connections meant for another slot: reused addresses, stale names",
    Requirement.INSTANCE: "stops connections meant for another pod of this slot, before or after this one",
    Requirement.GENERATION: "stops connections meant for another launch of this slot, before or after this one",
    Requirement.CONTROLLER: "stops connections that don't name their controller; the name is logged, not proven",
}


def explain(config: Config) -> list[Remark]:
    """Everything that there is to say about *config*: the assignment first, then each listener in its order."""
    remarks = list(_assignment(config))
    for listener in config.listeners:
        remarks.extend(_listener(config, listener))
    return remarks


def _given(config: Config) -> dict[Requirement, object]:
    parts = {Requirement.INSTANCE: config.assignment.instance, Requirement.GENERATION: config.assignment.generation}
    return {part: value for part, value in parts.items() if value is not None}


def _assignment(config: Config) -> Iterator[Remark]:
    given = _given(config)
    values = " and ".join(sorted(part for part, source in given.items() if not isinstance(source, Path)))
    files = " and ".join(sorted(part for part, source in given.items() if isinstance(source, Path)))
    fixed = f"{values} from the configuration, fixed for the life of the container" if values else ""
    read = f"{files} from files, looked at every {config.assignment.poll_interval:g} s" if files else ""
    yield Remark("assignment", f"{config.identity}, {', and '.join(filter(None, (fixed, read)))}")
    if config.assignment.max_age is not None:
        yield Remark(
            "assignment",
            f"while it can't be read, the last known one admits claims that equal it, for "
            f"{config.assignment.max_age:g} s",
        )
    if config.state_dir is None:
        yield Remark(
            "assignment",
            "after a restart an older generation or epoch isn't noticed: the floor lives in memory (no state_dir)",
        )
    yield Remark(
        "assignment",
        "a container that restarts within its pod keeps all of it, and the sidecar can't tell: a process that lost its "
        "memory isn't noticed",
    )


def _listener(config: Config, listener: Listener) -> Iterator[Remark]:
    name, given = listener.name, _given(config)
    for part, words in _STOPS.items():
        if part in listener.require:
            yield Remark(name, words)
    if not listener.require & given.keys():
        text = (
            "stops no old life: a claim need not say which one it means (require names neither instance nor generation)"
        )
        yield Remark(name, text, warning=True)
    for part in (Requirement.INSTANCE, Requirement.GENERATION):
        if part not in given:
            yield Remark(name, f"refuses a claim that names any {part}: the assignment gives none to compare it with")
        elif part not in listener.require:
            yield Remark(name, f"compares the {part} of a claim where it has one; it may leave it out")
    yield from _epochs(listener)
    if listener.exclusive:
        yield Remark(
            name,
            "admits one connection at a time: a later one of the same controller, or of a higher epoch, supersedes",
        )
    if listener.shadow:
        text = "stops nothing (enforcement: shadow): wrong claims and clients without one are counted and let through"
        yield Remark(name, text, warning=True)
    yield from _reach(listener)


def _epochs(listener: Listener) -> Iterator[Remark]:
    if Requirement.EPOCH not in listener.require:
        yield Remark(listener.name, "doesn't stop a controller that has been replaced: epochs aren't checked")
    elif listener.unsafe_epoch:
        text = (
            "believes any dialler's epoch (unsafe_epoch): one claim with a huge epoch shuts every right controller out"
        )
        yield Remark(listener.name, text, warning=True)
    elif listener.tls is None:
        text = (
            "never raises its epoch floor: without TLS no dialler is proven, and unsafe_epoch is off, so a replaced "
            "controller isn't stopped"
        )
        yield Remark(listener.name, text, warning=True)


def _reach(listener: Listener) -> Iterator[Remark]:
    name = listener.name
    if listener.tls is None:
        text = (
            "without TLS a claim is a statement and not a proof: it stops accidents, not a neighbour on the network, "
            "who can read a claim off the wire; let a network policy admit controllers only"
        )
        yield Remark(name, text, warning=not is_local(listener.listen))
    else:
        names = ", ".join(map(str, (*listener.allow, *listener.allow_dns)))
        yield Remark(name, f"lets only peers connect whose certificate proves one of these names: {names}")
    if listener.sources:
        yield Remark(name, "lets only addresses in sources connect, by the socket's address")
    else:
        yield Remark(name, "lets any address connect: sources is empty")
    if listener.answer == "full":
        yield Remark(
            name, "tells everybody whom it refuses this side's identity, generation and instance (answer: full)"
        )
    if not is_local(listener.upstream):
        text = "has its upstream beyond loopback: whoever dials that directly isn't checked at all"
        yield Remark(name, text, warning=True)
