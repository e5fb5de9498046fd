"""A TLS connection as a trio stream, over any other stream.

Owns the dance between OpenSSL, which reads and writes memory only, and the transport, which trio awaits. Chooses no
certificate, protocol or peer: the connection's context does, and who the peer is, is read off ``connection`` once the
handshake is done. Called by the dialler's side, and by tests for both. The sidecar's own side isn't its business: there
the relay moves bytes on the descriptor.

How it works. OpenSSL is touched, without an await, by one of four operations: handshake, send, receive, end. What that
leaves in the outgoing memory is taken out and sent by ``_flush`` alone, under a lock that is taken in the order of
arrival, since ciphertext makes sense in one order only. What comes in is fed to OpenSSL by ``_feed`` alone, which only
the task that receives calls.

* Receiving never sends. Where OpenSSL wants to say something because of what it has read (the answer to a KeyUpdate),
  that may wait for the next send (RFC 8446, section 4.6.3), and two peers that both send first can't block each other.
  For the same reason a TLS 1.3 server doesn't send its session tickets when the handshake is over, but with the first
  bytes that it sends: the client may be sending too, and read nothing yet.
* A send whose ciphertext didn't reach the transport whole (it broke, or the task was cancelled) leaves a torn stream.
  From then on sending is broken; receiving isn't, since an alert that says why may still be there to read.
* A failure is final and remembered: OpenSSL itself has no words the second time.
"""

from __future__ import annotations

import operator
from contextlib import suppress
from types import TracebackType
from typing import Final

import trio
from OpenSSL import SSL

from sidecar.tls.errors import TlsError

RECORD: Final = 16 * 1024  # the most that one record carries (RFC 8446, section 5.1)
ALERT_WITHIN: Final = 1.0  # seconds for an alert to leave: a peer that doesn't read isn't waited for longer

_CHUNK: Final = 64 * 1024  # ciphertext at a time


