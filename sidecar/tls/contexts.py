"""OpenSSL's contexts, with everything on and off that a connection's safety rests on.

Theory of operation. A context is made once from files that were found good and never changed (pyOpenSSL freezes it with
its first connection); other files make another one. OpenSSL builds and verifies the peer's chain, with its purpose
(client or server) and its revocation; ``verification`` records why it didn't like one.

- No session is ever resumed: verification would rest on that of the earlier connection, whose certificate may have been
  revoked since. There is no cache, and TLS 1.2 has no tickets. In TLS 1.3, a client that offers a ticket finds that
  nobody knows it and goes through the whole handshake.
- Any certificate of the bundle may end a chain, an intermediate CA's too: what an operator lists is trusted as listed,
  as in Go and Envoy (X509_V_FLAG_PARTIAL_CHAIN). Where its issuer is listed as well, chains go on to that one.
- Where there are CRLs, every certificate of the chain must be covered by one that is in date, the root's own included
  (CRL_CHECK_ALL), as in nginx, HAProxy and Envoy: a revoked intermediate CA would be let through otherwise. So with
  CRLs an intermediate in the bundle needs its root beside it, whose list covers it.
- Exactly the own file's certificates are sent. Left to itself, OpenSSL completes a lone certificate with whatever it
  finds among the peers' roots, anew for each handshake (SSL_MODE_NO_AUTO_CHAIN).
- No CA is named to the client: some clients then send no certificate at all, and the reason would be lost.

Owns these settings. ``rotation`` makes a server's contexts in a thread, a dialler one for itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, unique
from typing import Final

from OpenSSL import SSL, crypto

from sidecar.errors import SidecarError
from sidecar.tls.material import Credentials, Crls, Material, Roots
from sidecar.tls.verification import record_fault

MAX_DEPTH: Final = 10  # CAs between a peer's certificate and its root

_MODE_NO_AUTO_CHAIN: Final = 0x8  # openssl/ssl.h; pyOpenSSL has no name for it
_OPTIONS: Final = SSL.OP_NO_TICKET | SSL.OP_NO_RENEGOTIATION | SSL.OP_NO_COMPRESSION
_CRL_CHECK: Final = crypto.X509StoreFlags.CRL_CHECK | crypto.X509StoreFlags.CRL_CHECK_ALL


@unique
class TlsVersion(Enum):
    """The lowest protocol version that is spoken; its value is OpenSSL's number."""

    TLS_1_2 = SSL.TLS1_2_VERSION
    TLS_1_3 = SSL.TLS1_3_VERSION


class ContextRefused(SidecarError):
    """OpenSSL doesn't take a certificate, key, root or CRL that could be read: a key that is too short, ..."""


def check_credentials(own: Credentials) -> None:
    """Look whether OpenSSL would serve *own*. Raises ContextRefused."""
    with _translated():
        _show(SSL.Context(SSL.TLS_METHOD), own)


def check_roots(roots: Roots) -> None:
    """Look whether OpenSSL takes *roots*. Raises ContextRefused."""
    with _translated():
        _list(crypto.X509Store(), roots, Crls())


def check_crls(crls: Crls) -> None:
    """Look whether OpenSSL takes *crls*. Raises ContextRefused."""
    with _translated():
        _list(crypto.X509Store(), Roots({}), crls)


def server_context(material: Material, min_version: TlsVersion = TlsVersion.TLS_1_3) -> SSL.Context:
    """A context for accepting peers who must show a certificate. Raises ContextRefused."""
    return _context(SSL.TLS_SERVER_METHOD, material, min_version)


def client_context(material: Material, min_version: TlsVersion = TlsVersion.TLS_1_3) -> SSL.Context:
    """A context for dialling a peer and showing it the own certificate. Raises ContextRefused."""
    return _context(SSL.TLS_CLIENT_METHOD, material, min_version)


def _context(method: int, material: Material, min_version: TlsVersion) -> SSL.Context:
    with _translated():
        context = SSL.Context(method)
        context.set_min_proto_version(min_version.value)
        context.set_options(_OPTIONS)
        context.set_session_cache_mode(SSL.SESS_CACHE_OFF)
        context.set_mode(SSL.MODE_RELEASE_BUFFERS | _MODE_NO_AUTO_CHAIN)
        _show(context, material.own)
        _trust(context, material)
    return context


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except (SSL.Error, crypto.Error) as error:
        raise ContextRefused(f"OpenSSL refuses it: {_reasons(error)}") from error


def _show(context: SSL.Context, own: Credentials) -> None:
    first, *above = own.chain
    context.use_certificate(first)
    for certificate in above:
        context.add_extra_chain_cert(certificate)
    context.use_privatekey(own.key)
    context.check_privatekey()


def _trust(context: SSL.Context, material: Material) -> None:
    context.set_verify(SSL.VERIFY_PEER | SSL.VERIFY_FAIL_IF_NO_PEER_CERT, record_fault)
    context.set_verify_depth(MAX_DEPTH)
    store = context.get_cert_store()
    if store is None:
        raise ContextRefused("OpenSSL has no memory for certificates")
    _list(store, material.roots, material.crls)


def _list(store: crypto.X509Store, roots: Roots, crls: Crls) -> None:
    for root in roots.certificates:
        store.add_cert(crypto.X509.from_cryptography(root))
    for crl in crls.lists:
        store.add_crl(crl)
    if roots.has_intermediate_without_root:
        store.set_flags(crypto.X509StoreFlags.PARTIAL_CHAIN)
    if crls.lists:
        store.set_flags(_CRL_CHECK)


def _reasons(error: Exception) -> str:
    queue = error.args[0] if error.args else []
    return "; ".join(reason for _library, _function, reason in queue) or "it gives no reason"
