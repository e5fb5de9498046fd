"""Who answers: how deep a dialler looks into the sidecar's certificate, and what it says when that differs."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.dns_names import DnsPattern
from sidecar.errors import MalformedValue
from sidecar.identity import Generation
from sidecar.server_names import Depth, ServerRule
from tests.certificate_names import presented
from tests.names import CLAIM, OTHER, OWN

SLOT = f"spiffe://example.org/{OWN}"
SET = "spiffe://example.org/prod-eu/replica-a"
UNNUMBERED = dataclasses.replace(CLAIM, generation=None)


def difference(uri, depth, trust_domain=None, claim=CLAIM):
    return ServerRule.parse(depth, trust_domain).difference(presented(uri), claim)


@pytest.mark.parametrize(
    ("uri", "slot_and_generation", "slot", "trust_domain"),
    [
        (f"{SLOT}/7", True, True, True),
        (f"{SLOT}/6", False, True, True),
        (SLOT, False, True, True),
        (f"spiffe://example.org/{OTHER}/7", False, False, True),
        (f"spiffe://example.org/{OTHER}", False, False, True),
        (SET, False, False, True),
        ("spiffe://example.org/prod-eu/controller/2", False, False, True),
        (f"spiffe://partner.example/{OWN}/7", False, False, False),
    ],
)
def test_each_depth_compares_what_it_says(uri, slot_and_generation, slot, trust_domain):
    assert (difference(uri, "slot+generation", "example.org") is None) == slot_and_generation
    assert (difference(uri, "slot", "example.org") is None) == slot
    assert (difference(uri, "trust-domain", "example.org") is None) == trust_domain


def test_without_a_trust_domain_any_that_the_roots_vouch_for_will_do():
    uri = f"spiffe://partner.example/{OWN}/7"
    assert difference(uri, "slot+generation") is difference(uri, "slot") is difference(uri, "trust-domain") is None
    assert difference(f"spiffe://partner.example/{OTHER}", "slot")


def test_the_default_depth_is_the_trust_domain():
    assert ServerRule() == ServerRule.parse("trust-domain") == ServerRule(Depth.TRUST_DOMAIN)


@pytest.mark.parametrize(
    ("uri", "depth", "trust_domain", "expected"),
    [
        (f"spiffe://example.org/{OTHER}", "slot", "example.org", f"slot {OWN} in trust domain example.org"),
        (f"{SLOT}/6", "slot+generation", None, f"slot {OWN} at generation 7 in any trust domain"),
        (SET, "trust-domain", "partner.example", "a SPIFFE ID in trust domain partner.example"),
    ],
)
def test_a_difference_names_both_sides(uri, depth, trust_domain, expected):
    assert difference(uri, depth, trust_domain) == f"expected {expected}, the certificate says {uri}"


def test_a_malformed_id_is_shown_with_what_is_wrong_with_it():
    said = difference("https://example.org/", "trust-domain")
    assert said.startswith("expected a SPIFFE ID in any trust domain, the certificate's names can't say so: ")
    assert said.endswith(": malformed_spiffe_id (must begin with spiffe://): https://example.org/")


@pytest.mark.parametrize("depth", Depth)
@pytest.mark.parametrize("uris", [(), (f"{SLOT}/7", f"{SLOT}/7"), ("spiffe://example.org",)])
def test_a_certificate_without_exactly_one_id_fits_at_no_depth_of_it(depth, uris):
    certificate = presented(*uris, dns=("a-2.a.prod.svc",))
    assert "expected" in ServerRule(depth).difference(certificate, CLAIM)


def test_a_certificate_with_dns_names_alone_is_met_with_what_to_do():
    said = ServerRule().difference(presented(dns=("a-2.a.prod.svc",)), CLAIM)
    assert said.endswith("no_spiffe_id; dns:PATTERN checks certificates without SPIFFE IDs")


def test_a_signing_certificate_is_no_sidecars():
    assert "signing_certificate" in ServerRule().difference(presented(SLOT, signs=True), CLAIM)


def test_a_claim_without_a_generation_cannot_be_checked_for_one_and_the_message_says_what_to_do():
    rule = ServerRule.parse("slot+generation")
    said = "the claim has no generation to check at depth slot+generation: claim one, or use slot"
    for uri in (SLOT, f"{SLOT}/7"):
        assert rule.difference(presented(uri), UNNUMBERED) == said
    assert rule.lacking(UNNUMBERED) == said
    assert rule.lacking(CLAIM) is None
    assert ServerRule(Depth.SLOT).lacking(UNNUMBERED) is None
    assert difference(f"{SLOT}/7", "slot", claim=UNNUMBERED) is None


@pytest.mark.parametrize(
    ("pattern", "dns", "fits"),
    [
        ("a-2.a.prod.svc", ("x", "A-2.a.prod.svc"), True),
        ("a-2.a.prod.svc", ("*.a.prod.svc",), True),
        ("*.a.prod.svc", ("*.a.prod.svc",), True),
        ("*.a.prod.svc", ("a-2.a.prod.svc",), True),
        ("a-2.a.prod.svc", ("a-3.a.prod.svc",), False),
        ("a-2.a.prod.svc", (), False),
    ],
)
def test_a_dns_pattern_is_looked_for_among_the_dns_names_whatever_the_uri_names_say(pattern, dns, fits):
    rule = ServerRule.parse(f"dns:{pattern}")
    for uris in ((), (SLOT,), ("https://example.org/", SLOT)):
        assert (rule.difference(presented(*uris, dns=dns), CLAIM) is None) == fits


def test_a_dns_difference_names_the_pattern_and_what_is_there():
    rule = ServerRule(DnsPattern("a-2.a"))
    assert rule.difference(presented(), CLAIM) == "expected DNS name a-2.a, the certificate has none"
    assert rule.difference(presented(dns=("x",)), CLAIM) == "expected DNS name a-2.a, the certificate says x"
    said = rule.difference(presented(dns=("x\n", "y", "z")), CLAIM)
    assert said == "expected DNS name a-2.a, the certificate says x\\x0a and 2 more"


@pytest.mark.parametrize("text", ["", "slots", "SLOT", "slot ", "generation", "dns", "dns:", "dns:*", "dns:a b"])
def test_a_depth_that_does_not_exist_is_malformed(text):
    with pytest.raises(MalformedValue):
        ServerRule.parse(text)


def test_a_rule_whose_trust_domain_would_not_be_checked_cannot_be_constructed():
    with pytest.raises(MalformedValue, match="exclude each other"):
        ServerRule.parse("dns:a", "example.org")
    for trust_domain in ("", "Example.org", "spiffe://example.org"):
        with pytest.raises(MalformedValue):
            ServerRule.parse("slot", trust_domain)


@given(
    st.lists(st.text() | st.sampled_from([SLOT, f"{SLOT}/7", SET]), max_size=2),
    st.lists(st.text() | st.just("a-2.a"), max_size=2),
    st.sampled_from([ServerRule(depth) for depth in Depth] + [ServerRule(DnsPattern("a-2.a"))]),
    st.sampled_from([CLAIM, UNNUMBERED, dataclasses.replace(CLAIM, generation=Generation(8))]),
)
def test_whatever_a_certificate_holds_the_difference_is_short_printable_ascii(uris, dns, rule, claim):
    said = rule.difference(presented(*uris, dns=tuple(dns)), claim)
    assert said is None or (said.isascii() and said.isprintable() and len(said) <= 1024)
