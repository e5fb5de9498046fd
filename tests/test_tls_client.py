"""The dialler's TLS: who is taken for the sidecar that is meant, and what is said where it can't be told."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from OpenSSL import SSL
from trio.testing import memory_stream_pair

from sidecar.dialler import DialError, NoAnswerError, TlsRefusedError, UnprovenPeerError, WrongPeerError
from sidecar.errors import MalformedValue
from sidecar.identity import Generation, Identity
from sidecar.preface.claim import Claim
from sidecar.reasons import Advice
from sidecar.server_names import ServerRule
from sidecar.tls.client import ClientTls
from sidecar.tls.contexts import TlsVersion, server_context
from sidecar.tls.errors import TlsError
from sidecar.tls.material import TlsFilesError
from sidecar.tls.peer_certificate import PeerCertificates
from sidecar.tls.stream import TlsStream
from tests.certificates import CA, CLIENT, CONTROLLER, HOUR, SERVER, pem
from tests.tls_handshakes import material
from tests.wires import tcp_pair

ROOT, NOBODYS = CA("root"), CA("nobody's")
CLAIM = Claim(Identity("prod-eu", "replica-a", 2), Generation(7))
SLOT = "spiffe://example.org/prod-eu/replica-a/2/7"
SIDECAR = ROOT.issue(uris=[SLOT], dns=["replica-a.example.org"], common="sidecar")
DIALLER = ROOT.issue()
VERSIONS = list(TlsVersion)


def client(leaf=DIALLER, *roots, rule="trust-domain", crls=(), min_version=TlsVersion.TLS_1_2):
    return ClientTls(material(leaf, *(roots or [ROOT]), crls=crls), ServerRule.parse(rule), min_version)


def serving(leaf=SIDECAR, *roots, crls=(), version=TlsVersion.TLS_1_3):
    """A sidecar's context that speaks this version alone."""
    context = server_context(material(leaf, *(roots or [ROOT]), crls=crls), version)
    context.set_max_proto_version(version.value)
    return context


class Meeting:
    """A dialler and a sidecar on one connection, up to the end of the handshake on both sides."""

    def __init__(self, context):
        near, far = memory_stream_pair()
        self.transport = near
        self.sidecar = TlsStream(far, SSL.Connection(context), server_side=True)
        self.sidecars_error = None

    async def answer(self):
        try:
            await self.sidecar.do_handshake()
            if self.sidecar.connection.get_protocol_version() == SSL.TLS1_3_VERSION:
                await self.sidecar.send_all(b"first")
        except (TlsError, trio.BrokenResourceError) as error:
            self.sidecars_error = error

    async def shake(self, tls, claim=CLAIM):
        """What the dialler gets. Raises what it gets instead."""
        stream = failure = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.answer)
            try:
                stream = await tls.wrap(self.transport, claim)
            except DialError as error:
                failure = error
            await self.transport.send_eof()  # the sidecar may wait for more
        if failure is not None:
            raise failure
        return stream


async def refusal(kind, tls, context, claim=CLAIM):
    """What a dial with *tls* of a sidecar with *context* is refused with: this kind of error, and no other."""
    with pytest.raises(kind) as caught:
        await Meeting(context).shake(tls, claim)
    return caught.value


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_good_sidecar_gives_a_stream(version):
    meeting = Meeting(serving(version=version))
    stream = await meeting.shake(client())
    assert stream.transport is meeting.transport
    assert meeting.sidecars_error is None
    seen = PeerCertificates(client().material.roots).of(meeting.sidecar.connection)
    assert seen.uris == (CONTROLLER,)


