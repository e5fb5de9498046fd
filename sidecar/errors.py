"""Errors that say whose fault they are and what to do about it.

Owns the roots of the package's exceptions; every other module derives its own from these. Knows nothing of the package
below. An error's text is written for the person who reads it at a terminal: what is wrong, where, and what to do.
"""

from __future__ import annotations

from typing import ClassVar


class SidecarError(Exception):
    """Root of everything that this package raises on purpose.

    ``exit_code`` is the process's where one ends a command: 2 for a bad configuration, 1 for anything else.
    """

    exit_code: ClassVar[int] = 1


class MalformedValue(SidecarError, ValueError):
    """Text or bytes that are no identity, generation, instance, epoch or controller name.

    The message says what is wrong with the value, never the value itself: it may come from the wire or from a secret.
    """


class StartError(SidecarError):
    """The process can't start, for a reason outside its configuration: a port that is taken, ..."""
