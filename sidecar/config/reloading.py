"""What of a configuration may be changed while the sidecar runs.

Owns the list. Everything else is what a process is: its slot, its sockets, where its truth is read; a change there
takes a new process, and a reload that asks for one is refused whole rather than half applied. Called by ``app``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Final

from sidecar.config.effective import Config, Listener

_RELOADABLE: Final = {"limits", "timeouts", "drain", "log", "shadow_wait", "hash"}
_RELOADABLE_OF_LISTENER: Final = {"allow", "allow_dns", "answer", "reject_delay", "shadow"}
_SECTIONS: Final = {"assignment", "telemetry", "admin"}  # whose keys are named one by one
_KEYS: Final = {"exclusive": "concurrency"}  # where the file has another word


def needs_restart(old: Config, new: Config) -> list[str]:
    """The keys that differ and can't be changed by a reload."""
    return list(_differing(old, new))


def _differing(old: Config, new: Config) -> Iterator[str]:
    for field in fields(Config):
        if field.name == "listeners":
            yield from _differing_listeners(old.listeners, new.listeners)
        elif field.name in _SECTIONS:
            before, after = _settings(getattr(old, field.name)), _settings(getattr(new, field.name))
            yield from (f"{field.name}.{key}" for key in before if before[key] != after[key])
        elif field.name not in _RELOADABLE and getattr(old, field.name) != getattr(new, field.name):
            yield field.name


def _differing_listeners(old: tuple[Listener, ...], new: tuple[Listener, ...]) -> Iterator[str]:
    if [each.name for each in old] != [each.name for each in new]:
        yield "listeners"
        return
    for before, after in zip(old, new, strict=True):
        for field in fields(Listener):
            if field.name not in _RELOADABLE_OF_LISTENER and getattr(before, field.name) != getattr(after, field.name):
                yield f"listeners.{before.name}.{_KEYS.get(field.name, field.name)}"


def _settings(section: Any) -> dict[str, object]:
    """The settings of a section, whichever kind of record it is."""
    names = [each.name for each in fields(section)] if is_dataclass(section) else type(section).model_fields
    return {name: getattr(section, name) for name in names}
