"""Why a certificate can't be made.

Owns the exception alone, so that every module beside it can raise it.
"""

from __future__ import annotations

from sidecar.errors import SidecarError


class CertsError(SidecarError):
    """A key or certificate can't be made, read or written. The message says what to do."""
