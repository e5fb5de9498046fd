"""Errors that say whose fault they are and what to do about it.

Owns the roots of the package's exceptions; every other module derives its own from these. Knows nothing of the package
below. An error's text is written for the person who reads it at a terminal: what is wrong, where, and what to do.
"""

from __future__ import annotations


class SidecarError(Exception):
    """Root of everything that this package raises on purpose."""


class MalformedValue(SidecarError, ValueError):
    """Text or bytes that are no identity, generation, instance, epoch or controller name.

    The message says what is wrong with the value, never the value itself: it may come from the wire or from a secret.
    """


class StartError(SidecarError):
    """The process can't start or do its command for a reason outside the configuration file: a port that is taken, ..."""
