"""Whether files fit together."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric import ec

from sidecar.certs.contents import Block
from sidecar.certs.fitting import fit
from tests.odd_certificates import authority, certificate, intermediate, revocations

CA = authority()
KEY = ec.generate_private_key(ec.SECP256R1())
OWN = certificate(CA, key=KEY)


def judged(**files):
    """What is said of files, each a list of what it holds, and which of that is wrong."""
    blocks = [Block(file, number, held) for file, holds in files.items() for number, held in enumerate(holds, start=1)]
    lines = list(fit(blocks))
    return [line.text for line in lines], [line.text for line in lines if line.wrong]


def test_a_pair_with_its_ca_fits():
    said, wrong = judged(tls=[OWN], key=[KEY], ca=[CA.certificate])
    assert said == ["key block 1 is the key of tls block 1", "tls block 1 is signed by ca block 1"]
    assert not wrong


def test_a_key_of_another_pair_is_wrong():
    _, wrong = judged(tls=[OWN], key=[ec.generate_private_key(ec.SECP256R1())])
    assert wrong == ["key block 1 is the key of no certificate here: these files come from different pairs"]


def test_a_key_alone_is_not_judged():
    assert judged(key=[KEY]) == ([], [])


def test_an_issuer_that_is_not_there_is_wrong_only_beside_another_root():
    said, wrong = judged(tls=[OWN])
    assert said[0].startswith("tls block 1 is signed by none of these: its issuer is CN=development CA")
    assert not wrong
    _, wrong = judged(tls=[OWN], ca=[authority().certificate])
    assert wrong[0].endswith("and ca block 1 isn't it")


def test_a_bundle_of_two_roots_has_the_right_one():
    assert judged(tls=[OWN], ca=[authority().certificate, CA.certificate])[0] == ["tls block 1 is signed by ca block 2"]


def test_a_chain_goes_from_the_leaf_upwards():
    between = intermediate(CA)
    leaf = certificate(between)
    said, wrong = judged(tls=[leaf, between.certificate], ca=[CA.certificate])
    assert said == ["tls block 1 is signed by tls block 2", "tls block 2 is signed by ca block 1"]
    assert not wrong
    assert "comes first" in judged(tls=[between.certificate, leaf])[1][0]
    assert "didn't sign the one before it" in judged(tls=[leaf, CA.certificate, between.certificate])[1][0]


def test_a_certificate_that_is_no_ca_signs_nothing():
    """A signature by a key that has no right to make one counts for nothing."""
    usurper = intermediate(CA)
    usurper = type(usurper)(certificate(CA, key=usurper.key, subject="intermediate"), usurper.key, "example.org")
    _, wrong = judged(tls=[certificate(usurper)], other=[usurper.certificate], ca=[CA.certificate])
    assert wrong[0].startswith("tls block 1 is signed by none of these")


def test_a_revoked_certificate_is_wrong():
    said, wrong = judged(tls=[OWN], ca=[CA.certificate], crl=[revocations(CA, OWN)])
    assert "crl block 1 is signed by ca block 1" in said
    assert wrong == ["tls block 1 is revoked by crl block 1"]


def test_a_revocation_list_of_somebody_else_is_wrong():
    _, wrong = judged(ca=[CA.certificate], crl=[revocations(authority())])
    assert wrong == ["crl block 1 is signed by no certificate here: give its issuer's file, or fetch the right list"]
    assert judged(crl=[revocations(CA)]) == ([], [])
