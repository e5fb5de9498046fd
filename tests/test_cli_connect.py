import argparse
import os
import pty
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest
from OpenSSL import SSL

from sidecar.cli import connect
from sidecar.identity import ControllerName, Epoch, Generation, Identity, Instance
from sidecar.preface.answer import Answer, write_answer
from sidecar.preface.claim import read_claim
from sidecar.preface.proxy_v2 import bytes_wanted, read_header
from sidecar.reasons import Advice
from sidecar.tls.contexts import server_context
from tests.certificates import CA, HOUR, pem
from tests.tls_handshakes import material

IDENTITY = Identity("prod-eu", "replica-a", 2)
ADMITTED = write_answer(Answer("admitted", None, "", IDENTITY, Generation(7)), dialler=None, sidecar=None)
PROGRAM = """
import argparse, sys
from sidecar.cli import connect
parser = argparse.ArgumentParser(prog="sidecar")
connect.add_parser(parser.add_subparsers(required=True))
args = parser.parse_args()
sys.exit(args.run(args))
"""


def start(address, *options, stdin=subprocess.PIPE):
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "connect", address, "--identity", str(IDENTITY), *options],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def run(address, *options, stdin=b""):
    """The command's exit code, standard output and standard error."""
    with start(address, *options) as process:
        output, errors = process.communicate(stdin, timeout=60)
        return process.returncode, output, errors.decode()


class FakeSidecar:
    """Takes one connection, reads the preface, sends *reply*, then does what *then* says; keeps what it got."""

    def __init__(self, reply, then=lambda connection: None):
        self.reply = reply
        self.then = then
        self.claim = None

    def serve(self, listener):
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(30)
            self.converse(connection)

    def converse(self, connection):
        buffer = bytearray()
        while (header := read_header(buffer)) is None:
            received = connection.recv(bytes_wanted(buffer))
            assert received
            buffer += received
        self.claim = read_claim(header.tlvs)
        connection.sendall(self.reply)
        self.then(connection)


@contextmanager
def serving(sidecar):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=sidecar.serve, args=(listener,))
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join(30)
        assert not thread.is_alive()


def read_all(connection):
    data = bytearray()
    while chunk := connection.recv(65536):
        data += chunk
    return bytes(data)


def parse(*arguments):
    parser = argparse.ArgumentParser(prog="sidecar")
    connect.add_parser(parser.add_subparsers())
    return parser.parse_args(["connect", *arguments])


def test_a_probe_prints_the_verdict_and_closes():
    with serving(FakeSidecar(ADMITTED, read_all)) as address:
        assert run(address, "--probe") == (0, b"admitted\n", "")


def test_every_part_of_the_claim_is_stated():
    sidecar = FakeSidecar(write_answer(Answer("fenced", Advice.RETRY), dialler=None, sidecar=None))
    options = ("--generation", "7", "--instance", "U1", "--epoch", "3", "--controller", "c-1")
    with serving(sidecar) as address:
        run(address, *options)
    claim = sidecar.claim
    assert (claim.identity, claim.generation, claim.instance) == (IDENTITY, Generation(7), Instance("U1"))
    assert (claim.epoch, claim.controller, claim.answer.wanted) == (Epoch(3), ControllerName("c-1"), True)


@pytest.mark.parametrize(
    ("advice", "code"),
    [
        (Advice.RETRY, 10),
        (Advice.REFRESH, 11),
        (Advice.RE_RESOLVE, 12),
        (Advice.FIX, 13),
        (Advice.STOP, 14),
    ],
)
def test_a_refusals_advice_is_the_exit_code(advice, code):
    refusal = write_answer(Answer("some_reason_of_2031", advice, "because"), dialler=None, sidecar=None)
    with serving(FakeSidecar(refusal)) as address:
        result, output, errors = run(address)
    assert (result, output) == (code, b"")
    assert errors.startswith(f"sidecar connect: {address}: refused: some_reason_of_2031: because [{advice}: ")
    assert errors.count("\n") == 1


