"""OpenSSL on the accepted socket: a session that is spoken to like a socket."""

from __future__ import annotations

import os
import select
import socket
from contextlib import contextmanager, suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from OpenSSL import SSL

from sidecar.reasons import TlsFailure
from sidecar.tls.contexts import TlsVersion, server_context
from sidecar.tls.session import RECORD, NothingSaid, Session, ShakeFailed, ShakeWait
from tests.certificates import CA, HOUR, now
from tests.tls_handshakes import material, plain_client
from tests.turns import tcp

ROOT = CA()
LEAF = ROOT.issue()
CONTEXT = server_context(material(LEAF, ROOT))


class Ends:
    """Both ends of one connection; neither blocks."""

    def __init__(self, leaf=LEAF, *, buffers=None, unix=False):
        if unix:
            self.near, self.far = socket.socketpair()
            self.near.setblocking(False)
            self.far.setblocking(False)
        else:
            self.near, self.far = tcp(buffers=buffers)
            self.near.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # what was sent has arrived
        self.client = SSL.Connection(plain_client(leaf), self.near)
        self.client.set_connect_state()
        self.session = Session(CONTEXT, self.far)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.near.close()
        self.far.close()

    def shaken(self):
        """The handshake, to its end on both sides."""
        done = False
        for _ in range(20):
            with suppress(SSL.WantReadError):
                self.client.do_handshake()
            if not done:
                done = self.session.shake(now) is None
            elif self.client.get_state_string().startswith(b"SSL negotiation finished"):
                return self
        raise AssertionError("no end")

    def tell(self, data):
        """The client sends all of *data*, each piece in a record of its own."""
        for start in range(0, len(data), RECORD):
            piece = data[start : start + RECORD]
            assert self.client.send(piece) == len(piece)

    def arrived(self):
        """Wait until the kernel has something for the session."""
        assert select.select([self.far], [], [], 5)[0]

    def heard(self):
        """What the client reads now; None: nothing yet."""
        try:
            return self.client.recv(1 << 20)
        except SSL.WantReadError:
            return None

    def hear(self):
        """The next that the client reads, once it is there; tickets come first."""
        while (data := self.heard()) is None:
            assert select.select([self.near], [], [], 5)[0]
        return data

    @contextmanager
    def full(self):
        """Meanwhile the kernel takes not one byte: a socket that is full stands behind the session's descriptor."""
        full, reader = socket.socketpair()
        own = os.dup(self.far.fileno())
        with full, reader:
            full.setblocking(False)
            with suppress(BlockingIOError):
                while True:
                    full.send(bytes(1))
            os.dup2(full.fileno(), self.far.fileno())
            try:
                yield
            finally:
                os.dup2(own, self.far.fileno())
                os.close(own)

    def clog(self):
        """Send until the kernel takes no more."""
        with suppress(BlockingIOError):
            while True:
                self.session.send(bytes(RECORD))


def buffer(size=4 * RECORD):
    return memoryview(bytearray(size))


def test_a_handshake_says_what_it_waits_for():
    with Ends() as ends:
        assert ends.session.shake(now) is ShakeWait.READABLE
        ends.shaken()
        assert ends.session.connection.get_protocol_version_name() == "TLSv1.3"


@pytest.mark.parametrize("how", ["end", "reset"])
def test_who_goes_before_the_first_byte_wanted_nothing(how):
    with Ends() as ends:
        if how == "reset":
            ends.near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        ends.near.close()
        ends.arrived()
        with pytest.raises(NothingSaid):
            ends.session.shake(now)


@pytest.mark.parametrize(
    ("leaf", "cause", "words"),
    [
        (None, TlsFailure.NO_CERT, "certificate"),
        (CA("other").issue(), TlsFailure.UNKNOWN_CA, "issuer"),
        (ROOT.issue(start=-2 * HOUR, end=-HOUR), TlsFailure.CERT_EXPIRED, "valid until"),
    ],
)
def test_a_handshake_that_fails_says_why_and_the_alert_reaches_the_client(leaf, cause, words):
    with Ends(leaf) as ends:
        with pytest.raises(ShakeFailed, match=words) as failed:
            ends.shaken()
        assert failed.value.cause is cause
        with pytest.raises(SSL.Error, match="alert"):
            ends.hear()


