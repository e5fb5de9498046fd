from __future__ import annotations

import time

import pytest
from cryptography import x509
from OpenSSL import SSL

from sidecar.tls.contexts import server_context
from sidecar.tls.material import Crls, revocable
from sidecar.tls.peer_certificate import PeerCertificates, UnreadableCertificate, read_chain
from tests.certificates import CA, CONTROLLER
from tests.tls_handshakes import material, plain_client, shake

ROOT, PARTNERS, NOBODYS = CA("root"), CA("partner's"), CA("nobody's")
MIDDLE = CA("middle", parent=ROOT)
SERVES = material(
    ROOT.issue(), NOBODYS, domains={"example.org": [ROOT], "example.com": [ROOT], "partner.org": [PARTNERS]}
)
CONTEXT = server_context(SERVES)


def shown(leaf):
    found = shake(CONTEXT, plain_client(leaf))
    assert found.succeeded
    return PeerCertificates(SERVES.roots).of(found.server)


def test_names_are_kept_in_order_and_repeated_ones_too():
    uris = (CONTROLLER, "https://example.org/x", CONTROLLER)
    seen = shown(MIDDLE.issue(uris=uris, dns=["c1.example.org", "*.example.org"]))
    assert seen.uris == uris
    assert seen.dns_names == ("c1.example.org", "*.example.org")


def test_a_certificate_without_names_has_none():
    seen = shown(ROOT.issue(uris=(), common=CONTROLLER))
    assert (seen.uris, seen.dns_names) == ((), ())


def test_the_expiry_is_the_certificates_own():
    leaf = ROOT.issue(end=77)
    assert shown(leaf).not_after == leaf.certificate.not_valid_after_utc.timestamp()


@pytest.mark.parametrize(
    ("ca", "domains"),
    [
        (ROOT, {"example.org", "example.com"}),
        (MIDDLE, {"example.org", "example.com"}),
        (PARTNERS, {"partner.org"}),
        (NOBODYS, set()),
    ],
)
def test_the_root_that_signed_it_says_for_which_domains(ca, domains):
    assert shown(ca.issue()).trust_domains == domains


def test_an_intermediate_vouches_for_the_domain_that_lists_it():
    serves = material(ROOT.issue(), domains={"example.org": [ROOT], "part.example.org": [MIDDLE]})
    context, read = server_context(serves), PeerCertificates(serves.roots)
    of_the_middle = shake(context, plain_client(MIDDLE.issue()))
    of_the_root = shake(context, plain_client(ROOT.issue()))
    assert read.of(of_the_middle.server).trust_domains == {"example.org", "part.example.org"}
    assert read.of(of_the_root.server).trust_domains == {"example.org"}


def test_lists_name_it_and_the_cas_above_it():
    leaf = MIDDLE.issue()
    seen = shown(leaf)
    assert seen.revocable == tuple(map(revocable, (leaf.certificate, MIDDLE.certificate, ROOT.certificate)))
    assert Crls((ROOT.crl(MIDDLE),)).revoke(*seen.revocable)
    assert not Crls((ROOT.crl(),)).revoke(*seen.revocable)


def test_a_chain_seen_before_is_the_same_object():
    read = PeerCertificates(SERVES.roots)
    leaf, other = ROOT.issue(), ROOT.issue()
    first = read.of(shake(CONTEXT, plain_client(leaf)).server)
    assert read.of(shake(CONTEXT, plain_client(leaf)).server) is first
    assert read.of(shake(CONTEXT, plain_client(other)).server) is not first


def test_a_hundred_names_are_read_at_once():
    leaf = ROOT.issue(uris=[f"spiffe://example.org/{number}" for number in range(100)])
    before = time.monotonic()
    seen = shown(leaf)
    assert len(seen.uris) == 100
    assert time.monotonic() - before < 1


def test_without_a_handshake_there_is_nothing_to_read():
    connection = SSL.Connection(CONTEXT)
    with pytest.raises(UnreadableCertificate, match="no certificate"):
        PeerCertificates(SERVES.roots).of(connection)


JUNK = [b"junk", b"\x30\x03\x86\x01\xff", b"\x30\x02\x86\x05", b""]


@pytest.mark.parametrize("value", JUNK)
def test_names_that_cant_be_parsed_are_an_error_of_ours(value):
    name = x509.UnrecognizedExtension(x509.SubjectAlternativeName.oid, value)
    leaf = ROOT.issue(uris=(), extensions=[name])
    with pytest.raises(UnreadableCertificate, match="can't be parsed"):
        read_chain((leaf.certificate, ROOT.certificate), SERVES.roots)


@pytest.mark.parametrize("value", JUNK)
def test_names_that_cant_be_parsed_never_get_through(value):
    name = x509.UnrecognizedExtension(x509.SubjectAlternativeName.oid, value)
    found = shake(CONTEXT, plain_client(ROOT.issue(uris=(), extensions=[name])))
    if found.succeeded:
        with pytest.raises(UnreadableCertificate):
            PeerCertificates(SERVES.roots).of(found.server)
