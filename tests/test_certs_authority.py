"""The certificates that a development CA makes, as OpenSSL's own program sees them."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from sidecar.certs.authority import CLOCKS_DIFFER, Authority
from sidecar.certs.errors import CertsError
from sidecar.errors import MalformedValue

NOW = datetime.now(UTC).replace(microsecond=0)
NAME = "spiffe://example.org/prod-eu/replica-a/2"


@pytest.fixture(scope="module")
def authority():
    return Authority.create("example.org", now=NOW, days=3650)


def openssl(*arguments):
    done = subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def on_disk(authority, tmp_path):
    pair = authority.issue("server", NAME, dns=["replica-a-2.example.org"], now=NOW, days=30)
    files = {"ca.crt": authority.pair().certificate, "tls.crt": pair.certificate, "tls.key": pair.key}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


@pytest.mark.parametrize("purpose", ["sslserver", "sslclient"])
def test_openssl_verifies_a_certificate_for_either_side(on_disk, purpose):
    code, said = openssl(
        "verify", "-x509_strict", "-purpose", purpose, "-CAfile", on_disk / "ca.crt", on_disk / "tls.crt"
    )
    assert code == 0, said


def test_openssl_does_not_take_it_for_a_ca(on_disk, authority):
    said = openssl("x509", "-in", on_disk / "tls.crt", "-noout", "-text")[1]
    assert "CA:FALSE" in said
    assert f"URI:{NAME}, DNS:replica-a-2.example.org" in said
    assert "prime256v1" in said
    assert "CA:TRUE, pathlen:0" in openssl("x509", "-in", on_disk / "ca.crt", "-noout", "-text")[1]


def test_openssl_finds_that_key_and_certificate_belong_together(on_disk):
    of_certificate = openssl("x509", "-in", on_disk / "tls.crt", "-noout", "-pubkey")
    assert of_certificate == openssl("pkey", "-in", on_disk / "tls.key", "-pubout")
    assert of_certificate[0] == 0


def test_openssl_refuses_it_under_another_ca(on_disk):
    other = Authority.create("example.org", now=NOW, days=1)
    (on_disk / "ca.crt").write_bytes(other.pair().certificate)
    assert openssl("verify", "-CAfile", on_disk / "ca.crt", on_disk / "tls.crt")[0] != 0


def test_a_certificate_starts_a_little_early_and_ends_when_it_is_told_to(authority):
    pair = authority.issue("slot", NAME, now=NOW, days=2)
    certificate = x509.load_pem_x509_certificate(pair.certificate)
    assert certificate.not_valid_before_utc == (NOW - CLOCKS_DIFFER).replace(microsecond=0)
    assert certificate.not_valid_after_utc == pair.expires == (NOW + timedelta(days=2)).replace(microsecond=0)


def test_an_authority_read_back_signs_on(authority):
    own = authority.pair()
    again = Authority.from_pem(own.certificate, own.key)
    assert again.trust_domain == "example.org"
    pair = again.issue("controller", NAME, now=NOW, days=1)
    x509.load_pem_x509_certificate(pair.certificate).verify_directly_issued_by(authority.certificate)


def test_a_certificate_that_would_outlive_its_authority_is_not_made(authority):
    with pytest.raises(CertsError, match="give --days 3650 at most"):
        authority.issue("server", NAME, now=NOW, days=3651)
    with pytest.raises(CertsError, match="UTC: make a new CA"):
        authority.issue("server", NAME, now=NOW + timedelta(days=3650), days=1)


@pytest.mark.parametrize("days", [0, -1, 10**9])
def test_a_time_that_is_none_is_refused(authority, days):
    with pytest.raises(CertsError):
        authority.issue("server", NAME, now=NOW, days=days)


def test_a_certificate_without_any_name_is_not_made(authority):
    with pytest.raises(CertsError, match="needs a name"):
        authority.issue("server", None, now=NOW, days=1)
    assert authority.issue("server", None, dns=["a.example.org"], now=NOW, days=1)


def test_a_dns_name_that_is_none_is_refused(authority):
    with pytest.raises(MalformedValue, match="DNS name"):
        authority.issue("server", NAME, dns=["a b"], now=NOW, days=1)


def test_what_is_no_authority_is_not_taken_for_one(authority):
    own, leaf = authority.pair(), authority.issue("server", NAME, now=NOW, days=1)
    other = Authority.create("example.org", now=NOW, days=1).pair()
    with pytest.raises(CertsError, match="don't belong together"):
        Authority.from_pem(own.certificate, other.key)
    for certificate, key in ((leaf.certificate, leaf.key), (b"", own.key), (own.certificate, b"no key")):
        with pytest.raises(CertsError, match="is no CA"):
            Authority.from_pem(certificate, key)
