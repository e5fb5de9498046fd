"""A controller that speaks TLS, over a plain socket in the test's hands, and the files of a listener with TLS."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from OpenSSL import SSL

from sidecar.preface.answer import Answer, read_answer
from sidecar.preface.claim import Claim
from sidecar.preface.proxy_v2 import bytes_wanted, read_header
from tests.certificates import CA, Leaf
from tests.names import CLAIM, preface

ALLOW = "spiffe://example.org/prod-eu/controller/*"
ROOT = CA()
SECONDS = 20


def tls_block(folder: Path, leaf: Leaf, *, roots: bytes = ROOT.pem, **keys: Any) -> dict[str, Any]:
    """Files with *leaf*'s certificate and key, and the ``tls`` block that names them; *keys* are added to it."""
    write_pair(folder, leaf)
    (folder / "ca.crt").write_bytes(roots)
    files = {"certificate": folder / "tls.crt", "key": folder / "tls.key", "client_ca": folder / "ca.crt"}
    return {name: str(path) for name, path in files.items()} | {"allow": [ALLOW]} | keys


def write_pair(folder: Path, leaf: Leaf) -> None:
    """Put *leaf*'s certificate and key there, one after the other."""
    (folder / "tls.crt").write_bytes(leaf.chain_pem)
    (folder / "tls.key").write_bytes(leaf.key_pem)


class TlsClient:
    """One connection. Its methods block, for ``SECONDS`` at most."""

    def __init__(self, sock: socket.socket, leaf: Leaf | None, *, version: int = SSL.TLS1_3_VERSION) -> None:
        context = SSL.Context(SSL.TLS_CLIENT_METHOD)
        context.set_max_proto_version(version)
        if leaf is not None:
            context.use_certificate(leaf.certificate)
            for each in leaf.intermediates:
                context.add_extra_chain_cert(each)
            context.use_privatekey(leaf.key)
        # OpenSSL reads the descriptor itself: it has to block, and not for ever.
        sock.setblocking(True)
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            sock.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", SECONDS, 0))
        self.sock = sock
        self.tls = SSL.Connection(context, sock)
        self.tls.set_connect_state()
        self.tls.do_handshake()

    @property
    def serial(self) -> int:
        """Of the certificate that it was shown."""
        certificate = self.tls.get_peer_certificate(as_cryptography=True)
        assert certificate is not None
        return certificate.serial_number

    def state(self, claim: Claim = CLAIM, *, payload: bytes = b"") -> Answer:
        """Send the preface, and *payload* in the same record. The answer."""
        self.tls.sendall(preface(claim, answer=True) + payload)
        return self.answer()

    def answer(self) -> Answer:
        """The next answer."""
        buffer = bytearray()
        while (header := read_header(buffer)) is None:
            buffer += self.tls.recv(bytes_wanted(buffer))
        return read_answer(header)

    def receive(self, size: int) -> bytes:
        """Exactly so many bytes."""
        data = b""
        while len(data) < size:
            data += self.tls.recv(size - len(data))
        return data

    def ending(self) -> str:
        """How the stream ends from here: ``close_notify``, ``truncated`` or ``reset``; what comes before is skipped."""
        try:
            while True:
                self.tls.recv(65536)
        except SSL.ZeroReturnError:
            return "close_notify"
        except SSL.SysCallError as error:
            return "truncated" if error.args[0] == -1 else "reset"

    def close(self) -> None:
        """End the stream in order, and the connection."""
        with suppress(SSL.Error):
            self.tls.shutdown()
        self.sock.close()


@contextmanager
def connected(sock: socket.socket, leaf: Leaf | None, **more: Any) -> Iterator[TlsClient]:
    """A connection with TLS; it is closed after the block."""
    with sock:
        yield TlsClient(sock, leaf, **more)