async def test_the_same_value_dials_again_and_again():
    tls = client()
    for _ in range(3):
        await Meeting(serving()).shake(tls)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("leaf", "roots", "crls", "says"),
    [
        (
            ROOT.issue(uris=[SLOT], start=-HOUR, end=-60),
            (),
            (),
            "cert_expired: the peer's certificate, 'CN=leaf': valid",
        ),
        (
            ROOT.issue(uris=[SLOT], start=2 * HOUR, end=3 * HOUR),
            (),
            (),
            "cert_not_yet_valid: the peer's certificate, 'CN=leaf': valid from",
        ),
        (SIDECAR, (NOBODYS,), (), "unknown_ca: the peer's certificate, 'CN=sidecar': its issuer 'CN=root' is neither"),
        (ROOT.issue(uris=[SLOT], usages=[CLIENT]), (), (), "bad_certificate: "),
        (SIDECAR, (), (ROOT.crl(SIDECAR),), "cert_revoked: the peer's certificate, 'CN=sidecar': revoked by 'CN=root'"),
        (SIDECAR, (), (ROOT.crl(end=-60),), "crl_unusable: "),
    ],
)
async def test_a_certificate_that_does_not_pass_is_named_with_what_is_wrong(leaf, roots, crls, says, version):
    error = await refusal(UnprovenPeerError, client(DIALLER, *roots, crls=crls), serving(leaf, version=version))
    assert str(error).startswith(f"peer_unproven: its certificate doesn't pass, {says}")
    assert error.advice is Advice.RE_RESOLVE


@pytest.mark.parametrize(
    ("rule", "claim", "says"),
    [
        ("slot", Claim(Identity("prod-eu", "replica-a", 3)), "expected slot prod-eu/replica-a/3 in any trust domain"),
        ("slot+generation", Claim(CLAIM.identity, Generation(8)), "expected slot prod-eu/replica-a/2 at generation 8"),
        ("dns:replica-b.example.org", CLAIM, "expected DNS name replica-b.example.org, the certificate says replica-a"),
    ],
)
async def test_a_name_that_differs_is_told_with_both_sides(rule, claim, says):
    error = await refusal(WrongPeerError, client(rule=rule), serving(), claim)
    assert error.detail.startswith(says)
    assert "the certificate says" in error.detail


@pytest.mark.parametrize("rule", ["trust-domain", "slot", "slot+generation", "dns:replica-a.example.org"])
async def test_a_name_that_fits_at_any_depth_is_let_through(rule):
    await Meeting(serving()).shake(client(rule=rule))


async def test_another_trust_domain_is_told():
    tls = ClientTls(material(DIALLER, ROOT), ServerRule.parse("trust-domain", "example.com"))
    error = await refusal(WrongPeerError, tls, serving())
    assert error.detail == f"expected a SPIFFE ID in trust domain example.com, the certificate says {SLOT}"


async def test_nothing_is_said_inside_to_a_wrong_peer():
    meeting = Meeting(serving())
    with pytest.raises(WrongPeerError):
        await meeting.shake(client(rule="dns:elsewhere"))
    with pytest.raises(trio.BrokenResourceError, match="without close_notify"):
        await meeting.sidecar.receive_some()


async def test_names_that_cant_be_read_are_no_proof():
    broken = x509.UnrecognizedExtension(x509.SubjectAlternativeName.oid, b"junk")
    error = await refusal(UnprovenPeerError, client(), serving(ROOT.issue(uris=(), extensions=[broken])))
    assert error.advice is Advice.RE_RESOLVE


@pytest.mark.parametrize(
    ("leaf", "roots", "crls", "alert"),
    [
        (ROOT.issue(start=-HOUR, end=-60), (), (), "certificate expired"),
        (ROOT.issue(start=2 * HOUR, end=3 * HOUR), (), (), "bad certificate"),
        (NOBODYS.issue(), (), (), "unknown ca"),
        (ROOT.issue(usages=[SERVER]), (), (), "unsupported certificate"),
        (DIALLER, (), (ROOT.crl(DIALLER),), "certificate revoked"),
    ],
)
async def test_a_tls_1_2_sidecar_that_refuses_is_told_by_its_alert(leaf, roots, crls, alert):
    error = await refusal(
        TlsRefusedError, client(leaf), serving(SIDECAR, *roots, crls=crls, version=TlsVersion.TLS_1_2)
    )
    assert str(error).startswith(f"tls_refused: the sidecar ended TLS with the alert '{alert}': ")
    assert error.advice is Advice.FIX


