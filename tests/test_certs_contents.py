"""PEM files taken apart: each block by itself, whatever the one before was."""

from __future__ import annotations

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given
from hypothesis import strategies as st

from sidecar.certs.contents import Unusable, read_blocks
from tests.odd_certificates import authority, certificate, pem, revocations

CA = authority()
CERTIFICATE = pem(certificate(CA))
KEY = ec.generate_private_key(ec.SECP256R1())


def held(content):
    return [block.held for block in read_blocks("f.pem", content)]


def test_every_kind_of_block_is_told_apart():
    content = CERTIFICATE + b"\n# a comment\r\n" + pem(KEY) + pem(revocations(CA)) + CERTIFICATE.replace(b"\n", b"\r\n")
    blocks = read_blocks("f.pem", content)
    kinds = [x509.Certificate, ec.EllipticCurvePrivateKey, x509.CertificateRevocationList, x509.Certificate]
    assert all(isinstance(block.held, kind) for block, kind in zip(blocks, kinds, strict=True))
    assert [str(block) for block in blocks] == [f"f.pem block {number}" for number in (1, 2, 3, 4)]


def test_the_older_form_of_a_key_is_read_and_its_parameters_are_no_block():
    old = KEY.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    (key,) = held(b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n" + old)
    assert key.public_key() == KEY.public_key()


@pytest.mark.parametrize("form", [serialization.PrivateFormat.PKCS8, serialization.PrivateFormat.TraditionalOpenSSL])
def test_a_key_with_a_passphrase_is_said_to_have_one(form):
    locked = KEY.private_bytes(serialization.Encoding.PEM, form, serialization.BestAvailableEncryption(b"x"))
    (unusable,) = held(locked)
    assert "passphrase" in unusable.why


def test_a_block_that_is_cut_off_does_not_swallow_the_next():
    cut, whole = held(CERTIFICATE[:200] + b"\n" + CERTIFICATE)
    assert cut == Unusable("CERTIFICATE that is cut off: its END line is missing")
    assert isinstance(whole, x509.Certificate)


def test_a_damaged_block_is_named_and_the_next_one_read():
    damaged, whole = held(CERTIFICATE.replace(b"\nMII", b"\nAAA", 1) + CERTIFICATE)
    assert damaged.why.startswith("damaged CERTIFICATE: ")
    assert isinstance(whole, x509.Certificate)


def test_a_block_that_is_of_no_use_is_said_to_be():
    assert held(b"-----BEGIN DH PARAMETERS-----\nAAAA\n-----END DH PARAMETERS-----\n") == [
        Unusable("DH PARAMETERS, which the sidecar has no use for")
    ]


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"", "empty"), (b" \n", "empty"), (b"hello", "no PEM in it"), (b"\x30\x82\x01", "no PEM in it: if it is DER,")],
)
def test_a_file_without_blocks_is_itself_unusable(content, why):
    (block,) = read_blocks("f.pem", content)
    assert str(block) == "f.pem"
    assert block.held.why.startswith(why)


@given(st.binary(), st.integers(0, len(CERTIFICATE)))
def test_no_bytes_are_more_than_unusable(noise, at):
    assert read_blocks("f.pem", CERTIFICATE[:at] + noise + CERTIFICATE[at:])
