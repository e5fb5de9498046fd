"""DNS names in certificates, for people without SPIFFE: the patterns of ``allow_dns`` and of ``dns:PATTERN``.

Owns their syntax and which names of a certificate they match. Knows nothing of certificates or the resolver. Called by
``peer_names``, ``server_names`` and the configuration.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

from sidecar.errors import MalformedValue

MAX_LENGTH: Final = 253  # RFC 1035, section 2.3.4, as text without the final dot

_LABEL: Final = r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)"  # with _, as in the names of SRV records
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_ANY_LABEL: Final = "*."


@dataclass(frozen=True, slots=True)
class DnsPattern:
    """One DNS name, or ``*.`` and a name: all names with exactly one label more. Compared without regard to case.

    Attributes:
        text: In lower case.
    """

    text: str

    def __post_init__(self) -> None:
        if not _is_name(self.text.removeprefix(_ANY_LABEL)):
            raise MalformedValue(
                f"must be a DNS name of at most {MAX_LENGTH} characters without a final dot; * may stand for its "
                "first label"
            )
        object.__setattr__(self, "text", self.text.lower())  # ASCII by now: lower() would fold other letters into it

    @classmethod
    def parse(cls, text: str) -> Self:
        """The pattern that *text* spells. Raises MalformedValue."""
        return cls(text)

    def matches(self, name: str) -> bool:
        """Whether a certificate's *name* is one of these, as the name of somebody who dials.

        A wildcard in a certificate never is: it says for which names a server may answer, and not who somebody is.
        Who holds such a certificate would else pass for any of many.
        """
        if not _is_name(name):
            return False
        name = name.lower()
        return name == self.text or (self.text.startswith(_ANY_LABEL) and _parent(name) == _parent(self.text))

    def matches_server(self, name: str) -> bool:
        """Whether a certificate's *name* is one of these, as the name of somebody who answers.

        There a wildcard counts (RFC 9525, section 6.3): its holder may answer for any name with one label in its place,
        and a replica set often has one certificate for all its pods.
        """
        if name.startswith(_ANY_LABEL):
            above = name.removeprefix(_ANY_LABEL)
            return _is_name(above) and above.lower() == _parent(self.text)
        return self.matches(name)

    def __str__(self) -> str:
        return self.text


def _is_name(text: str) -> bool:
    return len(text) <= MAX_LENGTH and _NAME.fullmatch(text) is not None


def _parent(name: str) -> str:
    """*name* without its first label; empty if it has no other."""
    return name.partition(".")[2]
