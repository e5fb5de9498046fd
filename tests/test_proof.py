"""What a TLS handshake proves of who dials, and for how long."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from sidecar.peer_names import Rule
from sidecar.presented import Presented
from sidecar.proof import Prover
from sidecar.reasons import End, TlsFailure
from sidecar.spiffe import Pattern
from sidecar.tls.material import Crls
from sidecar.tls.peer_certificate import UnreadableCertificate
from sidecar.tls.session import ShakeFailed
from tests.certificates import CA, CONTROLLER

ROOT = CA()
RULE = Rule(allow=(Pattern.parse("spiffe://example.org/prod-eu/controller/*"),))


def presented(**changes):
    values = {"uris": (CONTROLLER,), "dns_names": (), "signs": False, "not_after": 100.0, "revocable": (("ca", 1),)}
    return Presented(**values | {"trust_domains": frozenset()} | changes)


def served(shown=None, *, revoked=()):
    def of(_):
        if isinstance(shown, Exception):
            raise shown
        return shown

    crls = SimpleNamespace(revoke=lambda *which: any(each in revoked for each in which))
    return SimpleNamespace(peers=SimpleNamespace(of=of), material=SimpleNamespace(crls=crls))


def prover(now=50.0, *, ends=False, holds=None):
    return Prover(lambda: holds, RULE, lambda: now, ends_with_certificate=ends)


def test_an_allowed_name_is_proven_and_a_controllers_is_known():
    shown, peer = prover().proved(SimpleNamespace(connection=None), served(presented()))
    assert shown == presented()
    assert (peer.proven, str(peer.controller)) == (True, "c1")


def test_a_name_that_isnt_allowed_is_no_failure_of_tls():
    other = presented(uris=("spiffe://example.org/other",))
    _, peer = prover().proved(SimpleNamespace(connection=None), served(other))
    assert not peer.proven
    assert peer.fault.startswith("spiffe_id_not_allowed")


def test_a_certificate_that_cant_be_read_is_one():
    with pytest.raises(ShakeFailed, match="can't be parsed") as failed:
        prover().proved(SimpleNamespace(connection=None), served(UnreadableCertificate("it can't be parsed")))
    assert failed.value.cause is TlsFailure.BAD_CERTIFICATE


def test_a_revoked_certificate_ends_its_connections():
    assert prover(holds=served(revoked={("ca", 1)})).outdated(presented()) is End.CERTIFICATE_REVOKED
    assert prover(holds=served(revoked={("ca", 2)})).outdated(presented()) is None


@pytest.mark.parametrize(
    ("now", "ends", "end"),
    [(99.0, True, None), (100.0, True, End.CERTIFICATE_EXPIRED), (100.0, False, None)],
)
def test_an_expired_one_does_where_that_is_asked_for(now, ends, end):
    assert prover(now, ends=ends, holds=served()).outdated(presented()) is end


def test_the_list_of_a_real_ca_names_a_real_certificate():
    leaf = ROOT.issue()
    crls = Crls((ROOT.crl(leaf),))
    holds = SimpleNamespace(material=SimpleNamespace(crls=crls))
    name = (leaf.certificate.issuer.public_bytes(), leaf.certificate.serial_number)
    assert prover(holds=holds).outdated(presented(revocable=(name,))) is End.CERTIFICATE_REVOKED
