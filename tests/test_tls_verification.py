from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID
from OpenSSL import SSL

from sidecar.reasons import TlsFailure
from sidecar.tls.contexts import TlsVersion, client_context, server_context
from sidecar.tls.verification import cause_of, chain_fault, describe
from tests.certificates import CA, CLIENT, HOUR, SERVER, Leaf, moment, now
from tests.tls_handshakes import BOTH, material, plain_client, shake

ROOT = CA("root")
MIDDLE = CA("middle", parent=ROOT)
OWN = ROOT.issue(common="own")
EMPTY_LISTS = (ROOT.crl(), MIDDLE.crl())


def server(*roots, crls=()):
    return server_context(material(OWN, *(roots or (ROOT,)), crls=crls), TlsVersion.TLS_1_2)


def failure(context, client):
    """The handshake that has failed on the server's side, its cause, and the log's words."""
    found = shake(context, client)
    error = found.server_error
    assert error is not None
    assert found.client_error is not None  # the refused peer gets to know
    return found, cause_of(found.server, error), describe(found.server, error, now())


def alone(leaf):
    return Leaf(leaf.certificate, leaf.key)


STRANGER = CA("stranger")
SHORT = CA("short", parent=ROOT, end=-60, start=-HOUR)
EARLY = CA("early", parent=ROOT, start=HOUR)
_STRANGE = STRANGER.issue()
WITH_ROOT = Leaf(_STRANGE.certificate, _STRANGE.key, (STRANGER.certificate,))
REVOKED, OTHER_USE = MIDDLE.issue(), MIDDLE.issue(usages=[SERVER])

FAILURES = {
    "an expired certificate": (MIDDLE.issue(end=-5), (), TlsFailure.CERT_EXPIRED, 0),
    "a certificate of tomorrow": (MIDDLE.issue(start=2 * HOUR, end=3 * HOUR), (), TlsFailure.CERT_NOT_YET_VALID, 0),
    "a certificate of an expired CA": (SHORT.issue(), (), TlsFailure.CERT_EXPIRED, 1),
    "a certificate of tomorrow's CA": (EARLY.issue(), (), TlsFailure.CERT_NOT_YET_VALID, 1),
    "another CA's certificate": (STRANGER.issue(), (), TlsFailure.UNKNOWN_CA, 0),
    "another CA's of the same name": (CA("root").issue(), (), TlsFailure.UNKNOWN_CA, 0),
    "a CA's own certificate": (Leaf(STRANGER.certificate, STRANGER.key), (), TlsFailure.UNKNOWN_CA, 0),
    "another chain, sent with its root": (WITH_ROOT, (), TlsFailure.UNKNOWN_CA, 1),
    "a missing intermediate": (alone(MIDDLE.issue()), (), TlsFailure.UNKNOWN_CA, 0),
    "a server's certificate": (OTHER_USE, (), TlsFailure.BAD_CERTIFICATE, 0),
    "a revoked certificate": (REVOKED, (ROOT.crl(), MIDDLE.crl(REVOKED)), TlsFailure.CERT_REVOKED, 0),
    "a certificate of a revoked CA": (MIDDLE.issue(), (ROOT.crl(MIDDLE), MIDDLE.crl()), TlsFailure.CERT_REVOKED, 1),
    "an expired list": (MIDDLE.issue(), (ROOT.crl(), MIDDLE.crl(end=-5)), TlsFailure.CRL_UNUSABLE, 0),
    "a list of tomorrow": (
        MIDDLE.issue(),
        (ROOT.crl(), MIDDLE.crl(start=2 * HOUR, end=3 * HOUR)),
        TlsFailure.CRL_UNUSABLE,
        0,
    ),
    "no list of its CA": (MIDDLE.issue(), (ROOT.crl(),), TlsFailure.CRL_UNUSABLE, 0),
    "no list of the CA's CA": (MIDDLE.issue(), (MIDDLE.crl(),), TlsFailure.CRL_UNUSABLE, 1),
    "a list that another key signed": (
        MIDDLE.issue(),
        (ROOT.crl(), MIDDLE.crl(signer=STRANGER)),
        TlsFailure.CRL_UNUSABLE,
        0,
    ),
    "no certificate": (None, (), TlsFailure.NO_CERT, None),
}


@pytest.mark.parametrize("version", BOTH)
@pytest.mark.parametrize("what", FAILURES)
def test_every_failure_has_its_cause_and_depth(what, version):
    leaf, crls, cause, depth = FAILURES[what]
    found, seen, _ = failure(server(crls=crls), plain_client(leaf, version=version))
    assert seen is cause
    fault = chain_fault(found.server)
    assert (None if fault is None else fault.depth) == depth


def test_a_short_key_is_a_bad_certificate():
    leaf = MIDDLE.issue(key=rsa.generate_private_key(65537, 1024))
    client = SSL.Context(SSL.TLS_CLIENT_METHOD)
    client.set_cipher_list(b"DEFAULT:@SECLEVEL=0")
    client.use_certificate(leaf.certificate)
    client.add_extra_chain_cert(MIDDLE.certificate)
    client.use_privatekey(leaf.key)
    _, cause, _ = failure(server(), client)
    assert cause is TlsFailure.BAD_CERTIFICATE


