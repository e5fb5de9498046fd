from __future__ import annotations

import math
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from OpenSSL import SSL, crypto

from sidecar.reasons import TlsFailure
from sidecar.tls.contexts import (
    MAX_DEPTH,
    ContextRefused,
    TlsVersion,
    check_credentials,
    check_crls,
    check_roots,
    client_context,
    server_context,
)
from sidecar.tls.material import Crls
from sidecar.tls.verification import cause_of
from tests.certificates import CA, CLIENT, SERVER, ec_key
from tests.tls_handshakes import BOTH, material, plain_client, shake

ROOT = CA("root")
MIDDLE = CA("middle", parent=ROOT)
OWN = MIDDLE.issue(common="own", usages=[SERVER])
CLIENTS = MIDDLE.issue(common="client", usages=[CLIENT])


def server(*roots, own=OWN, crls=(), version=TlsVersion.TLS_1_2):
    return server_context(material(own, *(roots or (ROOT,)), crls=crls), version)


def names(chain):
    return [each.subject.rfc4514_string().removeprefix("CN=") for each in chain]


def test_both_sides_speak_tls_1_3_by_default():
    found = shake(server_context(material(OWN, ROOT)), client_context(material(CLIENTS, ROOT)))
    assert found.succeeded
    assert found.server.get_protocol_version_name() == "TLSv1.3"


def test_tls_1_2_is_spoken_on_request_alone():
    client = plain_client(CLIENTS, ROOT, version=SSL.TLS1_2_VERSION)
    assert shake(server(), client).succeeded
    assert not shake(server(version=TlsVersion.TLS_1_3), client).succeeded


def test_a_dialler_speaks_tls_1_2_on_request_alone():
    old = server()
    old.set_max_proto_version(SSL.TLS1_2_VERSION)
    assert shake(old, client_context(material(CLIENTS, ROOT), TlsVersion.TLS_1_2)).succeeded
    assert not shake(old, client_context(material(CLIENTS, ROOT))).succeeded


def test_the_own_chain_is_sent_whole():
    found = shake(server(), plain_client(CLIENTS, ROOT))
    assert names(found.client.get_peer_cert_chain(as_cryptography=True)) == ["own", "middle"]


def test_nothing_but_the_own_chain_is_sent():
    found = shake(server(own=ROOT.issue(common="own")), plain_client(CLIENTS, ROOT))
    assert names(found.client.get_peer_cert_chain(as_cryptography=True)) == ["own"]


def test_no_ca_is_named_to_the_client():
    assert shake(server(), plain_client(CLIENTS, ROOT)).client.get_client_ca_list() == []


def test_clients_of_every_root_in_the_bundle_are_accepted():
    new, old, other = CA("new"), CA("old"), CA("other")
    context = server(new, old)
    assert shake(context, plain_client(new.issue())).succeeded
    assert shake(context, plain_client(old.issue())).succeeded
    assert not shake(context, plain_client(other.issue())).succeeded


def test_two_roots_of_one_name_are_told_apart():
    one, other = CA("same"), CA("same")
    context = server(one, other)
    assert shake(context, plain_client(one.issue())).succeeded
    assert shake(context, plain_client(other.issue())).succeeded


def test_an_intermediate_in_the_bundle_is_trusted_as_listed():
    assert shake(server(MIDDLE), plain_client(CLIENTS)).succeeded


def test_with_lists_an_intermediate_in_the_bundle_needs_its_root_beside_it():
    lists = (ROOT.crl(), MIDDLE.crl())
    assert not shake(server(MIDDLE, crls=lists), plain_client(CLIENTS)).succeeded
    assert shake(server(MIDDLE, ROOT, crls=lists), plain_client(CLIENTS)).succeeded


@pytest.mark.parametrize("version", BOTH)
def test_a_client_without_a_certificate_never_gets_through(version):
    assert not shake(server(), plain_client(version=version)).succeeded


@pytest.mark.parametrize("key", [ec_key(), ed25519.Ed25519PrivateKey.generate(), rsa.generate_private_key(65537, 2048)])
def test_own_keys_of_every_kind_are_served(key):
    assert shake(server(own=ROOT.issue(key=key)), plain_client(CLIENTS, ROOT)).succeeded


def test_a_key_that_is_too_short_for_openssl_is_refused_with_its_reason():
    short = ROOT.issue(key=rsa.generate_private_key(65537, 1024))
    with pytest.raises(ContextRefused, match="ee key too small"):
        server(own=short)
    with pytest.raises(ContextRefused, match="ee key too small"):
        check_credentials(material(short, ROOT).own)


def test_what_openssl_takes_passes_the_checks():
    good = material(OWN, ROOT, crls=(ROOT.crl(), MIDDLE.crl()))
    check_credentials(good.own)
    check_roots(good.roots)
    check_crls(good.crls)


def test_a_list_that_openssl_doesnt_take_is_refused_by_its_check():
    der = ROOT.crl().public_bytes(Encoding.DER)
    number = bytes.fromhex("0403020101")  # its number, which is then no integer
    crl = x509.load_der_x509_crl(der.replace(number, bytes.fromhex("0403030101")))
    with pytest.raises(ContextRefused):
        check_crls(Crls((crl,)))


def test_a_dialler_refuses_a_clients_certificate_in_the_servers_place():
    found = shake(server(own=MIDDLE.issue(usages=[CLIENT])), client_context(material(CLIENTS, ROOT)))
    assert cause_of(found.client, found.client_error) is TlsFailure.BAD_CERTIFICATE


@pytest.mark.parametrize("usages", [(), [CLIENT], [CLIENT, SERVER]])
def test_a_client_whose_certificate_is_for_clients_or_for_anything_is_accepted(usages):
    assert shake(server(), plain_client(MIDDLE.issue(usages=usages))).succeeded


