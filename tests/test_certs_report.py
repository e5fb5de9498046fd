"""What a block says, in words, and which of it is wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID

from sidecar.certs.contents import Block, Unusable
from sidecar.certs.report import describe, shown
from sidecar.errors import MalformedValue
from tests.odd_certificates import NAME, NOW, authority, certificate, revocations

CA = authority()


def naming(uri):
    if not uri.startswith("spiffe://"):
        raise MalformedValue("must begin with spiffe://")
    return "a slot"


def lines(held, *, now=NOW):
    return list(describe(Block("f.pem", 1, held), now=now, naming=naming))


def text_of(held, *, wrong=None):
    return "\n".join(line.text for line in lines(held) if wrong in (None, line.wrong))


def test_a_certificate_says_whose_it_is_and_how_long_it_holds():
    text = text_of(certificate(CA))
    assert "1: certificate" in text
    assert f"URI name  {NAME}: names a slot" in text
    assert "issuer    CN=development CA" in text
    assert "30 days left" in text
    assert "key       EC secp256r1" in text
    assert not text_of(certificate(CA), wrong=True)


def test_an_authority_is_said_to_be_one_and_its_name_is_not_judged():
    text = text_of(CA.certificate)
    assert "1: CA certificate" in text
    assert "URI name  spiffe://example.org\n" in text
    assert "issuer    itself" in text
    assert not text_of(CA.certificate, wrong=True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"starts": -3, "ends": -1}, ": expired"),
        ({"starts": 1}, ": not yet"),
        ({"uris": (NAME, "spiffe://example.org/b")}, "2, and no listener takes a certificate with more than one"),
        ({"uris": ("https://example.org/",)}, "https://example.org/ is no SPIFFE ID, so no listener takes it: must"),
        ({"purposes": [ExtendedKeyUsageOID.CODE_SIGNING]}, "usable as neither client nor server"),
    ],
)
def test_what_no_listener_takes_is_wrong(options, said):
    assert said in text_of(certificate(CA, **options), wrong=True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"uris": ()}, "passes by tls.allow_dns alone"),
        ({"purposes": [ExtendedKeyUsageOID.CLIENT_AUTH]}, "usable as client"),
        ({"ends": 0.5}, "less than a day left"),
    ],
)
def test_what_some_listeners_take_is_only_said(options, said):
    assert said in text_of(certificate(CA, **options), wrong=False)
    assert not text_of(certificate(CA, **options), wrong=True)


def test_a_revocation_list_says_how_many_it_holds():
    text = text_of(revocations(CA, certificate(CA)))
    assert "1: revocation list" in text
    assert "revokes   1 certificate\n" in text
    assert ": expired" in text_of(revocations(CA, ends=0), wrong=True)


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (ec.generate_private_key(ec.SECP384R1()), "EC secp384r1"),
        (rsa.generate_private_key(65537, 2048), "RSA 2048"),
        (ed25519.Ed25519PrivateKey.generate(), "Ed25519"),
    ],
)
def test_a_key_says_its_kind_and_nothing_else(key, kind):
    assert text_of(key) == f"1: private key, {kind}"


def test_what_is_unusable_is_wrong():
    assert text_of(Unusable("cut off"), wrong=True) == "1: cut off"
    (line,) = describe(replace(Block("f.pem", 1, Unusable("empty")), number=0), now=NOW, naming=naming)
    assert line.text == "empty"


def test_text_from_a_certificate_cannot_move_the_cursor():
    text = text_of(certificate(CA, subject="a\x1b[2J\nb"))
    assert "\x1b" not in text
    assert "\\x1b[2J" in text or "\\1B[2J" in text
    assert len(shown("x" * 5000)) < 2000