def test_bytes_that_are_no_tls_are_a_fault_of_the_protocol():
    with Ends() as ends:
        ends.near.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        ends.arrived()
        with pytest.raises(ShakeFailed) as failed:
            ends.session.shake(now)
        assert failed.value.cause is TlsFailure.PROTOCOL


def test_nothing_yet_is_said_as_a_socket_says_it():
    with Ends() as ends:
        ends.shaken()
        with pytest.raises(BlockingIOError):
            ends.session.recv_into(buffer())
        with pytest.raises(BlockingIOError):
            ends.session.recv(100)


def test_full_records_that_are_there_come_in_one_read_and_one_that_isnt_ends_it():
    with Ends() as ends:
        ends.shaken()
        ends.tell(b"x" * (2 * RECORD) + b"short")
        ends.client.send(b"another")
        ends.arrived()
        into = buffer()
        size = ends.session.recv_into(into)
        assert bytes(into[:size]) == b"x" * (2 * RECORD) + b"short"
        assert not ends.session.unread
        ends.arrived()  # the kernel says so again
        assert ends.session.recv_into(into) == len(b"another")


def test_a_large_record_is_never_left_in_part():
    with Ends() as ends:
        ends.shaken()
        ends.tell(b"x" * RECORD)
        ends.arrived()
        assert len(ends.session.recv(100)) == RECORD
        assert not ends.session.unread


def test_an_end_behind_bytes_is_told_by_the_next_read():
    with Ends() as ends:
        ends.shaken()
        ends.tell(b"w" * RECORD)
        ends.client.shutdown()
        ends.arrived()
        into = buffer()
        size = ends.session.recv_into(into)
        assert bytes(into[:size]) == b"w" * RECORD
        assert ends.session.unread, "the kernel has nothing to tell of it any more"
        assert ends.session.recv_into(into) == 0
        assert ends.session.recv_into(into) == 0


def test_an_end_without_close_notify_is_a_break_and_no_end():
    with Ends() as ends:
        ends.shaken()
        ends.client.send(b"half of")
        ends.near.shutdown(socket.SHUT_WR)
        ends.arrived()
        into = buffer()
        assert ends.session.recv_into(into) == len(b"half of")
        for _ in range(2):
            with pytest.raises(ConnectionError):
                ends.session.recv_into(into)


def test_our_end_leaves_the_peers_stream_open():
    with Ends() as ends:
        ends.shaken()
        ends.session.shutdown()
        with pytest.raises(SSL.ZeroReturnError):
            ends.hear()
        ends.client.send(b"and yet")
        ends.arrived()
        assert ends.session.recv(100) == b"and yet"


def test_what_the_kernel_doesnt_take_goes_on_exactly_where_it_stopped():
    data = bytes(range(256)) * 8192
    with Ends(buffers=20_000) as ends:
        ends.shaken()
        rest, got = memoryview(data), bytearray()
        blocked = 0
        for _ in range(100_000):
            if not rest and len(got) == len(data):
                break
            try:
                rest = rest[ends.session.send(rest) :] if rest else rest
            except BlockingIOError:
                blocked += 1
            got += ends.heard() or b""
        assert bytes(got) == data
        assert blocked


def test_the_end_waits_too_where_the_kernel_takes_nothing():
    with Ends(buffers=20_000) as ends:
        ends.shaken()
        ends.clog()
        with pytest.raises(BlockingIOError):
            ends.session.shutdown()


def test_an_end_that_had_to_wait_is_told_later_and_once():
    with Ends() as ends:
        ends.shaken()
        with ends.full():
            for _ in range(3):
                with pytest.raises(BlockingIOError):
                    ends.session.shutdown()
        assert ends.heard() is None
        ends.session.shutdown()
        with pytest.raises(SSL.ZeroReturnError):
            ends.hear()
        ends.tell(b"and yet")
        ends.arrived()
        assert ends.session.recv(100) == b"and yet"


