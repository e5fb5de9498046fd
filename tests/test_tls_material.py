from __future__ import annotations

import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.tls.material import (
    ANY_DOMAIN,
    Crls,
    File,
    TlsFilesError,
    read_credentials,
    read_crls,
    read_roots,
    revocable,
)
from tests.certificates import CA, HOUR, ec_key, now, pem

CRT, KEY, BUNDLE, CRL = Path("/tls/tls.crt"), Path("/tls/tls.key"), Path("/tls/ca.crt"), Path("/tls/crl.pem")
ROOT = CA("root")
MIDDLE = CA("middle", parent=ROOT)
LEAF = MIDDLE.issue()


def credentials(chain: bytes, key: bytes):
    return read_credentials(File(CRT, chain), File(KEY, key))


def roots(content: bytes):
    return read_roots({ANY_DOMAIN: File(BUNDLE, content)})


def fault(read, *arguments):
    with pytest.raises(TlsFilesError) as caught:
        read(*arguments)
    return str(caught.value)


# --- own certificate and key


def test_a_chain_is_kept_whole_with_the_own_certificate_first():
    found = credentials(LEAF.chain_pem, LEAF.key_pem)
    assert found.chain == (LEAF.certificate, MIDDLE.certificate)
    assert found.key.public_key() == LEAF.certificate.public_key()


def test_the_validity_is_that_of_the_whole_chain():
    short = CA("short", parent=ROOT, start=-60, end=120)
    leaf = short.issue(start=-HOUR, end=HOUR)
    found = credentials(leaf.chain_pem, leaf.key_pem)
    assert found.not_before == short.certificate.not_valid_before_utc.timestamp()
    assert found.not_after == short.certificate.not_valid_after_utc.timestamp()
    assert found.not_before < now() < found.not_after


def test_one_file_may_hold_key_and_chain():
    both = LEAF.key_pem + LEAF.chain_pem
    assert credentials(both, both).chain == LEAF.chain


@pytest.mark.parametrize(
    "key", [ec_key(), ec.generate_private_key(ec.SECP384R1()), ed25519.Ed25519PrivateKey.generate()]
)
def test_keys_of_these_kinds_are_taken(key):
    leaf = ROOT.issue(key=key)
    assert credentials(leaf.chain_pem, leaf.key_pem).chain == (leaf.certificate,)


@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
@pytest.mark.parametrize("key", [ec_key(), rsa.generate_private_key(65537, 2048)])
def test_keys_are_taken_in_both_forms(key, form):
    leaf = ROOT.issue(key=key)
    text = key.private_bytes(Encoding.PEM, form, NoEncryption())
    assert credentials(leaf.chain_pem, text).chain == (leaf.certificate,)


def test_a_key_with_its_curve_before_it_is_taken():
    text = subprocess.run(
        ["openssl", "ecparam", "-name", "prime256v1", "-genkey"], check=True, capture_output=True
    ).stdout
    assert b"EC PARAMETERS" in text
    assert "isn't the key of the certificate" in fault(credentials, LEAF.chain_pem, text)


def test_a_large_rsa_key_is_read_at_once():
    text = subprocess.run(["openssl", "genrsa", "4096"], check=True, capture_output=True).stdout
    before = time.monotonic()
    assert "isn't the key of the certificate" in fault(credentials, LEAF.chain_pem, text)
    assert time.monotonic() - before < 0.2  # its full check alone takes longer


def test_a_key_of_another_certificate_is_refused_and_both_files_are_named():
    message = fault(credentials, LEAF.chain_pem, pem(ec_key()))
    assert message == f"{KEY}: isn't the key of the certificate in {CRT}"


@pytest.mark.parametrize(
    ("chain", "key", "says"),
    [
        (b"", LEAF.key_pem, f"{CRT}: holds no certificate"),
        (LEAF.key_pem, LEAF.key_pem, f"{CRT}: holds no certificate"),
        (LEAF.chain_pem, b"", f"{KEY}: holds no private keys"),
        (LEAF.chain_pem, LEAF.key_pem * 2, f"{KEY}: holds 2 private keys"),
        (LEAF.chain_pem, pem(ROOT.crl()), f"{KEY}: block 1 (X509 CRL) isn't a private key"),
        (
            LEAF.chain_pem,
            LEAF.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x")),
            f"{KEY}: block 1 (ENCRYPTED PRIVATE KEY) is encrypted",
        ),
        (
            LEAF.chain_pem,
            LEAF.key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, BestAvailableEncryption(b"x")),
            f"{KEY}: block 1 has headers: it is encrypted",
        ),
        (pem(*reversed(LEAF.chain)), LEAF.key_pem, f"{CRT}: certificate 2 didn't issue the one before"),
        (pem(LEAF.certificate, ROOT.certificate), LEAF.key_pem, f"{CRT}: certificate 2 didn't issue the one before"),
        (LEAF.chain_pem + pem(ROOT.crl()), LEAF.key_pem, f"{CRT}: block 3 (X509 CRL) has no place here"),
        (
            LEAF.chain_pem.replace(b"END", b"EMD", 1),
            LEAF.key_pem,
            f"{CRT}: line 11 is a damaged PEM marker, near block 1",
        ),
        (LEAF.chain_pem, pem(dsa.generate_private_key(2048)), f"{KEY}: the key is of a kind that isn't served"),
    ],
)
def test_what_cant_be_served_is_refused_by_file_and_block(chain, key, says):
    assert says in fault(credentials, chain, key)


