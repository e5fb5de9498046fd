from ipaddress import IPv4Address, IPv6Address, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.preface.address import (
    ADDRESS_LENGTH,
    Family,
    InetAddress,
    UnixAddress,
    pack_addresses,
    unpack_addresses,
)

SOURCE = InetAddress(IPv4Address("192.0.2.10"), 51000)
DESTINATION = InetAddress(IPv4Address("198.51.100.7"), 7101)
UNIX = UnixAddress(b"/run/ctl.sock")


@pytest.mark.parametrize(
    ("address", "text"),
    [
        (InetAddress(IPv4Address("192.0.2.10"), 51000), "192.0.2.10:51000"),
        (InetAddress(IPv6Address("2001:db8::10"), 0), "[2001:db8::10]:0"),
        (UnixAddress(b"/run/ctl.sock"), "unix:/run/ctl.sock"),
        (UnixAddress(b"\0abstract\n"), r"unix:\x00abstract\x0a"),
        (UnixAddress(b""), "unix:"),
    ],
)
def test_addresses_are_shown_in_one_line(address, text):
    assert str(address) == text


@pytest.mark.parametrize("host", ["192.0.2.10", "2001:db8::10", "::ffff:192.0.2.10", "fe80::1%eth0"])
def test_an_end_is_what_the_kernel_names_so_however_often(host):
    for port in (1, 2, 1):
        assert InetAddress.parse(host, port) == InetAddress(ip_address(host), port)
    with pytest.raises(ValueError, match="localhost"):
        InetAddress.parse("localhost", 1)


def test_hosts_of_both_versions_with_the_same_number_stay_apart():
    """What is remembered of one must not be taken for the other."""
    for host, text in ((IPv4Address(1), "0.0.0.1:1"), (IPv6Address(1), "[::1]:1"), (IPv4Address(1), "0.0.0.1:1")):
        assert str(InetAddress(host, 1)) == text


def test_values_are_valid_once_constructed():
    for port in (-1, 65536):
        with pytest.raises(ValueError, match="port"):
            InetAddress(IPv4Address("192.0.2.1"), port)
    for path in (b"a" * 109, b"/run/x\0"):
        with pytest.raises(ValueError, match="Unix address"):
            UnixAddress(path)


def test_ipv4_on_a_dual_stack_socket_is_written_as_ipv4():
    source = InetAddress(IPv6Address("::ffff:192.0.2.10"), 51000)
    destination = InetAddress(IPv6Address("::ffff:198.51.100.7"), 7101)
    assert unpack_addresses(*pack_addresses(source, destination)) == (SOURCE, DESTINATION)


def test_one_mapped_address_beside_a_real_ipv6_one_stays_ipv6():
    source, destination = InetAddress(IPv6Address("::ffff:192.0.2.10"), 1), InetAddress(IPv6Address("2001:db8::1"), 2)
    assert unpack_addresses(*pack_addresses(source, destination)) == (source, destination)


@pytest.mark.parametrize(
    ("source", "destination"),
    [(SOURCE, None), (None, SOURCE), (SOURCE, UNIX), (SOURCE, InetAddress(IPv6Address("2001:db8::1"), 1))],
)
def test_addresses_of_different_families_are_refused(source, destination):
    with pytest.raises(ValueError, match="different families"):
        pack_addresses(source, destination)


ports = st.integers(0, 0xFFFF)
paths = st.binary(max_size=108).filter(lambda path: not path.endswith(b"\0"))
same_family = st.one_of(
    st.just((None, None)),
    *(
        st.tuples(end, end)
        for end in (
            st.builds(InetAddress, st.ip_addresses(v=4), ports),
            st.builds(InetAddress, st.ip_addresses(v=6).filter(lambda host: host.ipv4_mapped is None), ports),
            st.builds(UnixAddress, paths),
        )
    ),
)


@given(same_family)
def test_ends_of_one_family_come_back_as_they_were(ends):
    family, block = pack_addresses(*ends)
    assert len(block) == ADDRESS_LENGTH[family]
    assert unpack_addresses(family, block) == ends


@given(st.sampled_from(Family), st.binary(min_size=216, max_size=216))
def test_any_block_of_the_right_length_states_two_ends(family, block):
    source, destination = unpack_addresses(family, block[: ADDRESS_LENGTH[family]])
    assert (source is None) == (destination is None) == (family is Family.UNSPEC)
