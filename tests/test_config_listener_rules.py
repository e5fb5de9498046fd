"""Rules for listeners: among each other, and each with what it takes its defaults from."""

from __future__ import annotations

import pytest
from configurations import IDENTITY, LISTENER, examined, said, written

TLS = "tls: {certificate: /c, key: /k, client_ca: /a, allow: ['spiffe://x/y']}"


def wrong(*listeners: str, more: str = "") -> list[str]:
    """What is wrong with these listeners, each given without its braces."""
    items = "".join(f"  - {{{listener}}}\n" for listener in listeners)
    return examined(f"identity: {IDENTITY}\nassignment: {{generation: 7}}\nlisteners:\n{items}{more}\n")[1]


def listener(name: str = "a", listen: str = ":1", upstream: str = "127.0.0.1:1001", more: str = "tls: none") -> str:
    return f"name: {name}, listen: '{listen}', upstream: '{upstream}', {more}"


def test_several_listeners_are_fine() -> None:
    assert wrong(listener("a", ":1"), listener("b", ":2"), listener("c", ":0"), listener("d", ":0")) == []


def test_names_are_unique() -> None:
    assert wrong(listener("a", ":1"), listener("a", ":2"), listener("a", ":3")) == [
        "listeners[1].name",
        "listeners[2].name",
    ]


@pytest.mark.parametrize(("one", "other"), [(":1", ":1"), (":1", "127.0.0.1:1"), ("unix:/a", "unix:/a")])
def test_an_address_is_taken_once(one: str, other: str) -> None:
    assert wrong(listener("a", one), listener("b", other)) == ["listeners[1].listen"]


def test_the_http_servers_need_addresses_of_their_own() -> None:
    assert wrong(listener(listen=":9902")) == ["telemetry.listen"]
    assert wrong(listener(listen=":9901")) == ["admin.listen"]
    assert wrong(listener(), more="telemetry: {listen: ':9901'}") == ["admin.listen"]
    assert wrong(listener(), more="admin: {listen: 'unix:/a'}\ntelemetry: {listen: ':9901'}") == []


def test_the_message_says_who_has_the_address() -> None:
    [line] = said(written(more="telemetry: {listen: ':7101'}"))
    assert line == "telemetry.listen: takes the address of listeners[0].listen: choose another port or path"


def test_a_listener_without_tls_says_so() -> None:
    assert wrong(f"{LISTENER}") == ["listeners[0]"]
    assert wrong(listener(), more=TLS) == []
    assert wrong(f"{LISTENER}", more=TLS) == []
    assert wrong(f"{LISTENER}", more="tls: none") == []


@pytest.mark.parametrize("key", ["certificate", "key", "client_ca", "allow"])
def test_tls_has_what_it_needs(key: str) -> None:
    parts = {"certificate": "/c", "key": "/k", "client_ca": "/a", "allow": "['spiffe://x/y']"}
    block = ", ".join(f"{name}: {value}" for name, value in parts.items() if name != key)
    assert wrong(f"{LISTENER}", more=f"tls: {{{block}}}") == [f"tls.{key}"]
    assert wrong(f"{LISTENER}, tls: {{{block}}}") == [f"listeners[0].tls.{key}"]


def test_dns_names_do_instead_of_spiffe_ids() -> None:
    assert wrong(f"{LISTENER}", more="tls: {certificate: /c, key: /k, client_ca: /a, allow_dns: [x]}") == []


def test_a_listeners_tls_overrides_the_default_key_by_key() -> None:
    assert wrong(f"{LISTENER}, tls: {{min_version: '1.2'}}", more=TLS) == []
    assert wrong(f"{LISTENER}, tls: {{allow: []}}", more=TLS) == ["listeners[0].tls.allow"]


def test_a_hand_over_needs_plain_tcp() -> None:
    assert wrong(listener(upstream="handoff:/x")) == []
    assert wrong(listener(upstream="handoff:/x", more=TLS)) == ["listeners[0].upstream"]


@pytest.mark.parametrize(
    ("tlvs", "fits"),
    [
        ("{identity: '0x05'}", True),
        ("{identity: '0xE6', generation: '0xE5'}", True),
        ("{identity: '0xE6'}", False),
        ("{identity: '0x03'}", False),
        ("{answer: '0x04'}", False),
    ],
)
def test_tlv_types_differ_and_leave_the_headers_own_alone(tlvs: str, fits: bool) -> None:
    assert wrong(listener(more=f"tls: none, tlvs: {tlvs}")) == ([] if fits else ["listeners[0].tlvs"])


def test_a_mode_needs_a_path() -> None:
    assert wrong(listener(more="tls: none, mode: '0600'")) == ["listeners[0].mode"]
    assert wrong(listener(more="tls: none, mode: '0660'")) == []
    assert wrong(listener(listen="unix:/x", more="tls: none, mode: '0600'")) == []


def test_sources_need_addresses() -> None:
    assert wrong(listener(listen="unix:/x", more="tls: none, sources: [10.0.0.0/8]")) == ["listeners[0].sources"]


def test_ctp_settings_need_its_preface() -> None:
    assert wrong(listener(more="tls: none, ctp: {fqdn: x}")) == ["listeners[0].ctp"]
    assert wrong(listener(more="tls: none, ctp: {fqdn: x}, preface: ctp")) == []


def test_a_shadow_wait_needs_a_shadow() -> None:
    assert wrong(listener(), more="shadow_wait: 1s") == ["shadow_wait"]
    assert wrong(listener(), more="shadow_wait: 1s\nenforcement: shadow") == []
    assert wrong(listener(more="tls: none, enforcement: shadow"), more="shadow_wait: 1s") == []


@pytest.mark.parametrize(
    ("listen", "upstream"),
    [
        (":1", "127.0.0.1:1"),
        (":1", "localhost:1"),
        (":1", "[::1]:1"),
        ("127.0.0.1:1", "127.0.0.1:1"),
        ("unix:/a", "unix:/a"),
    ],
)
def test_an_upstream_is_not_the_sidecar_itself(listen: str, upstream: str) -> None:
    assert wrong(listener(listen=listen, upstream=upstream)) == ["listeners[0].upstream"]
    assert wrong(listener("a", listen), listener("b", ":77", upstream)) == ["listeners[1].upstream"]


@pytest.mark.parametrize("upstream", ["10.0.0.1:1", "db:1", "127.0.0.1:2", "unix:/a"])
def test_the_same_port_elsewhere_is_an_upstream_like_any_other(upstream: str) -> None:
    assert wrong(listener(listen="127.0.0.1:1", upstream=upstream)) == []