def test_a_probe_that_is_refused_prints_the_verdict_as_its_result():
    refusal = write_answer(Answer("generation_stale", Advice.REFRESH, "because"), dialler=None, sidecar=None)
    with serving(FakeSidecar(refusal)) as address:
        result, output, errors = run(address, "--probe")
    assert (result, errors) == (11, "")
    assert output.startswith(b"refused: generation_stale: because [refresh: ")


def test_every_advice_has_an_exit_code_and_a_next_step():
    assert set(connect.EXIT_CODE) == set(connect._WHAT_TO_DO) == set(Advice)


def test_a_process_that_was_not_meant_is_looked_up_again():
    with serving(FakeSidecar(ADMITTED, read_all)) as address:
        result, output, errors = run(address, "--generation", "8", stdin=b"secret")
    assert (result, output) == (12, b"")
    assert "for generation 8 it names 7" in errors


@pytest.mark.parametrize("reply", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_no_answer_is_told_apart_from_every_refusal(reply):
    with serving(FakeSidecar(reply)) as address:
        result, output, errors = run(address)
    assert (result, output) == (1, b"")
    assert "refused" not in errors
    assert errors.count("\n") == 1


def test_a_silent_peer_is_given_up():
    with serving(FakeSidecar(b"", read_all)) as address:
        result, _, errors = run(address, "--answer-within", "0.2")
    assert result == 1
    assert "within 0.2 seconds" in errors


def test_stdin_and_stdout_are_piped_with_half_close():
    request = os.urandom(300_000)
    with serving(FakeSidecar(ADMITTED, lambda connection: connection.sendall(read_all(connection)[::-1]))) as address:
        assert run(address, "--generation", "7", stdin=request) == (0, request[::-1], "")


def test_a_cut_is_not_taken_for_the_end_though_nobody_types():
    def cut(connection):
        connection.sendall(b"part of ")
        connection.recv(1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")

    with serving(FakeSidecar(ADMITTED, cut)) as address, start(address) as process:
        assert process.stdout.read(8) == b"part of "
        process.stdin.write(b"x")
        process.stdin.flush()  # and stays open
        assert process.wait(60) == 1
        assert b"the connection broke" in process.stderr.read()


@pytest.fixture
def terminal():
    """A terminal: the side that somebody types at, and the side that the command has."""
    typed, seen = pty.openpty()
    with open(typed, "r+b", buffering=0) as keyboard, open(seen, "r+b", buffering=0) as line:
        yield keyboard, line


def test_at_a_terminal_an_admission_is_said_and_the_peers_end_is_the_end(terminal):
    keyboard, line = terminal

    def greet(connection):
        assert connection.recv(100) == b"hello\n"
        connection.sendall(b"goodbye\n")

    with serving(FakeSidecar(ADMITTED, greet)) as address, start(address, stdin=line) as process:
        assert process.stderr.readline() == b"admitted: type, Ctrl-D ends\n"
        keyboard.write(b"hello\n")
        assert process.wait(60) == 0  # and nobody has typed Ctrl-D
        assert process.stdout.read() == b"goodbye\n"
        assert process.stderr.read() == b""


def test_at_a_terminal_the_end_of_what_is_typed_leaves_time_for_the_answer(terminal):
    keyboard, line = terminal
    sidecar = FakeSidecar(ADMITTED, lambda connection: connection.sendall(read_all(connection)[::-1]))
    with serving(sidecar) as address, start(address, stdin=line) as process:
        process.stderr.readline()
        keyboard.write(b"live\n\x04")
        assert process.wait(60) == 0
        assert process.stdout.read() == b"\nevil"


def test_a_probe_at_a_terminal_says_the_verdict_alone(terminal):
    with serving(FakeSidecar(ADMITTED, read_all)) as address, start(address, "--probe", stdin=terminal[1]) as process:
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output, errors) == (0, b"admitted\n", b"")


# TLS

ROOT, NOBODYS = CA("root"), CA("nobody's")
SIDECAR = ROOT.issue(uris=["spiffe://example.org/prod-eu/replica-a/2/7"], common="sidecar")


class TlsSidecar(FakeSidecar):
    """The same inside TLS, for those whose certificate passes. Who is refused doesn't get as far as a claim."""

    def converse(self, connection):
        connection.settimeout(None)  # OpenSSL knows no time-outs; the command's own end is enough
        session = SSL.Connection(server_context(material(SIDECAR, ROOT)), connection)
        session.set_accept_state()
        try:
            session.do_handshake()
        except SSL.Error:
            return
        try:
            super().converse(Inside(session))
            session.shutdown()
        except SSL.SysCallError:
            pass  # the dialler has left


class Inside:
    """As much of a socket as the fake needs, over a session."""

    def __init__(self, session):
        self.session = session

    def recv(self, size):
        try:
            return self.session.recv(size)
        except SSL.ZeroReturnError:
            return b""

    def sendall(self, data):
        self.session.sendall(data)


@pytest.fixture
def tls_options(tmp_path):
    """The options for this certificate and these roots, whose files are written."""

    def write(leaf=None, root=ROOT):
        leaf = leaf or ROOT.issue()
        contents = {"certificate": leaf.chain_pem, "key": leaf.key_pem, "ca": root.pem}
        for name, content in contents.items():
            (tmp_path / name).write_bytes(content)
        return [word for name in contents for word in (f"--{name}", str(tmp_path / name))]

    return write


@pytest.mark.parametrize("verify", [[], ["--verify", "slot"], ["--verify", "slot+generation", "--generation", "7"]])
def test_a_probe_inside_tls_prints_the_verdict(tls_options, verify):
    sidecar = TlsSidecar(ADMITTED, read_all)
    with serving(sidecar) as address:
        assert run(address, *tls_options(), *verify, "--probe") == (0, b"admitted\n", "")
    assert sidecar.claim.identity == IDENTITY


def test_inside_tls_stdin_and_stdout_are_piped_with_half_close(tls_options):
    request = os.urandom(300_000)
    with serving(TlsSidecar(ADMITTED, lambda inside: inside.sendall(read_all(inside)[::-1]))) as address:
        assert run(address, *tls_options(), stdin=request) == (0, request[::-1], "")


def test_tls_that_fails_is_no_answer_and_says_who_refused_whom(tls_options):
    expired = tls_options(ROOT.issue(start=-HOUR, end=-60))
    with serving(TlsSidecar(ADMITTED)) as address:
        result, output, errors = run(address, *expired, stdin=b"secret")
    assert (result, output) == (1, b"")
    assert errors.startswith(
        f"sidecar connect: {address}: tls_refused: the sidecar ended TLS with the alert 'certificate expired': "
    )
    with serving(TlsSidecar(ADMITTED)) as address:
        result, output, errors = run(address, *tls_options(root=NOBODYS), stdin=b"secret")
    assert (result, output) == (1, b"")
    assert errors.startswith(
        f"sidecar connect: {address}: peer_unproven: its certificate doesn't pass, unknown_ca: "
        "the peer's certificate, 'CN=sidecar': its issuer 'CN=root' "
    )


def test_a_certificate_of_another_slot_is_looked_up_again(tls_options):
    sidecar = TlsSidecar(ADMITTED)
    with serving(sidecar) as address:
        result, output, errors = run(
            address, *tls_options(), "--verify", "slot+generation", "--generation", "8", stdin=b"secret"
        )
    assert (result, output, sidecar.claim) == (12, b"", None)
    assert "expected slot prod-eu/replica-a/2 at generation 8 in any trust domain, the certificate says" in errors


def test_revoked_sidecars_are_refused_where_a_list_is_given(tls_options, tmp_path):
    (tmp_path / "crl").write_bytes(pem(ROOT.crl(SIDECAR)))
    with serving(TlsSidecar(ADMITTED)) as address:
        result, _, errors = run(address, *tls_options(), "--crl", str(tmp_path / "crl"))
    assert result == 1
    assert "cert_revoked" in errors


# Arguments


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["host:1"], "--identity"),
        (["host", "--identity", "a/b/0"], "argument ADDRESS: must be host:port"),
        (["host:1", "--identity", "a/b"], "argument --identity: must be <cluster>/<replica>/<ordinal>"),
        (["host:1", "--identity", "a/b/01"], "argument --identity: ordinal must be a decimal number"),
        (["host:1", "--identity", "a/b/0", "--generation", "0"], "argument --generation: must be between 1"),
        (["host:1", "--identity", "a/b/0", "--generation", "+7"], "argument --generation: must be a decimal"),
        (["host:1", "--identity", "a/b/0", "--instance", "a b"], "argument --instance: must be 1 to 128"),
        (["host:1", "--identity", "a/b/0", "--epoch", "\u0663"], "argument --epoch: must be a decimal"),
        (["host:1", "--identity", "a/b/0", "--controller", ""], "argument --controller: must be 1 to 128"),
        (["host:1", "--identity", "a/b/0", "--answer-within", "0"], "argument --answer-within: must be a number"),
        (["host:1", "--identity", "a/b/0", "--answer-within", "nan"], "argument --answer-within: must be a number"),
        (["host:1", "--identity", "a/b/0", "--answer-within", "soon"], "argument --answer-within: must be a number"),
    ],
)
def test_a_wrong_argument_is_named_and_ends_with_2(arguments, says, capsys):
    with pytest.raises(SystemExit) as caught:
        parse(*arguments)
    assert caught.value.code == 2
    assert says in capsys.readouterr().err