def test_a_chain_that_is_good_leaves_no_fault():
    found = shake(server(crls=EMPTY_LISTS), plain_client(MIDDLE.issue(usages=[CLIENT])))
    assert found.succeeded
    assert chain_fault(found.server) is None


def words(leaf, crls=()):
    return failure(server(crls=crls), plain_client(leaf))[2]


def test_the_log_says_both_times_of_a_certificate_that_isnt_valid_yet():
    start = f"{moment(30):%Y-%m-%dT%H:%M:}"
    said = words(MIDDLE.issue(start=30))
    assert f"valid from {start}" in said
    assert ", and it is 20" in said


def test_the_log_says_both_times_of_an_expired_certificate():
    assert f"valid until {moment(-60):%Y-%m-%dT%H:%M:}" in words(MIDDLE.issue(end=-60))


def test_the_log_names_the_issuer_that_wasnt_found():
    said = words(alone(MIDDLE.issue(common="c1")))
    assert said == (
        "the peer's certificate, 'CN=c1': its issuer 'CN=middle' is neither among the roots nor among the certificates "
        "that were sent"
    )


def test_the_log_names_the_ca_without_a_usable_list():
    assert "there is no usable CRL of 'CN=root'" in words(MIDDLE.issue(), (MIDDLE.crl(),))


def test_the_log_names_the_serial_number_of_the_revoked():
    assert f"serial number {REVOKED.certificate.serial_number:x}" in words(REVOKED, (ROOT.crl(), MIDDLE.crl(REVOKED)))


def test_the_log_of_another_error_gives_its_number():
    assert "verify error 26" in words(OTHER_USE)  # X509_V_ERR_INVALID_PURPOSE


def test_a_name_with_control_characters_is_escaped():
    said = words(STRANGER.issue(common="a\nb\x1b"))
    assert "\n" not in said
    assert "\x1b" not in said


def test_a_long_name_is_cut():
    ca = CA("another")
    ca.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x" * 60) for _ in range(500)])
    assert len(words(ca.issue())) < 500


def server_fed(data: bytes, *, then_end: bool):
    connection = SSL.Connection(server())
    connection.set_accept_state()
    if data:
        connection.bio_write(data)
    if then_end:
        connection.bio_shutdown()
    with pytest.raises(SSL.Error) as caught:
        connection.do_handshake()
    return cause_of(connection, caught.value), describe(connection, caught.value, now())


def test_another_protocol_is_protocol():
    cause, said = server_fed(b"GET / HTTP/1.1\r\n\r\n", then_end=False)
    assert (cause, said) == (TlsFailure.PROTOCOL, "http request")


def test_a_proxy_header_in_clear_is_protocol():
    cause, said = server_fed(b"\r\n\r\n\0\r\nQUIT\n\x20\x00\x00\x00", then_end=False)
    assert (cause, said) == (TlsFailure.PROTOCOL, "wrong version number")


@pytest.mark.parametrize("data", [b"", b"\x16\x03\x01\x02\x00\x01\x00"])
def test_an_end_before_the_handshakes_is_eof(data):
    assert server_fed(data, then_end=True) == (TlsFailure.EOF, "the peer ended the connection in mid-handshake")


def test_a_reset_is_eof():
    connection = SSL.Connection(server())
    assert cause_of(connection, SSL.SysCallError(104, "ECONNRESET")) is TlsFailure.EOF


@pytest.mark.parametrize("version", BOTH)
def test_a_peer_that_refuses_this_side_is_protocol_and_its_alert_is_said(version):
    found = shake(server(), plain_client(MIDDLE.issue(), STRANGER, version=version))
    assert cause_of(found.server, found.server_error) is TlsFailure.PROTOCOL
    said = describe(found.server, found.server_error, now())
    assert said == "the peer refused this side: tlsv1 alert unknown ca"


def test_an_old_version_is_protocol():
    context = server_context(material(OWN, ROOT))
    found = shake(context, plain_client(MIDDLE.issue(), version=SSL.TLS1_2_VERSION))
    assert cause_of(found.server, found.server_error) is TlsFailure.PROTOCOL


def test_an_error_without_a_reason_is_said_to_have_none():
    connection = SSL.Connection(server())
    assert cause_of(connection, SSL.Error()) is TlsFailure.PROTOCOL
    assert describe(connection, SSL.Error(), now()) == "OpenSSL gives no reason"


def test_the_clients_side_records_its_servers_fault():
    found = shake(server_context(material(STRANGER.issue(), ROOT)), client_context(material(MIDDLE.issue(), ROOT)))
    assert cause_of(found.client, found.client_error) is TlsFailure.UNKNOWN_CA


def test_the_words_are_these():
    assert [each.value for each in TlsFailure] == [
        *("cert_expired", "cert_not_yet_valid", "cert_revoked", "unknown_ca", "no_cert", "bad_certificate"),
        *("crl_unusable", "protocol", "eof", "timeout"),
    ]