def test_buffers_are_given_back_and_options_are_off():
    context = server()
    assert context.set_mode(0) & SSL.MODE_RELEASE_BUFFERS
    options = context.set_options(0)
    for option in (SSL.OP_NO_TICKET, SSL.OP_NO_RENEGOTIATION, SSL.OP_NO_COMPRESSION):
        assert options & option
    assert context.get_session_cache_mode() == SSL.SESS_CACHE_OFF


# --- resumption: a resumed session leaves no verified chain, which is how these tests can tell


def resuming_server():
    """OpenSSL's defaults, under which sessions are resumed: what the others are compared with."""
    context = SSL.Context(SSL.TLS_SERVER_METHOD)
    context.set_session_id(b"tests")
    context.use_certificate(OWN.certificate)
    context.add_extra_chain_cert(MIDDLE.certificate)
    context.use_privatekey(OWN.key)
    context.get_cert_store().add_cert(crypto.X509.from_cryptography(ROOT.certificate))
    context.set_verify(
        SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT, lambda connection, certificate, number, depth, ok: bool(ok)
    )
    return context


def twice(context, version):
    """Two handshakes of a client that offers the session of the first one in the second."""
    client = plain_client(CLIENTS, ROOT, version=version)
    first = shake(context, client)
    assert first.succeeded
    first.server.send(b"x")  # what is queued after the handshake, tickets, goes with it
    first.carry()
    assert first.received_by_client() == b"x"
    return first, shake(context, client, session=first.client.get_session())


@pytest.mark.parametrize("version", BOTH)
def test_openssls_defaults_would_resume_without_verification(version):
    first, second = twice(resuming_server(), version)
    assert second.succeeded
    assert first.server.get_verified_chain()
    assert not second.server.get_verified_chain()


@pytest.mark.parametrize("version", BOTH)
def test_a_client_that_offers_its_session_is_verified_anew_and_served(version):
    first, second = twice(server(), version)
    assert second.succeeded
    assert names(second.server.get_verified_chain(as_cryptography=True)) == ["client", "middle", "root"]
    assert second.server_sent > 0.9 * first.server_sent  # certificates and all


@pytest.mark.parametrize("version", BOTH)
def test_a_ticket_of_another_server_gets_nobody_past_verification(version):
    client = plain_client(CLIENTS, ROOT, version=version)
    first = shake(resuming_server(), client)
    first.server.send(b"x")
    first.carry()
    first.received_by_client()
    revoking = server(crls=(ROOT.crl(), MIDDLE.crl(CLIENTS)))
    second = shake(revoking, client, session=first.client.get_session())
    assert cause_of(second.server, second.server_error) is TlsFailure.CERT_REVOKED


def test_a_client_cant_renegotiate():
    found = shake(server(), plain_client(CLIENTS, ROOT, version=SSL.TLS1_2_VERSION))
    assert found.succeeded
    found.client.renegotiate()
    with pytest.raises(SSL.WantReadError):
        found.client.do_handshake()
    found.carry()
    with pytest.raises(SSL.WantReadError):
        found.server.recv(1)
    found.carry()
    with pytest.raises(SSL.Error) as caught:
        found.client.do_handshake()
    assert "no renegotiation" in str(caught.value)
    assert found.server.total_renegotiations() == 0


# --- large things


def below(depth: int):
    """An end's certificate with *depth* intermediates between it and the root."""
    ca = ROOT
    for number in range(depth):
        ca = CA(f"ca {number}", parent=ca)
    return ca.issue()


def test_a_chain_of_ten_is_handled():
    assert shake(server(), plain_client(below(MAX_DEPTH))).succeeded


def test_a_longer_chain_is_refused_at_once():
    leaf = below(MAX_DEPTH + 5)
    before = time.monotonic()
    found = shake(server(), plain_client(leaf))
    assert time.monotonic() - before < 1
    assert cause_of(found.server, found.server_error) is TlsFailure.BAD_CERTIFICATE


def test_a_chain_beyond_openssls_bound_is_refused_by_its_length():
    uris = [f"spiffe://example.org/{number:0200}" for number in range(600)]
    found = shake(server(), plain_client(MIDDLE.issue(uris=uris)))
    assert cause_of(found.server, found.server_error) is TlsFailure.PROTOCOL
    assert "excessive message size" in str(found.server_error)


def test_a_chain_of_16_kib_is_handled():
    leaf = MIDDLE.issue(uris=[f"spiffe://example.org/{number:0140}" for number in range(100)])
    found = shake(server(), plain_client(leaf))
    assert found.succeeded
    assert found.client_sent > 16 * 1024


def huge_rsa_key():
    """8,676 bits, of the primes 2^4253-1 and 2^4423-1: others of this length take a minute to find."""
    p, q, e = 2**4423 - 1, 2**4253 - 1, 65537
    d = pow(e, -1, math.lcm(p - 1, q - 1))
    public = rsa.RSAPublicNumbers(e, p * q)
    numbers = rsa.RSAPrivateNumbers(
        p, q, d, rsa.rsa_crt_dmp1(d, p), rsa.rsa_crt_dmq1(d, q), rsa.rsa_crt_iqmp(p, q), public
    )
    return numbers.private_key(unsafe_skip_rsa_key_validation=True)


def test_huge_rsa_keys_are_handled_on_both_sides():
    key = huge_rsa_key()
    own, client = ROOT.issue(key=key), ROOT.issue(key=key)
    before = time.monotonic()
    found = shake(server(own=own), plain_client(client, ROOT))
    assert found.succeeded
    assert time.monotonic() - before < 5