# --- roots


def test_a_bundle_holds_several_roots_with_text_between_and_windows_line_ends():
    new = CA("new")
    text = b"# new\n" + new.pem + b"\n# old, until May\n" + ROOT.pem
    assert roots(text.replace(b"\n", b"\r\n")).certificates == (new.certificate, ROOT.certificate)


def test_a_root_that_stands_twice_counts_once():
    assert roots(ROOT.pem * 2).certificates == (ROOT.certificate,)


def test_roots_know_the_trust_domains_they_are_listed_for():
    other, nobodys = CA("other"), CA("nobody's")
    found = read_roots(
        {
            ANY_DOMAIN: File(BUNDLE, nobodys.pem + ROOT.pem),
            "example.org": File(Path("/a"), ROOT.pem),
            "partner.org": File(Path("/b"), ROOT.pem + other.pem),
        }
    )
    assert found.domains_of([*LEAF.chain, ROOT.certificate]) == {"example.org", "partner.org"}
    assert found.domains_of([other.certificate]) == {"partner.org"}
    assert found.domains_of([nobodys.certificate]) == set()
    assert found.domains_of(LEAF.chain) == set()


def test_an_intermediate_is_without_root_where_its_issuer_isnt_listed():
    assert roots(ROOT.pem + MIDDLE.pem).has_intermediate_without_root is False
    assert roots(CA("other").pem + MIDDLE.pem).has_intermediate_without_root is True


def test_the_earliest_expiry_of_a_root_is_known():
    old = CA("old", end=600)
    assert roots(ROOT.pem + old.pem).not_after == old.certificate.not_valid_after_utc.timestamp()


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "holds no certificate"),
        (b"nothing here\n", "holds no certificate"),
        (ROOT.pem + LEAF.key_pem, "block 2 (PRIVATE KEY) has no place here"),
        (ROOT.pem + pem(ROOT.crl()), "block 2 (X509 CRL) has no place here"),
        (ROOT.pem + LEAF.chain_pem, "block 2 (CERTIFICATE) isn't a CA's certificate"),
        (ROOT.pem + ROOT.pem[:-40], "block 2 has no end"),
    ],
)
def test_a_bundle_with_anything_else_is_refused_whole(content, says):
    assert fault(roots, content).startswith(f"{BUNDLE}: {says}")


FIRST = CA("first").pem
TWO_ROOTS = FIRST + CA("second").pem


@pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")  # a serial number of 0
@settings(deadline=None)
@given(st.integers(0, len(TWO_ROOTS) - 1), st.integers(0, 255))
def test_a_bundle_with_a_damaged_byte_is_never_loaded_in_part(at, byte):
    damaged = TWO_ROOTS[:at] + bytes([byte]) + TWO_ROOTS[at + 1 :]
    with suppress(TlsFilesError):
        found = roots(damaged)
        # Whole: at most one of them has become another one, which vouches for nobody.
        assert len(found.certificates) == 2
        assert set(found.certificates) & set(roots(TWO_ROOTS).certificates)


@given(st.integers(len(FIRST) + 1, len(TWO_ROOTS) - 2))
def test_a_bundle_that_is_cut_off_within_a_block_is_never_loaded_in_part(length):
    with pytest.raises(TlsFilesError):
        roots(TWO_ROOTS[:length])


# --- lists of revoked certificates


def test_a_crl_names_the_revoked():
    other = MIDDLE.issue()
    crls = read_crls(File(CRL, pem(ROOT.crl(), MIDDLE.crl(LEAF))))
    assert crls.revoke(revocable(LEAF.certificate))
    assert not crls.revoke(revocable(other.certificate))


def test_a_peer_below_a_revoked_ca_is_revoked():
    crls = read_crls(File(CRL, pem(ROOT.crl(MIDDLE))))
    assert crls.revoke(revocable(LEAF.certificate), revocable(MIDDLE.certificate))


def test_a_serial_number_counts_only_with_its_issuer():
    crls = read_crls(File(CRL, pem(ROOT.crl(LEAF))))
    assert not crls.revoke(revocable(LEAF.certificate))


def test_without_a_crl_nothing_is_revoked():
    assert not Crls().revoke(revocable(LEAF.certificate))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "holds no CRL"),
        (ROOT.pem, "block 1 (CERTIFICATE) has no place here"),
        (pem(ROOT.crl()).replace(b"\nMI", b"\nAI", 1), "block 1 (X509 CRL) is damaged"),
    ],
)
def test_a_crl_file_that_holds_none_or_something_else_is_refused(content, says):
    assert fault(read_crls, File(CRL, content)).startswith(f"{CRL}: {says}")


def test_a_certificate_that_no_parser_takes_is_refused_by_its_block():
    damaged = pem(ROOT.certificate).replace(b"\nMII", b"\nAII", 1)
    assert "block 2 (CERTIFICATE) is damaged" in fault(roots, ROOT.pem + damaged)