async def test_a_version_that_is_not_spoken_is_told_without_trusting_who_says_so():
    speaks_1_2 = serving(version=TlsVersion.TLS_1_2)
    error = await refusal(UnprovenPeerError, client(min_version=TlsVersion.TLS_1_3), speaks_1_2)
    assert error.detail == "it ended TLS with the alert 'protocol version', before it had shown a certificate"


@pytest.mark.parametrize(
    ("said", "kind", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", UnprovenPeerError, "there is no TLS with it: wrong version number"),
        (b"", NoAnswerError, "the connection was closed in the TLS handshake, without an alert that says why"),
    ],
)
async def test_a_peer_without_tls_is_told(said, kind, words):
    near, far = memory_stream_pair()
    await far.send_all(said)
    await far.send_eof()
    with pytest.raises(kind) as caught:
        await client().wrap(near, CLAIM)
    assert caught.value.detail == words


async def test_a_reset_in_the_handshake_is_no_answer():
    near, far = await tcp_pair()
    far.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    far.socket.close()
    async with near:
        with pytest.raises(NoAnswerError, match="broke in the TLS handshake"):
            await client().wrap(near, CLAIM)


def test_a_claim_without_what_is_compared_is_found_before_dialling():
    with pytest.raises(MalformedValue, match="no generation to check"):
        client(rule="slot+generation").check(Claim(CLAIM.identity))
    client(rule="slot+generation").check(CLAIM)


# The files


@pytest.fixture
def files(tmp_path):
    """Good ones, by the option that names each."""
    contents = {"certificate": DIALLER.chain_pem, "key": DIALLER.key_pem, "ca": ROOT.pem, "crl": pem(ROOT.crl())}
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    return {name: str(tmp_path / name) for name in contents}


async def test_what_the_files_hold_is_what_is_shown_and_trusted(files):
    meeting = Meeting(serving())
    await meeting.shake(ClientTls.load(**files, rule=ServerRule.parse("slot")))
    assert meeting.sidecars_error is None


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("certificate", b"", "holds no certificate"),
        ("certificate", DIALLER.chain_pem + b"-----BEGIN CERTIFICATE-----\n", "block 2 has no end"),
        ("key", SIDECAR.key_pem, "isn't the key of the certificate"),
        ("ca", ROOT.pem + DIALLER.chain_pem, "block 2 (CERTIFICATE) isn't a CA's certificate"),
        ("crl", b"", "holds no CRL"),
    ],
)
def test_a_file_that_cant_be_used_is_named(files, name, content, says):
    Path(files[name]).write_bytes(content)
    with pytest.raises(TlsFilesError) as caught:
        ClientTls.load(**files)
    assert str(caught.value).startswith(f"{files[name]}: {says}")


def test_a_key_that_openssl_does_not_take_is_a_fault_of_its_file(files):
    weak = ROOT.issue(key=rsa.generate_private_key(65537, 1024))
    for name, content in (("certificate", weak.chain_pem), ("key", weak.key_pem)):
        Path(files[name]).write_bytes(content)
    with pytest.raises(TlsFilesError, match="OpenSSL refuses it: ee key too small") as caught:
        ClientTls.load(**files)
    assert str(caught.value).startswith(files["certificate"])


@pytest.mark.parametrize("name", ["certificate", "key", "ca", "crl"])
def test_a_file_that_is_missing_is_named(files, name, tmp_path):
    files[name] = tmp_path / "absent"
    with pytest.raises(TlsFilesError, match=r"absent: doesn't exist$"):
        ClientTls.load(**files)
