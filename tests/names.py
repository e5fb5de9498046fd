"""This replica's names, as all tests use them, and short ways to write a claim."""

from __future__ import annotations

from ipaddress import ip_address

from sidecar.identity import Generation, Identity, Instance
from sidecar.preface.claim import Claim, write_claim
from sidecar.preface.proxy_v2 import InetAddress, write_header

OWN = Identity("prod-eu", "replica-a", 2)
OTHER = Identity("prod-eu", "replica-a", 3)
U1 = Instance("3f0c9a52-7d41-4c7e-9a56-0b8f6f1f2d31")
U2 = Instance("11111111-2222-3333-4444-555555555555")
CLAIM = Claim(OWN, Generation(7), U1)
WRONG = Claim(OTHER, Generation(7), U1)


def inet(host: str, port: int) -> InetAddress:
    """An address."""
    return InetAddress(ip_address(host), port)


def preface(claim: Claim = CLAIM, *, answer: bool = False) -> bytes:
    """The bytes that state *claim*."""
    return write_header(source=None, destination=None, tlvs=write_claim(claim, answer=answer))