def test_what_had_to_wait_may_come_from_elsewhere_in_memory_and_with_more_behind_it():
    with Ends() as ends:
        ends.shaken()
        with ends.full():
            for _ in range(3):
                with pytest.raises(BlockingIOError):
                    ends.session.send(bytearray(b"first"))
        assert ends.session.send(memoryview(b"first, then more")) == len(b"first, then more")
        got = ends.hear()
        while len(got) < len(b"first, then more"):
            got += ends.hear()
        assert got == b"first, then more"


def test_the_peers_end_leaves_our_stream_open():
    with Ends() as ends:
        ends.shaken()
        ends.client.shutdown()
        ends.arrived()
        into = buffer()
        assert ends.session.recv_into(into) == 0
        assert ends.session.send(b"and yet") == len(b"and yet")
        assert ends.hear() == b"and yet"
        ends.session.shutdown()
        with pytest.raises(SSL.ZeroReturnError):
            ends.hear()
        assert ends.session.recv(100) == b"", "and goes on being told"


def test_a_reset_is_a_break_and_no_end():
    with Ends() as ends:
        ends.shaken()
        ends.near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        ends.near.close()
        ends.arrived()
        for _ in range(2):
            with pytest.raises(ConnectionError):
                ends.session.recv_into(buffer())
        with pytest.raises(ConnectionError):
            ends.session.shutdown()


def test_bytes_that_were_tampered_with_are_a_break():
    with Ends() as ends:
        ends.shaken()
        ends.tell(b"whole")
        ends.near.send(b"\x17\x03\x03\x00\x20" + bytes(32))
        ends.arrived()
        into = buffer()
        assert bytes(into[: ends.session.recv_into(into)]) == b"whole"
        with pytest.raises(ConnectionError):
            ends.session.recv_into(into)


@pytest.mark.parametrize("unix", [False, True])
@pytest.mark.parametrize("old", [False, True])
def test_it_speaks_over_any_stream_socket_in_any_version_that_is_asked_for(unix, old):
    with Ends(unix=unix) as ends:
        if old:
            context = server_context(material(LEAF, ROOT), TlsVersion.TLS_1_2)
            ends.session = Session(context, ends.far)
            ends.client = SSL.Connection(plain_client(LEAF, version=SSL.TLS1_2_VERSION), ends.near)
            ends.client.set_connect_state()
        ends.shaken()
        assert ends.session.connection.get_protocol_version_name() == ("TLSv1.2" if old else "TLSv1.3")
        ends.tell(b"up")
        ends.arrived()
        assert ends.session.recv(100) == b"up"
        assert ends.session.send(b"down") == len(b"down")
        assert ends.hear() == b"down"
        ends.client.shutdown()
        ends.arrived()
        assert ends.session.recv(100) == b""


def test_a_handshake_that_the_kernel_takes_no_word_of_waits_to_be_writable():
    with Ends() as ends:
        with pytest.raises(SSL.WantReadError):
            ends.client.do_handshake()
        ends.arrived()
        hello = ends.far.recv(1 << 16, socket.MSG_PEEK)
        full, reader = socket.socketpair()
        with full, reader:
            reader.send(hello)
            full.setblocking(False)
            with suppress(BlockingIOError):
                while True:
                    full.send(bytes(1))
            session = Session(CONTEXT, full)
            assert session.shake(now) is ShakeWait.WRITABLE
            assert session.shake(now) is ShakeWait.WRITABLE


def test_sending_to_who_is_gone_is_a_break():
    with Ends() as ends:
        ends.shaken()
        ends.near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        ends.near.close()
        ends.arrived()
        with pytest.raises(ConnectionError):
            ends.session.send(b"hello?")


@given(st.lists(st.integers(1, RECORD), min_size=1, max_size=12))
@settings(deadline=None, max_examples=30)
def test_after_a_read_finds_nothing_openssl_holds_nothing(sizes):
    with Ends() as ends:
        ends.shaken()
        sent, got = 0, 0
        for size in sizes:
            assert ends.client.send(bytes(size)) == size
            sent += size
        into = buffer()
        while got < sent:
            ends.arrived()
            got += ends.session.recv_into(into)
        with pytest.raises(BlockingIOError):
            ends.session.recv_into(into)
        assert got == sent
        assert not ends.session.unread
