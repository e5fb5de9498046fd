"""TLS handshakes in memory: two connections over memory BIOs, and what became of each."""

from __future__ import annotations

from dataclasses import dataclass

from OpenSSL import SSL, crypto

from sidecar.tls.material import ANY_DOMAIN, Credentials, Crls, Material, Roots

BOTH = [SSL.TLS1_2_VERSION, SSL.TLS1_3_VERSION]


def material(leaf, *roots, crls=(), domains=None) -> Material:
    """Of a leaf and the CAs (or certificates) that peers' chains may end at."""
    by_domain = {ANY_DOMAIN: tuple(each.certificate for each in roots)}
    by_domain |= {domain: tuple(each.certificate for each in cas) for domain, cas in (domains or {}).items()}
    return Material(Credentials(leaf.chain, leaf.key), Roots(by_domain), Crls(tuple(crls)))


def plain_client(leaf=None, *roots, version=None) -> SSL.Context:
    """Somebody else's client: OpenSSL's defaults, resumption and all, and at most this version."""
    context = SSL.Context(SSL.TLS_CLIENT_METHOD)
    context.set_min_proto_version(SSL.TLS1_2_VERSION)
    if version is not None:
        context.set_max_proto_version(version)
    if leaf is not None:
        context.use_certificate(leaf.certificate)
        for each in leaf.intermediates:
            context.add_extra_chain_cert(each)
        context.use_privatekey(leaf.key)
    for each in roots:
        context.get_cert_store().add_cert(crypto.X509.from_cryptography(each.certificate))
    if roots:
        context.set_verify(SSL.VERIFY_PEER, lambda connection, certificate, number, depth, ok: bool(ok))
    return context


@dataclass
class Handshake:
    """Both ends, what each has sent, and the error that ended it there, if one did."""

    server: SSL.Connection
    client: SSL.Connection
    server_error: SSL.Error | None = None
    client_error: SSL.Error | None = None
    server_sent: int = 0
    client_sent: int = 0

    @property
    def succeeded(self):
        return self.server_error is None and self.client_error is None

    def carry(self):
        """Move what is queued, both ways. Whether there was anything."""
        sent = _moved(self.client, self.server), _moved(self.server, self.client)
        self.client_sent += sent[0]
        self.server_sent += sent[1]
        return any(sent)

    def received_by_client(self):
        """What the client reads now: bytes, None where nothing has come, or the error."""
        try:
            return self.client.recv(1000)
        except SSL.WantReadError:
            return None
        except SSL.Error as error:
            return error


def shake(server: SSL.Context, client: SSL.Context, *, session=None) -> Handshake:
    """A handshake to its end, with what follows it (tickets, alerts) carried across."""
    found = Handshake(SSL.Connection(server), SSL.Connection(client))
    found.server.set_accept_state()
    found.client.set_connect_state()
    if session is not None:
        found.client.set_session(session)
    open_ends = {"client", "server"}
    moving = True
    while moving:
        for end in sorted(open_ends):
            try:
                getattr(found, end).do_handshake()
                open_ends.remove(end)
            except SSL.WantReadError:
                pass
            except SSL.Error as error:
                setattr(found, f"{end}_error", error)
                open_ends.remove(end)
        moving = found.carry()
    if found.client_error is None:  # in TLS 1.3 the client's part has ended before it is judged
        received = found.received_by_client()
        found.client_error = received if isinstance(received, SSL.Error) else None
    return found


def _moved(source: SSL.Connection, target: SSL.Connection) -> int:
    try:
        data = source.bio_read(1 << 20)
    except SSL.WantReadError:
        return 0
    target.bio_write(data)
    return len(data)
