"""What is wrong with bytes that should be a header.

Owns the closed list of faults, in the order in which they are looked for (docs/wire.md, "Faults"), and the verdict that
follows from one. Raised by ``proxy_v2`` and ``tlv``; knows nothing of how any of them is found.
"""

from __future__ import annotations

from enum import StrEnum, unique

from sidecar.errors import SidecarError
from sidecar.reasons import Reason, Refused


@unique
class Fault(StrEnum):
    """What is wrong with bytes that should be a header, in the order in which it is looked for."""

    MISSING = "missing"
    BAD_SIGNATURE = "bad_signature"
    VERSION_NOT_ALLOWED = "version_not_allowed"
    BAD_VERSION = "bad_version"
    BAD_COMMAND = "bad_command"
    BAD_FAMILY = "bad_family"
    BAD_TRANSPORT = "bad_transport"
    HEADER_TOO_LONG = "header_too_long"
    ADDRESS_BLOCK_SHORT = "address_block_short"
    TLV_HEADER_TRUNCATED = "tlv_header_truncated"
    TLV_VALUE_TRUNCATED = "tlv_value_truncated"
    CRC_BAD_LENGTH = "crc_bad_length"
    CRC_DUPLICATE = "crc_duplicate"
    CRC_MISMATCH = "crc_mismatch"
    TRUNCATED = "truncated"


class PrefaceError(SidecarError):
    """The bytes are no PROXY v2 header, or a broken one: their sender's fault."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(f"no usable PROXY v2 header: {fault}")
        self.fault = fault

    @property
    def refused(self) -> Refused:
        """The verdict that follows: somebody who speaks another protocol is told apart from one who speaks it badly."""
        if self.fault is Fault.MISSING:
            return Refused(Reason.PREFACE_MISSING)
        return Refused(Reason.PREFACE_MALFORMED, self.fault.value)
