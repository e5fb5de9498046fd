"""The demo's certificates."""

from __future__ import annotations

import stat

from sidecar.demo.certificates import ALLOW, Certificates
from sidecar.spiffe import NamedController, Pattern, SpiffeId, named
from sidecar.tls.files import TlsFiles, load
from sidecar.tls.material import ANY_DOMAIN
from sidecar.tls.peer_certificate import read_chain


def shown(folder):
    """The one name in the folder's certificate, as a peer that verified it sees it."""
    material = load(TlsFiles(folder / "tls.crt", folder / "tls.key", folder / "ca.crt"))
    (root,) = material.roots.by_domain[ANY_DOMAIN]
    material.own.chain[0].verify_directly_issued_by(root)
    return read_chain(material.own.chain, material.roots).spiffe_id()


def test_a_controllers_names_it_and_is_allowed(tmp_path):
    own = shown(Certificates(tmp_path).of_controller("c"))
    assert isinstance(named(own), NamedController)
    assert str(named(own).name) == "c"
    assert Pattern.parse(ALLOW).matches(own)


def test_the_sidecars_names_their_set_and_no_slot(tmp_path):
    own = shown(Certificates(tmp_path).of_sidecars())
    assert own == SpiffeId.parse("spiffe://demo.example/demo/replica-a")
    assert named(own) is None
    assert not Pattern.parse(ALLOW).matches(own)


def test_it_is_issued_once_and_its_key_is_nobody_elses(tmp_path):
    certificates = Certificates(tmp_path)
    folder = certificates.of_sidecars()
    before = (folder / "tls.crt").read_bytes()
    assert certificates.of_sidecars() == folder
    assert (folder / "tls.crt").read_bytes() == before
    assert stat.S_IMODE((folder / "tls.key").stat().st_mode) == 0o600


def test_a_controller_dials_with_its_own(tmp_path):
    certificates = Certificates(tmp_path)
    tls = certificates.tls("c")
    assert read_chain(tls.material.own.chain, tls.material.roots).uris == ("spiffe://demo.example/demo/controller/c",)