SLOT = ("host:1", "--identity", "a/b/0")


def run_parsed(*arguments):
    args = parse(*SLOT, *arguments)
    return args.run(args)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--certificate", "c"], "--certificate is for TLS, which needs --key, --ca too"),
        (["--certificate", "c", "--key", "k"], "--certificate is for TLS, which needs --ca too"),
        (["--ca", "a"], "--ca is for TLS, which needs --certificate, --key too"),
        (["--crl", "r"], "--crl is for TLS, which needs --certificate, --key, --ca too"),
        (["--verify", "slot"], "--verify is for TLS, which needs --certificate, --key, --ca too"),
        (["--trust-domain", "x"], "--trust-domain is for TLS, which needs --certificate, --key, --ca too"),
    ],
)
def test_an_option_of_tls_alone_is_met_with_what_is_missing(arguments, says, capsys):
    with pytest.raises(SystemExit) as caught:
        run_parsed(*arguments)
    assert caught.value.code == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--verify", "pod"], "argument --verify: must be one of slot+generation, slot, trust-domain, dns:PATTERN"),
        (["--verify", ""], "argument --verify: must be one of"),
        (["--verify", "dns:*.*"], "argument --verify: must be a DNS name"),
        (["--trust-domain", "A"], "argument --verify or --trust-domain: the trust domain must be"),
        (["--trust-domain", ""], "argument --verify or --trust-domain: the trust domain must be"),
        (["--verify", "dns:a", "--trust-domain", "b"], "dns:PATTERN and a trust domain exclude each other"),
        (["--verify", "slot+generation"], "argument --verify: the claim has no generation to check"),
        (["--crl", ""], "doesn't exist"),
        (["--crl", "/nowhere/crl"], "/nowhere/crl: "),
    ],
)
def test_what_is_wrong_with_tls_is_named_before_anything_is_dialled(arguments, says, capsys, tls_options):
    with pytest.raises(SystemExit) as caught:
        run_parsed(*tls_options(), *arguments)
    assert caught.value.code == 2
    assert says in capsys.readouterr().err


def test_the_help_names_every_exit_code(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")  # in one line
    with pytest.raises(SystemExit):
        parse("--help")
    shown = capsys.readouterr().out
    assert all(f"{code} {advice}" in shown for advice, code in connect.EXIT_CODE.items())
