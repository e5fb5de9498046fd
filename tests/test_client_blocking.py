import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from sidecar.client_blocking import open_connection
from sidecar.dialler import (
    NoAnswerError,
    NotASidecarError,
    RefusedError,
    UnreachableError,
    WrongPeerError,
    opening,
)
from sidecar.errors import MalformedValue
from sidecar.identity import Generation, Identity
from sidecar.preface.answer import Answer, write_answer
from sidecar.preface.claim import Claim
from sidecar.reasons import Advice

ROOT = Path(__file__).resolve().parent.parent
CLAIM = Claim(Identity("prod-eu", "replica-a", 2), Generation(7))
ADMITTED = write_answer(Answer("admitted", None, "", CLAIM.identity, CLAIM.generation), dialler=None, sidecar=None)
OTHER = write_answer(Answer("admitted", None, "", CLAIM.identity, Generation(8)), dialler=None, sidecar=None)
REFUSED = write_answer(Answer("generation_stale", Advice.REFRESH), dialler=None, sidecar=None)
RESET = b"\1\0\0\0\0\0\0\0"  # struct linger: on, 0 seconds


def read_exactly(connection, length):
    data = b""
    while len(data) < length:
        chunk = connection.recv(length - len(data))
        assert chunk, "ended too early"
        data += chunk
    return data


@contextmanager
def serving(handle, listener=None):
    """Runs *handle* on the one connection that is made, after its preface; fails the test if *handle* fails."""
    listener = listener or socket.create_server(("127.0.0.1", 0))
    failures = []

    def serve():
        try:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(10)
                assert read_exactly(connection, len(opening(CLAIM))) == opening(CLAIM)
                handle(connection)
        except BaseException as error:  # noqa: BLE001 - carried over to the test's thread
            failures.append(error)

    thread = threading.Thread(target=serve)
    thread.start()
    with listener:
        yield listener.getsockname()
        thread.join(10)
        assert not thread.is_alive()
    assert failures == []


def sees_the_end(connection):
    """The dialler closed, and sent nothing of the application."""
    with suppress(ConnectionResetError):  # where it left bytes of the reply unread
        assert connection.recv(1) == b""


def replying(reply, *, then=lambda connection: None):
    def handle(connection):
        connection.sendall(reply)
        then(connection)

    return handle


def test_it_needs_the_standard_library_alone():
    """Without `site` nothing that is installed can be imported: trio, pydantic, yaml, structlog, h11, ..."""
    code = """
import sys
sys.path.insert(0, sys.argv[1])
import sidecar.client_blocking
print(sorted({name.partition(".")[0] for name in sys.modules} - sys.stdlib_module_names - {"__main__"}))
"""
    result = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(ROOT)], capture_output=True, text=True, timeout=60
    )
    assert result.stderr == ""
    assert result.stdout == "['sidecar']\n"


def test_an_admitted_claim_gives_a_socket_that_blocks():
    def echo(connection):
        connection.sendall(ADMITTED)
        connection.sendall(read_exactly(connection, 5))
        assert connection.recv(1) == b""

    with serving(echo) as address, open_connection(address, CLAIM) as connection:
        assert connection.gettimeout() is None
        connection.sendall(b"hello")
        assert read_exactly(connection, 5) == b"hello"
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""


def test_what_the_process_sends_straight_after_the_answer_stays_in_the_socket():
    with (
        serving(replying(ADMITTED + b"server speaks first")) as address,
        open_connection(address, CLAIM) as connection,
    ):
        assert read_exactly(connection, 19) == b"server speaks first"


@pytest.mark.parametrize(
    ("reply", "error"),
    [(REFUSED, RefusedError), (OTHER, WrongPeerError), (b"HTTP/1.1 400 Bad Request\r\n\r\n", NotASidecarError)],
)
def test_a_claim_that_is_not_admitted_leaves_no_connection_and_nothing_sent(reply, error):
    with serving(replying(reply, then=sees_the_end)) as address, pytest.raises(error):
        open_connection(address, CLAIM)


@pytest.mark.parametrize("reply", [b"", ADMITTED[:20]])
def test_an_end_without_an_answer_is_an_error(reply):
    with (
        serving(replying(reply)) as address,
        pytest.raises(NoAnswerError, match="without an answer" if not reply else "after 20 bytes"),
    ):
        open_connection(address, CLAIM)


def test_a_reset_is_no_answer():
    def reset(connection):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)

    with serving(reset) as address, pytest.raises(NoAnswerError, match="broke"):
        open_connection(address, CLAIM)


def test_a_silent_peer_is_given_up():
    with (
        serving(replying(b"", then=sees_the_end)) as address,
        pytest.raises(NoAnswerError, match=r"within 0\.2 seconds"),
    ):
        open_connection(address, CLAIM, answer_within=0.2)


def test_a_peer_that_sends_a_byte_now_and_then_gains_no_time():
    given_up = threading.Event()

    def drip(connection):
        for byte in ADMITTED:
            if given_up.wait(0.05):  # 94 bytes: nearly five seconds
                break
            connection.sendall(bytes([byte]))

    with serving(drip) as address:
        began = time.monotonic()
        with pytest.raises(NoAnswerError, match=r"within 0\.3 seconds"):
            open_connection(address, CLAIM, answer_within=0.3)
        assert time.monotonic() - began < 3
        given_up.set()


def test_an_address_where_nobody_listens_is_unreachable(tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound and not listening: nobody else can take the port meanwhile
        with pytest.raises(UnreachableError, match=r"^unreachable: Connection refused$") as caught:
            open_connection(unused.getsockname(), CLAIM)
    assert caught.value.advice is Advice.RE_RESOLVE
    with pytest.raises(UnreachableError, match=r"^unreachable: No such file or directory$"):
        open_connection(f"unix:{tmp_path}/nobody", CLAIM)
    with pytest.raises(UnreachableError, match=r"^unreachable: no host can have such a name$"):
        open_connection("a..b:1", CLAIM)


def test_a_peer_that_does_not_accept_is_given_up():
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):  # the backlog is full after one or two; from then on the kernel drops the SYN
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        with pytest.raises(UnreachableError, match=r"within 0\.2 seconds"):
            open_connection(listener.getsockname(), CLAIM, answer_within=0.2)


def test_a_name_with_several_addresses_is_dialled_until_one_answers():
    """`localhost` is ::1 and 127.0.0.1 nearly everywhere; the server has the second only."""
    with serving(replying(ADMITTED)) as (_, port), open_connection(("localhost", port), CLAIM) as connection:
        assert connection.getpeername() == ("127.0.0.1", port)


def test_a_name_with_several_addresses_of_which_none_answers_says_each_reason_once(monkeypatch):
    def resolve(host, port, **_):
        ends = [(socket.AF_INET, ("127.0.0.1", port)), (socket.AF_INET, ("127.0.0.2", port)), (socket.AF_UNIX, "/none")]
        return [(family, socket.SOCK_STREAM, 0, "", end) for family, end in ends]

    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with pytest.raises(UnreachableError) as caught:
        open_connection(("replica-a-2", port), CLAIM)
    assert caught.value.detail == "Connection refused; No such file or directory"


def test_text_that_is_no_address_is_refused_before_anything_is_dialled():
    with pytest.raises(MalformedValue, match="host:port"):
        open_connection("7101", CLAIM)


def test_a_unix_socket_can_be_dialled(tmp_path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(tmp_path / "ctl.sock"))
    listener.listen()
    with (
        serving(replying(ADMITTED + b"hello"), listener) as path,
        open_connection(f"unix:{path}", CLAIM) as connection,
    ):
        assert read_exactly(connection, 5) == b"hello"
