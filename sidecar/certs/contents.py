"""What stands in a PEM file: block by block, whatever they are.

Owns taking files apart for people who look for a fault: a damaged block is named and the next one read all the same.
The sidecar's own reader refuses such a file whole. Called by ``report`` and the ``certs`` command.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

_BEGIN = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----")
_ENCRYPTED: Final = b"ENCRYPTED"
_PARAMETERS: Final = b"EC PARAMETERS"  # what `openssl ecparam -genkey` writes before a key; says nothing of its own


@dataclass(frozen=True, slots=True)
class Unusable:
    """A block, or a whole file, that the sidecar can do nothing with, and why."""

    why: str


Held = x509.Certificate | x509.CertificateRevocationList | PrivateKeyTypes | Unusable


@dataclass(frozen=True, slots=True)
class Block:
    """One thing in a file.

    Attributes:
        file: The file's name.
        number: Which block it is, from 1; 0 stands for the file as a whole.
        held: What it holds.
    """

    file: str
    number: int
    held: Held

    def __str__(self) -> str:
        return f"{self.file} block {self.number}" if self.number else self.file


def read_blocks(file: str, content: bytes) -> list[Block]:
    """All blocks of *content*, the text of *file*; never none: a file without any is one that is unusable."""
    blocks = [Block(file, number, held) for number, held in enumerate(_held(content), start=1)]
    if blocks:
        return blocks
    why = "no PEM in it"
    if content.startswith(b"\x30"):  # a DER sequence
        why += ": if it is DER, `openssl x509 -inform der` turns it into PEM"
    elif not content.strip():
        why = "empty"
    return [Block(file, 0, Unusable(why))]


def _held(content: bytes) -> Iterator[Held]:
    """What the blocks hold; one ends where the next begins, so that a cut-off one doesn't swallow it."""
    begins = list(_BEGIN.finditer(content))
    for begin, following in zip_longest(begins, begins[1:]):
        end = following.start() if following else len(content)
        label = begin[1]
        if label == _PARAMETERS:
            continue
        closing = b"-----END " + label + b"-----"
        until = content.find(closing, begin.end(), end)
        if until < 0:
            yield Unusable(f"{label.decode()} that is cut off: its END line is missing")
            continue
        yield _parsed(label, content[begin.start() : until + len(closing)] + b"\n")


def _parsed(label: bytes, pem: bytes) -> Held:
    name = label.decode()
    try:
        if label == b"CERTIFICATE":
            certificate = x509.load_pem_x509_certificate(pem)
            _ = certificate.extensions, certificate.public_key()  # parsed on demand: better here than where it is used
            return certificate
        if label == b"X509 CRL":
            return x509.load_pem_x509_crl(pem)
        if label.endswith(b"PRIVATE KEY"):
            if label.startswith(_ENCRYPTED) or _ENCRYPTED in pem:
                return Unusable(
                    "private key with a passphrase: the sidecar has none to give; `openssl pkey` takes it off"
                )
            return serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, x509.DuplicateExtension) as error:
        return Unusable(f"damaged {name}: {str(error).splitlines()[0] if str(error) else 'it cannot be read'}")
    except Exception as error:  # noqa: BLE001  UnsupportedAlgorithm and what else the library has: the next block may be fine
        return Unusable(f"{name} that can't be read: {type(error).__name__}")
    return Unusable(f"{name}, which the sidecar has no use for")
