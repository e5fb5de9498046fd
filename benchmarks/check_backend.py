"""Plays the sidecar to the backend's receiver, to see that it keeps the rules of docs/handoff.md.

Run by hand after a change of native/receiver.c or native/roles.c: ``python -m benchmarks.check_backend``. A receiver
that leaks or lies would make the numbers of the hand-over meaningless.
"""

from __future__ import annotations

import array
import ctypes
import socket
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from benchmarks.native import Addresses, backend, build

PATIENCE = 5.0
SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
ACKED_BYTES = 16 << 20


def packet(number: int, answer: bytes = b"", first: bytes = b"") -> bytes:
    """What the sidecar writes beside the descriptor."""
    tlvs = tlv(0xE5, b"bench/replica/0") + tlv(0xF0, str(number).encode())
    if answer:
        tlvs += tlv(0xF1, answer)
    block = bytes([127, 0, 0, 1] * 2) + b"\x30\x39\x01\xbb" + tlvs
    return SIGNATURE + b"\x21\x11" + len(block).to_bytes(2) + block + first


def tlv(kind: int, value: bytes) -> bytes:
    """One TLV."""
    return bytes([kind]) + len(value).to_bytes(2) + value


def connected() -> tuple[socket.socket, socket.socket]:
    """A client, and the sidecar's end of its connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname(), timeout=PATIENCE)
        accepted, _ = server.accept()
    accepted.settimeout(0)
    return client, accepted


class Lifeline:
    """The sidecar's connection to a receiver."""

    def __init__(self, path: str) -> None:
        """Connect; nothing is read yet."""
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(path)

    def word(self) -> str:
        """The receiver's next message; empty at its end."""
        return self.socket.recv(100).decode()

    def ready(self) -> Lifeline:
        """The lifeline, once the receiver has said so."""
        equal(self.word(), "ready 1")
        return self

    def hand_over(self, sent: bytes, *descriptors: int) -> None:
        """Send one packet with these descriptors."""
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", descriptors))] if descriptors else []
        self.socket.sendmsg([sent], rights)

    def end(self) -> None:
        """What happens when the sidecar dies."""
        self.socket.close()


def equal(found: object, expected: object) -> None:
    """Fail unless they are."""
    if found != expected:
        message = f"{expected!r} was expected, this came: {found!r}"
        raise AssertionError(message)


def is_reset(client: socket.socket) -> bool:
    """Whether the connection ends with an RST."""
    try:
        while client.recv(65536):
            pass
    except ConnectionResetError:
        return True
    return False


def received(client: socket.socket, size: int) -> bytes:
    """Exactly so many bytes, or fewer at the end."""
    got = b""
    while len(got) < size and (more := client.recv(size - len(got))):
        got += more
    return got


def answer_comes_first_then_what_was_read_already(paths: Addresses) -> None:
    """The order of bytes to the client."""
    lifeline = Lifeline(paths.echo).ready()
    client, accepted = connected()
    lifeline.hand_over(packet(1, answer=b"[answer]", first=b"first"), accepted.fileno())
    equal(lifeline.word(), "taken 1")
    client.sendall(b"second")
    equal(received(client, 19), b"[answer]firstsecond")
    lifeline.end()


def an_end_reaches_the_client_though_the_sidecar_holds_a_duplicate(paths: Addresses) -> None:
    """Close alone wouldn't."""
    lifeline = Lifeline(paths.echo).ready()
    client, accepted = connected()
    lifeline.hand_over(packet(1), accepted.fileno())
    equal(lifeline.word(), "taken 1")
    client.shutdown(socket.SHUT_WR)
    equal(client.recv(1), b"")
    lifeline.end()


def a_cut_ends_one_connection_and_no_other(paths: Addresses) -> None:
    """The sidecar disconnects the open file that both share."""
    lifeline = Lifeline(paths.echo).ready()
    pairs = [connected() for _ in range(2)]
    for number, (_, accepted) in enumerate(pairs, start=1):
        lifeline.hand_over(packet(number), accepted.fileno())
        equal(lifeline.word(), f"taken {number}")
    (cut, cut_end), (other, _) = pairs
    disconnect(cut_end)
    equal([is_reset(cut)], [True])
    other.sendall(b"alive")
    equal(received(other, 5), b"alive")
    lifeline.end()


def disconnect(end: socket.socket) -> None:
    """``connect(AF_UNSPEC)``, for which Python's sockets have no words."""
    libc = ctypes.CDLL(None, use_errno=True)
    equal(libc.connect(end.fileno(), bytes(16), 16), 0)