class TlsStream(trio.abc.HalfCloseableStream):
    """A stream whose bytes travel inside TLS. ``do_handshake`` comes first.

    Ends are told apart: ``receive_some`` returns ``b""`` for the peer's close_notify alone. Where the transport ends
    without one it raises BrokenResourceError: what came may not be all. Where TLS is what broke, the error's
    ``__cause__`` is a TlsError.

    Half-close is TLS 1.3's (RFC 8446, section 6.1): after ``send_eof`` the peer's bytes go on coming. With a TLS 1.2
    peer ``send_eof`` sends the same close_notify, but that protocol tells the peer to drop what it still had to send
    and to close too (RFC 5246, section 7.2.1). OpenSSL leaves that to the application, others do as told: there, an
    end of sending may be the end of receiving.

    Attributes:
        transport: What carries the ciphertext. It is closed with the stream.
        connection: OpenSSL's side of it, to read the peer's certificate off. Not to be sent or received on.
    """

    def __init__(self, transport: trio.abc.Stream, connection: SSL.Connection, *, server_side: bool = False) -> None:
        """Take over *transport*, and *connection*: one with memory in place of a socket."""
        self.transport: Final = transport
        self.connection: Final = connection
        self._server_side = server_side
        if server_side:
            connection.set_accept_state()
        else:
            connection.set_connect_state()
        self._sender, self._receiver = _OneTask("sends on"), _OneTask("receives from")
        self._order = trio.StrictFIFOLock()
        self._failure: TlsError | None = None
        self._established = False
        self._torn = False  # ciphertext was taken out that the transport hasn't taken, or not whole
        self._ended = False
        self._closed = False

    async def do_handshake(self) -> None:
        """Shake hands; does nothing when that is done. The caller sets the deadline.

        A TLS 1.3 client is through before the server has looked at its certificate: that a server took it shows only in
        the first byte received.

        Raises:
            TlsError: The peers don't get on. The other one has been told why.
            trio.BrokenResourceError: The transport broke.
        """
        with self._sender, self._receiver:
            self._check_usable()
            await trio.lowlevel.checkpoint()
            while not self._established:
                try:
                    self.connection.do_handshake()
                except SSL.WantReadError:
                    await self._flush()
                    await self._feed()
                except SSL.Error as error:
                    raise await self._fail(TlsError.of(error, ended="the peer closed in mid-handshake")) from error
                else:
                    self._established = True
            if not (self._server_side and self.connection.get_protocol_version() >= SSL.TLS1_3_VERSION):
                await self._flush()

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of *data*, a record at a time, so that no more than one waits encrypted."""
        with self._sender:
            self._check_established()
            if self._ended:
                raise trio.ClosedResourceError("send_eof() was called")
            await trio.lowlevel.checkpoint()
            rest = memoryview(data)
            while rest:
                try:
                    taken = self.connection.send(rest[:RECORD])
                except SSL.Error as error:
                    failure = await self._fail(TlsError.of(error))
                    raise trio.BrokenResourceError(str(failure)) from failure
                await self._flush()
                rest = rest[taken:]

    async def wait_send_all_might_not_block(self) -> None:
        """Wait until the transport might take bytes at once."""
        with self._sender:
            self._check_established()
            async with self._order:
                await self.transport.wait_send_all_might_not_block()

    async def send_eof(self) -> None:
        """Send close_notify; receiving goes on. See the class for what a TLS 1.2 peer makes of it."""
        with self._sender:
            self._check_established()
            await trio.lowlevel.checkpoint()
            self._end()
            await self._flush()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """The next bytes, those of one record at most; ``b""`` once the peer has sent close_notify."""
        size = RECORD if max_bytes is None else min(operator.index(max_bytes), RECORD)
        if size < 1:
            raise ValueError("max_bytes must be 1 or more")
        with self._receiver:
            self._check_established()
            await trio.lowlevel.checkpoint()
            while True:
                try:
                    return self.connection.recv(size)
                except SSL.ZeroReturnError:
                    return b""
                except SSL.WantReadError:
                    await self._feed()
                except SSL.Error as error:
                    failure = await self._fail(TlsError.of(error))
                    raise trio.BrokenResourceError(str(failure)) from failure

    async def aclose(self) -> None:
        """Send close_notify, wait for none, and close the transport. Does nothing when closed.

        No close_notify follows a send that is under way, was cut short or failed: to the peer, which hasn't got all,
        that would be a clean end.
        """
        if self._closed:
            await trio.lowlevel.checkpoint()
            return
        in_order = self._established and self._failure is None and not self._torn and not self._sender.busy
        self._closed = True
        try:
            if in_order:
                with suppress(trio.BrokenResourceError):
                    self._end()
                    await self._flush()
        except BaseException:
            await trio.aclose_forcefully(self.transport)
            raise
        await self.transport.aclose()

    async def _flush(self) -> None:
        """Send what OpenSSL has written. Raises trio's stream errors."""
        async with self._order:
            if self._torn:
                raise trio.BrokenResourceError("an earlier send was cut short")
            if ciphertext := self._written():
                self._torn = True
                await self.transport.send_all(ciphertext)
                self._torn = False

    def _written(self) -> bytes:
        chunks = []
        with suppress(SSL.WantReadError):  # its way to say that there is no more
            while True:
                chunks.append(self.connection.bio_read(_CHUNK))
        return b"".join(chunks)

    async def _feed(self) -> None:
        """Give OpenSSL what comes next, or that nothing comes any more. Raises trio's stream errors."""
        if ciphertext := await self.transport.receive_some(_CHUNK):
            self.connection.bio_write(ciphertext)
        else:
            self.connection.bio_shutdown()

    def _end(self) -> None:
        if not self._ended:
            self._ended = True
            try:
                self.connection.shutdown()
            except SSL.Error as error:
                raise trio.BrokenResourceError("close_notify can't be sent") from TlsError.of(error)

    async def _fail(self, failure: TlsError) -> TlsError:
        """Remember *failure*, and let the alert go that tells the peer why, if it gets through soon."""
        self._failure = failure
        with trio.move_on_after(ALERT_WITHIN), suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            await self._flush()
        return failure

    def _check_usable(self) -> None:
        if self._closed:
            raise trio.ClosedResourceError("this TLS stream was closed")
        if self._failure is not None:
            raise trio.BrokenResourceError(str(self._failure)) from self._failure

    def _check_established(self) -> None:
        self._check_usable()
        if not self._established:
            raise RuntimeError("call do_handshake() first")


class _OneTask:
    """Tells a second task that a first one is still at it, as trio's own streams do."""

    def __init__(self, doing: str) -> None:
        self.busy = False
        self._doing = doing

    def __enter__(self) -> None:
        if self.busy:
            raise trio.BusyResourceError(f"another task {self._doing} this TLS stream already")
        self.busy = True

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.busy = False
