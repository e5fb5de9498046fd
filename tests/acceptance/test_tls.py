"""Listeners with TLS: who gets in, what the others are told, and how streams end. Real sockets, real OpenSSL."""

from __future__ import annotations

import random
import select
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from names import CLAIM, OTHER, OWN, U1, preface
from OpenSSL import SSL
from processes import eventually
from replica import LocalProcess, Sidecar, sidecar_at
from tls_client import ROOT, SECONDS, TlsClient, connected, tls_block

from sidecar.identity import ControllerName, Epoch, Generation
from sidecar.preface.claim import Claim
from tests.certificates import CA, CONTROLLER, HOUR, Leaf, pem

GOOD = ROOT.issue()
REVOKED = ROOT.issue()
SERVED = ROOT.issue(uris=["spiffe://example.org/prod-eu/replica-a/2/7"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def shared(own_shared_process: LocalProcess, folder: Path) -> Iterator[Sidecar]:
    (folder / "crl.pem").write_bytes(ROOT_CRL)
    block = tls_block(folder, SERVED, crl=str(folder / "crl.pem"))
    with sidecar_at(folder, own_shared_process.address, listener={"tls": block, "answer": "verdict"}) as running:
        yield running


@pytest.fixture
def replica(own_shared_process: LocalProcess) -> Iterator[LocalProcess]:
    yield own_shared_process
    assert own_shared_process.untouched, "a connection reached the local process, and the test doesn't know of it"


ROOT_CRL = pem(ROOT.crl(REVOKED))


# --- who gets in


@pytest.mark.parametrize("version", [SSL.TLS1_3_VERSION])
def test_an_allowed_controller_gets_in_and_its_bytes_are_exact(
    shared: Sidecar, replica: LocalProcess, version: int
) -> None:
    with connected(shared.connect(), GOOD, version=version) as client:
        answer = client.state(payload=b"first bytes, in the preface's record")
        assert (answer.verdict, answer.identity, answer.generation, answer.instance) == (
            "admitted",
            OWN,
            Generation(7),
            U1,
        )
        with replica.accept() as upstream:
            assert upstream.recv(100) == b"first bytes, in the preface's record"
            upstream.sendall(b"pong")
            assert client.receive(4) == b"pong"


def test_each_direction_ends_by_itself(shared: Sidecar, replica: LocalProcess) -> None:
    with shared.counting(authority=1, ended_client_closed=1), connected(shared.connect(), GOOD) as client:
        client.state()
        with replica.accept() as upstream:
            client.tls.shutdown()  # close_notify: TLS 1.3's half-close
            assert upstream.recv(1) == b""
            upstream.sendall(b"x" * 100_000)
            assert client.receive(100_000) == b"x" * 100_000
            upstream.shutdown(socket.SHUT_WR)
            assert client.ending() == "close_notify"


def test_the_local_processs_end_comes_first_and_the_controller_may_go_on(
    shared: Sidecar, replica: LocalProcess
) -> None:
    with shared.counting(authority=1, ended_upstream_closed=1), connected(shared.connect(), GOOD) as client:
        client.state()
        with replica.accept() as upstream:
            upstream.shutdown(socket.SHUT_WR)
            assert client.ending() == "close_notify"
            client.tls.sendall(b"late words")
            assert upstream.recv(100) == b"late words"
            client.close()
            assert upstream.recv(1) == b""


def test_an_end_without_close_notify_is_no_clean_end(shared: Sidecar, replica: LocalProcess) -> None:
    with shared.counting(authority=1, ended_client_reset=1), connected(shared.connect(), GOOD) as client:
        client.state()
        with replica.accept() as upstream:
            client.sock.shutdown(socket.SHUT_WR)
            with pytest.raises(ConnectionResetError):
                upstream.recv(1)


def test_a_reset_of_the_local_process_reaches_the_controller_as_one(shared: Sidecar, replica: LocalProcess) -> None:
    with shared.counting(authority=1, ended_upstream_reset=1), connected(shared.connect(), GOOD) as client:
        client.state()
        upstream = replica.accept()
        upstream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        upstream.close()
        assert client.ending() == "reset"


def test_ten_megabytes_each_way_at_once_past_a_slow_reader_are_exact(shared: Sidecar, replica: LocalProcess) -> None:
    up, down = random.Random(1).randbytes(10_000_000), random.Random(2).randbytes(10_000_000)
    with connected(shared.connect(), GOOD) as client:
        client.state()
        with replica.accept() as upstream:
            before = shared.memory()
            taken = bytearray()

            def take() -> None:
                sizes = random.Random(3)
                while len(taken) < len(up):
                    taken.extend(upstream.recv(sizes.randrange(1, 100_000)))

            threads = [threading.Thread(target=take), threading.Thread(target=upstream.sendall, args=(down,))]
            for each in threads:
                each.start()
            assert exchanged(client, up, len(down)) == down
            for each in threads:
                each.join()
            assert bytes(taken) == up
            assert shared.memory() - before < 8_000_000


def exchanged(client: TlsClient, data: bytes, size: int) -> bytes:
    """Send *data* in pieces of any size, and take *size* bytes meanwhile, in one thread: OpenSSL bears no two."""
    sizes, received, rest, piece = random.Random(4), bytearray(), memoryview(data), memoryview(b"")
    client.sock.setblocking(False)
    while len(received) < size or rest or piece:
        wants = []
        if not piece:
            cut = sizes.randrange(1, 50_000)
            piece, rest = rest[:cut], rest[cut:]
        try:
            if piece:
                piece = piece[client.tls.send(piece) :]
        except SSL.WantWriteError:
            wants = [client.sock]
        try:
            received += client.tls.recv(sizes.randrange(1, 50_000))
        except SSL.WantReadError:
            if wants or not (rest or piece):
                select.select([client.sock], wants, [], SECONDS)
    client.sock.setblocking(True)
    return bytes(received)


# --- who doesn't


def other_root() -> Leaf:
    return CA("another root").issue()


FAILURES: list[tuple[str, Callable[[], Leaf | None], str]] = [
    ("no_cert", lambda: None, "certificate required"),
    ("cert_expired", lambda: ROOT.issue(start=-2 * HOUR, end=-HOUR), "certificate expired"),
    ("cert_not_yet_valid", lambda: ROOT.issue(start=30, end=HOUR), "bad certificate"),
    ("unknown_ca", other_root, "unknown ca"),
    ("cert_revoked", lambda: REVOKED, "certificate revoked"),
]


@pytest.mark.parametrize(("cause", "leaf", "alert"), FAILURES, ids=[each[0] for each in FAILURES])
def test_a_certificate_that_wont_do_gets_an_alert_that_says_why(
    shared: Sidecar, replica: LocalProcess, cause: str, leaf: Callable[[], Leaf | None], alert: str
) -> None:
    before = shared.scrape().total("tls_handshake_failures_total", cause=cause)
    with shared.counting(tls_failed=1), shared.connect() as sock:
        own = sock.getsockname()
        with pytest.raises(SSL.Error, match=alert):  # TLS 1.3: at its first read; until then the client is through
            TlsClient(sock, leaf()).state()
    assert shared.line("connection_refused", own)["detail"] == cause
    assert shared.scrape().total("tls_handshake_failures_total", cause=cause) == before + 1


def test_a_certificate_of_tomorrow_is_told_from_one_of_yesterday_by_both_times(
    shared: Sidecar, replica: LocalProcess
) -> None:
    sock = shared.connect()
    own = sock.getsockname()
    with sock, pytest.raises(SSL.Error):
        TlsClient(sock, ROOT.issue(start=30, end=HOUR)).state()
    line = shared.line("connection_refused", own)
    assert line["detail"] == "cert_not_yet_valid"
    assert "valid from 20" in line["tls"]
    assert "and it is 20" in line["tls"]


@pytest.mark.parametrize(
    ("leaf", "detail"),
    [
        (ROOT.issue(uris=["spiffe://example.org/prod-eu/replica-a/2"]), "spiffe_id_not_allowed"),
        (ROOT.issue(uris=[CONTROLLER, CONTROLLER]), "multiple_uris"),
        (ROOT.issue(uris=[]), "no_spiffe_id"),
        (ROOT.issue(uris=[], dns=["c1.example.org"]), "no_spiffe_id"),
        (ROOT.issue(uris=["spiffe://example.org/prod-eu/controller/c%31"]), "malformed_spiffe_id"),
        (ROOT.issue(uris=[CONTROLLER], dns=[f"d{number}.example.org" for number in range(100)]), ""),
    ],
)
def test_a_name_that_isnt_allowed_is_refused_in_the_answer(
    shared: Sidecar, replica: LocalProcess, leaf: Leaf, detail: str
) -> None:
    sock = shared.connect()
    own = sock.getsockname()
    with connected(sock, leaf) as client:
        answer = client.state()
        if not detail:
            assert answer.admitted
            replica.accept().close()
            return
        assert (answer.verdict, answer.advice) == ("peer_not_allowed", "fix")
        assert answer.identity is None, "nothing proves who asks"
        assert client.ending() == "close_notify"
    assert shared.line("connection_refused", own)["detail"].startswith(detail)


def test_a_certificate_and_a_preface_that_disagree_are_a_conflict(shared: Sidecar, replica: LocalProcess) -> None:
    claim = Claim(OWN, Generation(7), U1, controller=ControllerName("c2"))
    with shared.counting(identity_conflict=1), connected(shared.connect(), GOOD) as client:
        assert client.state(claim).verdict == "identity_conflict"


def test_a_proven_peer_is_told_what_this_side_is(shared: Sidecar, replica: LocalProcess) -> None:
    with connected(shared.connect(), GOOD) as client:
        answer = client.state(Claim(OTHER, Generation(7), U1))
        assert (answer.verdict, answer.identity, answer.generation) == ("identity_mismatch", OWN, Generation(7))
        assert client.ending() == "close_notify"


def test_a_preface_in_clear_is_a_failed_handshake_and_no_time_out(shared: Sidecar, replica: LocalProcess) -> None:
    with shared.counting(tls_failed=1), shared.connect() as sock:
        own = sock.getsockname()
        sock.sendall(preface(CLAIM, answer=True))
        assert shared.line("connection_refused", own)["detail"] == "protocol"


def test_who_goes_before_the_first_byte_is_a_probe(shared: Sidecar, replica: LocalProcess) -> None:
    with shared.counting(closed_before_preface=2):
        shared.connect().close()
        with connected(shared.connect(), GOOD):
            pass


def test_who_goes_in_mid_handshake_is_none(shared: Sidecar, replica: LocalProcess) -> None:
    with shared.counting(tls_failed=1), shared.connect() as sock:
        own = sock.getsockname()
        sock.sendall(b"\x16\x03\x01")
        sock.shutdown(socket.SHUT_WR)
        assert shared.line("connection_refused", own)["detail"] == "eof"


def test_tls_1_2_is_spoken_on_request_alone(shared: Sidecar, replica: LocalProcess) -> None:
    with shared.counting(tls_failed=1), shared.connect() as sock, pytest.raises(SSL.Error):
        TlsClient(sock, GOOD, version=SSL.TLS1_2_VERSION)


@pytest.mark.parametrize(
    ("leaf", "said"), [(GOOD, ""), (None, "certificate required"), (other_root(), "unknown ca"), (REVOKED, "revoked")]
)
def test_openssls_own_client_is_told_the_same(
    shared: Sidecar, replica: LocalProcess, tmp_path: Path, leaf: Leaf | None, said: str
) -> None:
    host, port = shared.address()
    command = ["openssl", "s_client", "-connect", f"{host}:{port}", "-quiet"]
    if leaf is not None:
        (tmp_path / "c.pem").write_bytes(leaf.chain_pem + leaf.key_pem)
        command += ["-cert", str(tmp_path / "c.pem"), "-key", str(tmp_path / "c.pem")]
    done = subprocess.run(
        command,
        input=preface(Claim(OTHER, Generation(7), U1), answer=True),
        capture_output=True,
        timeout=20,
        check=False,
    )
    if said:
        assert said in done.stderr.decode().lower()
    else:
        assert b"identity_mismatch" in done.stdout


# --- many, and for how long


def test_five_hundred_stalled_handshakes_keep_no_good_controller_out(
    start: Callable[..., Sidecar], own_local_process: LocalProcess, tmp_path: Path
) -> None:
    sidecar = start(listener={"tls": tls_block(tmp_path, SERVED)}, timeouts={"preface": "4s"})
    with ExitStack() as stalled:
        with sidecar.counting(tls_failed=500, authority=1):
            for _ in range(500):
                stalled.enter_context(sidecar.connect()).sendall(b"\x16\x03\x01\x02\x00\x01")
            began = time.monotonic()
            with connected(sidecar.connect(), GOOD) as client:
                assert client.state().admitted
                assert time.monotonic() - began < 1
                own_local_process.accept().close()
        assert sidecar.scrape().total("tls_handshake_failures_total", cause="timeout") == 500


def test_a_connection_ends_with_its_certificate_where_that_is_asked_for(
    start: Callable[..., Sidecar], own_local_process: LocalProcess, tmp_path: Path
) -> None:
    sidecar = start(listener={"tls": tls_block(tmp_path, SERVED, close_on_certificate_expiry=True)})
    brief, lasting = ROOT.issue(end=5), GOOD
    with (
        sidecar.counting(authority=2, ended_certificate_expired=1, ended_client_closed=1),
        connected(sidecar.connect(), brief) as first,
        connected(sidecar.connect(), lasting) as second,
    ):
        assert first.state().admitted
        assert second.state().admitted
        upstreams = [own_local_process.accept(), own_local_process.accept()]
        assert first.ending() == "reset"
        upstreams[1].sendall(b"still here")
        assert second.receive(10) == b"still here"
        second.close()
        assert upstreams[1].recv(1) == b""
        for each in upstreams:
            each.close()


def test_a_new_crl_cuts_the_revoked_and_nobody_else(
    start: Callable[..., Sidecar], own_local_process: LocalProcess, tmp_path: Path
) -> None:
    crl = tmp_path / "crl.pem"
    crl.write_bytes(pem(ROOT.crl()))
    sidecar = start(listener={"tls": tls_block(tmp_path, SERVED, crl=str(crl))})
    with (
        sidecar.counting(authority=2, ended_certificate_revoked=1, ended_client_closed=1),
        connected(sidecar.connect(), REVOKED) as revoked,
        connected(sidecar.connect(), GOOD) as good,
    ):
        assert revoked.state().admitted
        assert good.state().admitted
        upstreams = [own_local_process.accept(), own_local_process.accept()]
        crl.write_bytes(pem(ROOT.crl(REVOKED, number=2)))
        assert revoked.ending() == "reset"
        upstreams[1].sendall(b"still here")
        assert good.receive(10) == b"still here"
        good.close()
        assert upstreams[1].recv(1) == b""
        for each in upstreams:
            each.close()
    assert eventually(lambda: sidecar.scrape().total("tls_reloads_total", result="ok") == 1)


# --- what rests on the proof


def test_a_proven_controller_raises_the_floor_and_a_replaced_one_is_cut_and_refused(
    start: Callable[..., Sidecar], own_local_process: LocalProcess, tmp_path: Path
) -> None:
    required = ["identity", "generation", "instance", "epoch"]
    sidecar = start(listener={"tls": tls_block(tmp_path, SERVED), "require": required}, state_dir=str(tmp_path / "s"))

    def claim(epoch: int) -> Claim:
        return Claim(OWN, Generation(7), U1, epoch=Epoch(epoch))

    with connected(sidecar.connect(), GOOD) as old, connected(sidecar.connect(), GOOD) as new:
        assert old.state(claim(1)).admitted
        assert new.state(claim(2)).admitted
        upstreams = [own_local_process.accept(), own_local_process.accept()]
        assert old.ending() == "reset"
        with connected(sidecar.connect(), GOOD) as again:
            assert again.state(claim(1)).verdict == "controller_stale"
        for each in upstreams:
            each.close()


def test_a_reconnect_is_known_by_its_certificate_where_the_claim_names_nobody(
    start: Callable[..., Sidecar], own_local_process: LocalProcess, tmp_path: Path
) -> None:
    sidecar = start(listener={"tls": tls_block(tmp_path, SERVED), "concurrency": "exclusive"})
    other = ROOT.issue(uris=["spiffe://example.org/prod-eu/controller/c2"])
    with connected(sidecar.connect(), GOOD) as first:
        assert first.state().admitted
        with own_local_process.accept():
            with connected(sidecar.connect(), other) as stranger:
                assert stranger.state().verdict == "exclusive_conflict"
            with connected(sidecar.connect(), ROOT.issue()) as again:
                assert again.state().admitted
                assert first.ending() == "reset"
                own_local_process.accept().close()


def test_the_shadow_mode_lets_nobody_in_whose_certificate_isnt_allowed(
    start: Callable[..., Sidecar], own_local_process: LocalProcess, tmp_path: Path
) -> None:
    sidecar = start(listener={"tls": tls_block(tmp_path, SERVED)}, enforcement="shadow", shadow_wait="100ms")
    stranger = ROOT.issue(uris=["spiffe://example.org/somebody/else"])
    with sidecar.counting(peer_not_allowed=2, shadow=1):
        with connected(sidecar.connect(), stranger) as client:
            assert client.state().verdict == "peer_not_allowed"
        with connected(sidecar.connect(), stranger) as client:  # and says nothing
            assert client.ending() == "close_notify"
        with connected(sidecar.connect(), GOOD) as client:
            client.tls.sendall(b"no preface")
            with own_local_process.accept() as upstream:
                assert upstream.recv(100) == b"no preface"
    assert own_local_process.untouched
