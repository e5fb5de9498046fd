"""Addresses and networks as the configuration writes them."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.config.addresses import (
    Handoff,
    HostPort,
    UnixPath,
    is_local,
    overlap,
    parse_listen,
    parse_network,
    parse_upstream,
)

LISTEN = {
    ":7101": HostPort(None, 7101),
    ":0": HostPort(None, 0),
    "127.0.0.1:7101": HostPort("127.0.0.1", 7101),
    "[::1]:7101": HostPort("::1", 7101),
    "[::]:65535": HostPort("::", 65535),
    "[fe80::1%eth0]:7101": HostPort("fe80::1%eth0", 7101),
    "localhost:7101": HostPort("localhost", 7101),
    "db_1.internal-2:1": HostPort("db_1.internal-2", 1),
    "unix:/run/sidecar.sock": UnixPath("/run/sidecar.sock"),
}


@pytest.mark.parametrize(("text", "address"), LISTEN.items())
def test_an_address_is_read_and_spells_itself_as_it_was_written(text: str, address: HostPort | UnixPath) -> None:
    assert parse_listen(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text",
    [
        *("", ":", "7101", "localhost", "host:", ":07101", ":65536", ":-1", ":+1", ": 1", ":1 ", ":٣", ":1_0"),
        *("::1:7101", "[::1]", "[::1]7101", "[]:7101", "[127.0.0.1]:7101", "[::g]:7101", "[::1:7101"),
        *("*:7101", "-a:1", "a..b:1", "a b:1", f"{'a' * 64}:1", f"{'a.' * 127}a:1"),
        *("127.1:7101", "0177.0.0.1:7101", "256.0.0.1:7101", "1.2.3.4.5:1", "0x7f000001:1", "10.0.0.0/8:1"),
        *("unix:", "unix:run/x", "unix://run/x", "unix:@x", "unix:/a\0b", f"unix:/{'x' * 107}", "tcp:host:1"),
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"must|unusable"):
        parse_listen(text)


@pytest.mark.parametrize("text", ["http://127.0.0.1:2101", "tcp://db:1", "https://[::1]:7101/", "http://db"])
@pytest.mark.parametrize("parse", [parse_listen, parse_upstream])
def test_an_address_has_no_scheme(text: str, parse: Callable[[str], object]) -> None:
    with pytest.raises(ValueError, match="must be host:port, without http://"):
        parse(text)


def test_a_socket_path_is_measured_in_bytes() -> None:
    assert UnixPath(f"/{'x' * 106}")
    with pytest.raises(ValueError, match="107 bytes"):
        UnixPath(f"/{'ä' * 60}")


def test_an_upstream_may_be_handed_over() -> None:
    assert parse_upstream("handoff:/run/x.sock") == Handoff("/run/x.sock")
    assert str(Handoff("/run/x.sock")) == "handoff:/run/x.sock"


@pytest.mark.parametrize("text", [":2101", "127.0.0.1:0", "2101", "localhost"])
def test_an_upstream_is_one_place(text: str) -> None:
    with pytest.raises(ValueError, match="where to"):
        parse_upstream(text)


@given(st.text())
def test_any_other_text_raises_nothing_but_value_error(text: str) -> None:
    for parse in (parse_listen, parse_upstream, parse_network):
        try:
            parse(text)
        except ValueError as error:
            assert str(error)  # noqa: PT017 - both outcomes are right


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (":1", ":1"),
        (":1", "127.0.0.1:1"),
        (":1", "[::1]:1"),
        (":1", "localhost:1"),
        ("0.0.0.0:1", "127.0.0.1:1"),
        ("[::]:1", "[::1]:1"),
        ("[::1]:1", "[0:0::1]:1"),
        ("localhost:1", "LOCALHOST:1"),
        ("unix:/a", "unix:/a"),
    ],
)
def test_addresses_that_cant_both_be_bound_overlap(one: str, other: str) -> None:
    assert overlap(parse_listen(one), parse_listen(other))
    assert overlap(parse_listen(other), parse_listen(one))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (":1", ":2"),
        (":0", ":0"),
        ("127.0.0.1:1", "127.0.0.2:1"),
        ("0.0.0.0:1", "[::1]:1"),
        ("[::]:1", "127.0.0.1:1"),
        ("a:1", "b:1"),
        ("unix:/a", "unix:/b"),
        ("unix:/a", ":1"),
    ],
)
def test_other_addresses_dont_overlap(one: str, other: str) -> None:
    assert not overlap(parse_listen(one), parse_listen(other))
    assert not overlap(parse_listen(other), parse_listen(one))


@pytest.mark.parametrize("text", ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1", "unix:/a"])
def test_loopback_and_paths_are_local(text: str) -> None:
    assert is_local(parse_listen(text))


@pytest.mark.parametrize("text", [":1", "0.0.0.0:1", "10.0.0.1:1", "[::]:1", "db:1"])
def test_everything_else_may_be_elsewhere(text: str) -> None:
    assert not is_local(parse_listen(text))


@pytest.mark.parametrize("text", ["10.0.0.0/8", "0.0.0.0/0", "fd00::/8", "::1/128"])
def test_a_network_is_read(text: str) -> None:
    assert parse_network(text) == ip_network(text)


def test_one_address_is_a_network() -> None:
    assert parse_network("192.0.2.1") == ip_network("192.0.2.1/32")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "10",
        "10.0.0.0/",
        "10.0.0.0/33",
        "10.0.0.0/08",
        "10.0.0.0/255.0.0.0",
        "10.0.0.0/0.0.0.255",
        "fe80::%1/64",
        "x",
    ],
)
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a network"):
        parse_network(text)


def test_a_network_has_no_bits_beyond_its_prefix() -> None:
    with pytest.raises(ValueError, match="bits set beyond"):
        parse_network("10.0.0.1/8")


def test_a_mapped_network_would_match_nobody() -> None:
    with pytest.raises(ValueError, match="write it as an IPv4 network"):
        parse_network("::ffff:10.0.0.0/104")