def nothing_outlives_its_lifeline(paths: Addresses) -> None:
    """And the next lifeline is told so only then."""
    first = Lifeline(paths.echo).ready()
    clients = []
    for number in range(1, 4):
        client, accepted = connected()
        first.hand_over(packet(number), accepted.fileno())
        equal(first.word(), f"taken {number}")
        clients.append((client, accepted))
    second = Lifeline(paths.echo)
    second.socket.settimeout(0.2)
    with suppress(TimeoutError):
        equal(second.word(), "nothing yet")
    first.end()
    second.socket.settimeout(PATIENCE)
    second.ready()
    equal([is_reset(client) for client, _ in clients], [True] * 3)
    second.end()


def a_packet_without_its_descriptor_is_refused(paths: Addresses) -> None:
    """The kernel drops a descriptor that finds no room."""
    lifeline = Lifeline(paths.echo).ready()
    lifeline.hand_over(packet(7))
    equal(lifeline.word(), "refused 7 descriptors")
    client, accepted = connected()
    lifeline.hand_over(packet(8), accepted.fileno(), accepted.fileno())
    equal(lifeline.word(), "refused 8 descriptors")
    client.settimeout(0.2)
    with suppress(TimeoutError):
        equal(client.recv(1), "nothing yet")
    lifeline.end()


def what_is_no_header_ends_the_lifeline(paths: Addresses) -> None:
    """Loudly: the two sides don't speak the same format."""
    lifeline = Lifeline(paths.echo).ready()
    client, accepted = connected()
    lifeline.hand_over(b"GET / HTTP/1.1\r\n\r\n", accepted.fileno())
    equal(lifeline.word(), "")
    client.close()
    lifeline.end()


def many_come_and_go_while_the_sidecar_keeps_its_duplicates(paths: Addresses) -> None:
    """An ended connection that is still in epoll would call into freed memory."""
    lifeline = Lifeline(paths.echo).ready()
    kept = []
    for number in range(1, 1001):
        client, accepted = connected()
        lifeline.hand_over(packet(number, first=b"x"), accepted.fileno())
        equal(lifeline.word(), f"taken {number}")
        equal(received(client, 1), b"x")
        client.close()
        kept.append(accepted)
    for accepted in kept:
        accepted.close()
    lifeline.end()


def replies_that_nobody_reads_stop_nothing(paths: Addresses) -> None:
    """They wait, and the packets behind them."""
    lifeline = Lifeline(paths.echo).ready()
    count = 3000
    lifeline.socket.settimeout(0)
    sent = 0
    words: list[str] = []
    while len(words) < count:
        try:
            while sent < count:
                lifeline.hand_over(packet(sent + 1))
                sent += 1
        except BlockingIOError:
            pass
        lifeline.socket.settimeout(PATIENCE)
        words.append(lifeline.word())
        lifeline.socket.settimeout(0)
    equal(words, [f"refused {number} descriptors" for number in range(1, count + 1)])
    lifeline.end()


def sink_and_source_do_their_work(paths: Addresses) -> None:
    """What was read already counts."""
    lifeline = Lifeline(paths.sink).ready()
    client, accepted = connected()
    lifeline.hand_over(packet(1, first=b"s" * 1000), accepted.fileno())
    client.sendall(bytes(ACKED_BYTES - 1000))
    equal(client.recv(10), b"k")
    lifeline.end()
    lifeline = Lifeline(paths.source).ready()
    client, accepted = connected()
    lifeline.hand_over(packet(1, answer=b"[answer]"), accepted.fileno())
    equal(received(client, 8), b"[answer]")
    equal(len(received(client, 1 << 20)), 1 << 20)
    lifeline.end()


CHECKS: tuple[Callable[[Addresses], None], ...] = (
    answer_comes_first_then_what_was_read_already,
    an_end_reaches_the_client_though_the_sidecar_holds_a_duplicate,
    a_cut_ends_one_connection_and_no_other,
    nothing_outlives_its_lifeline,
    a_packet_without_its_descriptor_is_refused,
    what_is_no_header_ends_the_lifeline,
    many_come_and_go_while_the_sidecar_keeps_its_duplicates,
    replies_that_nobody_reads_stop_nothing,
    sink_and_source_do_their_work,
)


def main() -> int:
    """Run every check against a backend of its own; the exit code."""
    programs = build()
    failed = 0
    for check in CHECKS:
        with tempfile.TemporaryDirectory() as folder, backend(programs, "handoff", Path(folder)) as addresses:
            paths = Addresses(*(address.removeprefix("handoff:") for address in addresses))
            try:
                check(paths)
            except (AssertionError, OSError) as error:
                failed += 1
                print(f"FAILED  {check.__name__}: {error!r}")
            else:
                print(f"good    {check.__name__}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
