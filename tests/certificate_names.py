"""What certificates say, as plain values, for the tests of the rules about names."""

from __future__ import annotations

from sidecar.presented import Presented


def presented(*uris: str, dns: tuple[str, ...] = (), roots_of: tuple[str, ...] = (), signs: bool = False) -> Presented:
    """A certificate with these names."""
    return Presented(
        uris=uris,
        dns_names=dns,
        signs=signs,
        not_after=2_000_000_000,
        revocable=(("issuer", 1),),
        trust_domains=frozenset(roots_of),
    )
