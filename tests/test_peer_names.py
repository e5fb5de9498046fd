"""Who dials: which certificate names pass at a listener, and what admission then makes of them."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.admission import Admitted, Peer, Requirement, Rules, State, decide
from sidecar.assignment import Assignment
from sidecar.dns_names import DnsPattern
from sidecar.identity import ControllerName, Generation, Identity
from sidecar.peer_names import MOST_DNS_NAMES, Rule, peer_of
from sidecar.preface.claim import ReceivedClaim
from sidecar.reasons import Reason, Refused
from sidecar.spiffe import Pattern
from tests.certificate_names import presented
from tests.names import OTHER, OWN, U1

CONTROLLER = "spiffe://example.org/prod-eu/controller/main"
SLOT = f"spiffe://example.org/{OWN}"
SERVICE = "spiffe://example.org/ns/prod/sa/main"


def rule(*allow, dns=(), trust_domains=()):
    return Rule(tuple(map(Pattern.parse, allow)), tuple(map(DnsPattern.parse, dns)), frozenset(trust_domains))


ANYBODY = rule("spiffe://example.org/**")
DNS = rule(dns=("main.example.org", "*.control.example.org"))
EITHER = dataclasses.replace(ANYBODY, allow_dns=DNS.allow_dns)
TWO_DOMAINS = rule(
    "spiffe://example.org/**",
    "spiffe://partner.example/**",
    "spiffe://own.example/**",
    dns=("main.example.org",),
    trust_domains=("example.org", "partner.example"),
)


def fault(certificate, by=ANYBODY):
    peer = peer_of(certificate, by)
    assert peer == Peer(fault=peer.fault), "who isn't allowed has proved nothing"
    assert peer.fault
    return peer.fault


@pytest.mark.parametrize(
    ("uri", "peer"),
    [
        (CONTROLLER, Peer(proven=True, controller=ControllerName("main"))),
        (SLOT, Peer(proven=True, slot=OWN)),
        (f"{SLOT}/7", Peer(proven=True, slot=OWN, generation=Generation(7))),
        (SERVICE, Peer(proven=True)),
    ],
)
def test_an_allowed_id_proves_its_holder_and_what_its_path_names(uri, peer):
    assert peer_of(presented(uri), ANYBODY) == peer
    assert peer_of(presented(uri, dns=("whatever.example",)), EITHER) == peer


def test_an_id_that_no_pattern_matches_is_not_allowed_and_shown():
    assert fault(presented(SLOT), rule("spiffe://example.org/*/controller/*")) == f"spiffe_id_not_allowed: {SLOT}"
    assert fault(presented("spiffe://example.com/a")) == "spiffe_id_not_allowed: spiffe://example.com/a"


def test_any_of_several_patterns_will_do():
    several = rule("spiffe://example.com/**", "spiffe://example.org/x", "spiffe://example.org/*/controller/*")
    assert peer_of(presented(CONTROLLER), several).proven


@pytest.mark.parametrize("by", [ANYBODY, EITHER])
@pytest.mark.parametrize("uris", [(CONTROLLER, SLOT), (SLOT, CONTROLLER), ("https://example.org/", CONTROLLER)])
def test_several_uri_names_prove_nothing_even_beside_an_allowed_dns_name(uris, by):
    assert fault(presented(*uris, dns=("main.example.org",)), by) == "multiple_uris"


def test_without_a_uri_name_a_certificate_passes_by_its_dns_name_alone():
    certificate = presented(dns=("other.example", "a.control.example.org"))
    assert peer_of(certificate, DNS) == peer_of(certificate, EITHER) == Peer(proven=True)
    assert fault(certificate, ANYBODY) == "no_spiffe_id"


@pytest.mark.parametrize("uri", ["https://example.org/", "spiffe://example.com/a", "spiffe://EXAMPLE.org/a"])
def test_a_uri_name_that_will_not_do_is_never_made_up_for_by_a_dns_name(uri):
    fault(presented(uri, dns=("main.example.org",)), EITHER)
    fault(presented(uri, dns=("main.example.org",)), DNS)


def test_a_dns_name_that_no_pattern_matches_is_not_allowed_and_the_first_is_shown():
    assert fault(presented(dns=("a.example", "b.example")), DNS) == "dns_name_not_allowed: a.example"
    assert fault(presented(dns=("*.control.example.org",)), DNS) == "dns_name_not_allowed: *.control.example.org"


def test_a_certificate_without_any_name_says_which_one_it_lacks():
    assert fault(presented(), ANYBODY) == fault(presented(), EITHER) == "no_spiffe_id"
    assert fault(presented(), DNS) == "no_dns_name"


def test_a_rule_that_allows_nobody_lets_nobody_in():
    for certificate in (presented(CONTROLLER), presented(dns=("main.example.org",)), presented()):
        fault(certificate, Rule())


def test_a_signing_certificate_is_nobodys_name():
    assert fault(presented(CONTROLLER, signs=True)) == f"signing_certificate: {CONTROLLER}"


@pytest.mark.parametrize(
    ("uri", "roots_of", "allowed"),
    [
        ("spiffe://example.org/a", ("example.org",), True),
        ("spiffe://example.org/a", ("example.org", "partner.example"), True),
        ("spiffe://example.org/a", ("partner.example",), False),
        ("spiffe://example.org/a", (), False),
        ("spiffe://partner.example/a", ("partner.example",), True),
        ("spiffe://partner.example/a", ("example.org",), False),
        ("spiffe://own.example/a", (), True),
        ("spiffe://own.example/a", ("partner.example",), False),
    ],
)
def test_a_trust_domain_with_roots_of_its_own_is_vouched_for_by_these_alone(uri, roots_of, allowed):
    certificate = presented(uri, roots_of=roots_of)
    if allowed:
        assert peer_of(certificate, TWO_DOMAINS) == Peer(proven=True)
    else:
        assert fault(certificate, TWO_DOMAINS) == f"foreign_trust_domain (signed by another's root): {uri}"


def test_a_trust_domains_roots_vouch_for_no_dns_name():
    certificate = presented(dns=("main.example.org",))
    assert peer_of(certificate, TWO_DOMAINS).proven
    foreign = dataclasses.replace(certificate, trust_domains=frozenset({"partner.example"}))
    assert fault(foreign, TWO_DOMAINS).startswith("foreign_trust_domain (signed by a trust domain's own root): main.")


def test_of_a_hundred_names_the_last_one_counts_and_of_too_many_none():
    """The names are strange enough that comparing them could take long."""
    strange = tuple(f"{'a-' * 31}{number}.{'b' * 63}.example" for number in range(MOST_DNS_NAMES - 1))
    assert peer_of(presented(dns=(*strange[:99], "main.example.org")), DNS).proven
    assert peer_of(presented(dns=(*strange, "main.example.org")), DNS).proven
    assert fault(presented(dns=("x", *strange, "main.example.org")), DNS).startswith("too_many_dns_names (257,")


@given(
    st.lists(st.text() | st.sampled_from([CONTROLLER, SLOT, SERVICE]), max_size=2),
    st.lists(st.text() | st.just("main.example.org"), max_size=2),
    st.sampled_from([ANYBODY, DNS, EITHER, TWO_DOMAINS]),
    st.booleans(),
)
def test_only_one_allowed_id_or_no_uri_and_an_allowed_dns_name_proves_anything(uris, dns, by, signs):
    peer = peer_of(presented(*uris, dns=tuple(dns), signs=signs), by)
    ours = len(uris) == 1 and uris[0] in {CONTROLLER, SLOT, SERVICE} and not signs and by in (ANYBODY, EITHER)
    named = not uris and "main.example.org" in dns and by is not ANYBODY
    assert peer.proven == (ours or named)
    assert peer.proven != bool(peer.fault)
    assert peer.proven or peer == Peer(fault=peer.fault)


RULES = Rules(OWN, frozenset({Requirement.IDENTITY}))
READING = Assignment(Generation(7), U1)


def verdict(uri, identity=OWN, generation=7, controller="main", by=ANYBODY):
    claim = ReceivedClaim(identity, Generation(generation), U1, None, ControllerName(controller))
    return decide(RULES, claim, peer_of(presented(uri), by), State(), READING)


@pytest.mark.parametrize("uri", [CONTROLLER, SLOT, f"{SLOT}/7", SERVICE])
def test_a_claim_that_the_certificate_agrees_with_is_admitted(uri):
    assert verdict(uri) == Admitted(READING)


@pytest.mark.parametrize(
    ("uri", "claimed", "detail"),
    [
        (SLOT, {"identity": OTHER}, "the certificate names another slot"),
        (f"spiffe://example.org/{OTHER}", {}, "the certificate names another slot"),
        (f"spiffe://example.org/{OTHER}/7", {}, "the certificate names another slot"),
        ("spiffe://example.org/stage-eu/replica-a/2", {}, "the certificate names another slot"),
        (f"{SLOT}/6", {}, "the certificate names another generation"),
        (f"{SLOT}/7", {"generation": 8}, "the certificate names another generation"),
        (CONTROLLER, {"controller": "Main"}, "the certificate names another controller"),
    ],
)
def test_a_claim_that_the_certificate_contradicts_is_a_conflict(uri, claimed, detail):
    assert verdict(uri, **claimed) == Refused(Reason.IDENTITY_CONFLICT, detail)


def test_who_is_not_allowed_learns_that_before_anything_about_the_claim():
    refused = verdict(SLOT, identity=Identity("x", "y", 1), by=rule("spiffe://example.org/x"))
    assert refused == Refused(Reason.PEER_NOT_ALLOWED, f"spiffe_id_not_allowed: {SLOT}")
