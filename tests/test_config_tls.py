"""What the two TLS blocks come to."""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path

import pytest
from configurations import LISTENER, examined, loaded, written

from sidecar.config.listener_model import TlsSection
from sidecar.config.tls import Tls, resolve_tls, tls_of
from sidecar.dns_names import DnsPattern
from sidecar.spiffe import Pattern

PLAIN = f"{LISTENER}, tls: none"
FILES = "certificate: /c, key: /k, client_ca: /a"


def test_a_listeners_tls_is_the_default_with_its_own_keys_over_it() -> None:
    common = "tls: {certificate: /c, key: /k, client_ca: /a, allow: ['spiffe://x/y'], min_version: '1.2'}"
    case, _ = examined(written(listener=f"{LISTENER}, tls: {{key: /own, allow_dns: [d]}}", more=common))
    tls = tls_of(case.file, case.file.listeners[0])
    assert isinstance(tls, TlsSection)
    assert (tls.certificate, tls.key, tls.min_version) == ("/c", "/own", "1.2")
    assert (tls.allow, tls.allow_dns) == (("spiffe://x/y",), ("d",))


def test_a_listener_without_tls_stays_without_beside_a_default() -> None:
    case, _ = examined(written(listener=PLAIN, more="tls: {certificate: /c}"))
    assert tls_of(case.file, case.file.listeners[0]) == "none"


def test_what_a_listener_serves_and_takes_for_proof_is_a_value() -> None:
    block = f"{{{FILES}, crl: /r, allow: ['spiffe://x/y/*'], allow_dns: [c.x.org], trust_domains: {{z: /z, b.c: /b}}}}"
    (listener,) = loaded(written(listener=f"{LISTENER}, tls: {block}")).listeners
    assert listener.tls == Tls(
        certificate=Path("/c"),
        key=Path("/k"),
        client_ca=Path("/a"),
        trust_domains=(("b.c", Path("/b")), ("z", Path("/z"))),
        crl=Path("/r"),
        speaks_1_2=False,
        ends_with_certificate=False,
    )
    assert listener.allow == (Pattern.parse("spiffe://x/y/*"),)
    assert listener.allow_dns == (DnsPattern.parse("c.x.org"),)


def test_without_tls_there_is_nothing_to_serve_and_nobody_to_allow() -> None:
    (listener,) = loaded(written(listener=PLAIN)).listeners
    assert (listener.tls, listener.allow, listener.allow_dns) == (None, (), ())


def test_tls_1_2_and_the_end_with_the_certificate_are_asked_for() -> None:
    more = f"tls: {{{FILES}, allow: ['spiffe://x/y'], min_version: '1.2', close_on_certificate_expiry: true}}"
    (listener,) = loaded(written(listener=LISTENER, more=more)).listeners
    assert listener.tls is not None
    assert (listener.tls.speaks_1_2, listener.tls.ends_with_certificate, listener.tls.crl) == (True, True, None)


def test_a_block_that_got_past_the_checks_with_a_file_missing_is_a_fault_of_ours() -> None:
    with pytest.raises(TypeError, match="file missing"):
        resolve_tls(TlsSection(certificate="/c", key="/k"))


def test_load_balancers_are_the_only_senders_where_there_are_any() -> None:
    sources = "sources: [203.0.113.0/24]"
    (listener,) = loaded(written(listener=f"{PLAIN}, {sources}, outer_proxy: {{from: [10.0.0.0/8]}}")).listeners
    assert listener.senders == (ip_network("10.0.0.0/8"),)
    (listener,) = loaded(written(listener=f"{PLAIN}, {sources}")).listeners
    assert listener.senders == (ip_network("203.0.113.0/24"),)
