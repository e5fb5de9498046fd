import json
import socket
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proxyprotocol.result import ProxyResultIPv4, ProxyResultIPv6, ProxyResultUnix
from proxyprotocol.tlv import ProxyProtocolTLV
from proxyprotocol.v2 import ProxyProtocolV2

from sidecar.preface import proxy_v2 as module
from sidecar.preface.proxy_v2 import (
    FIXED_LENGTH,
    MAX_HEADER_LENGTH,
    TYPE_CRC32C,
    TYPE_NOOP,
    Command,
    Fault,
    Header,
    InetAddress,
    PrefaceError,
    Tlv,
    UnixAddress,
    bytes_wanted,
    check_end,
    frame,
    read_header,
    write_header,
)
from sidecar.preface.tlv import REMEMBERED, REMEMBERED_LENGTH, write_block
from sidecar.reasons import Reason, Refused

VECTORS = json.loads((Path(__file__).parent / "vectors" / "preface.json").read_text())["vectors"]
SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
SOURCE = InetAddress(IPv4Address("192.0.2.10"), 51000)
DESTINATION = InetAddress(IPv4Address("198.51.100.7"), 7101)
UNIX = UnixAddress(b"/run/ctl.sock")


def vectors(result):
    return [pytest.param(v, id=v["id"]) for v in VECTORS if v["expect"]["result"] == result]


def fault_of(data):
    with pytest.raises(PrefaceError) as caught:
        read_header(data)
    return caught.value.fault


def outcome(data):
    try:
        return read_header(data)
    except PrefaceError as error:
        return error.fault


def summary(header):
    return {
        "command": header.command.name,
        "header_len": header.length,
        "src": header.source and str(header.source),
        "dst": header.destination and str(header.destination),
        # A LOCAL header's block is discarded unread.
        "tlvs": None if header.command is Command.LOCAL else [[tlv.type, tlv.value.hex()] for tlv in header.tlvs],
    }


# The published byte strings


@pytest.mark.parametrize("vector", vectors("accept"))
def test_a_good_header_is_read_as_the_vectors_say(vector):
    data, expected = bytes.fromhex(vector["hex"]), vector["expect"]
    header = read_header(data)
    assert summary(header) == {key: expected[key] for key in summary(header)}
    assert data[header.length :].hex() == expected["payload_hex"]


@pytest.mark.parametrize("vector", vectors("accept") + vectors("reject") + vectors("need_more"))
def test_the_verdict_is_certain_at_one_byte_and_not_before(vector):
    data, certain_at = bytes.fromhex(vector["hex"]), vector.get("decidable_at_byte", len(vector["hex"]) // 2 + 1)
    growing = bytearray()
    for length, byte in enumerate(data[: certain_at - 1], start=1):
        growing.append(byte)
        assert read_header(growing) is None, f"decided at {length}"
    if certain_at <= len(data):
        assert outcome(data[:certain_at]) is not None


@pytest.mark.parametrize("vector", [v for v in VECTORS if "decidable_at_byte" in v], ids=lambda v: v["id"])
@pytest.mark.parametrize("trailing", [b"", b"\0", SIGNATURE, b"\xff" * 5000], ids=["none", "nul", "header", "flood"])
def test_what_follows_the_header_changes_nothing(vector, trailing):
    decided = bytes.fromhex(vector["hex"])[: vector["decidable_at_byte"]]
    assert outcome(decided) is not None
    assert outcome(bytearray(decided + trailing)) == outcome(decided)


@pytest.mark.parametrize("vector", vectors("reject"))
def test_a_bad_header_has_the_fault_that_the_vectors_say(vector):
    data, error = bytes.fromhex(vector["hex"]), vector["expect"]["error"]
    if error == "closed_before_preface":
        check_end(data)  # a probe: no fault
    elif vector["eof_after"]:
        assert read_header(data) is None
        with pytest.raises(PrefaceError) as caught:
            check_end(data)
        assert caught.value.fault == error
    else:
        assert fault_of(data) == error


# What the vectors leave out


def fixed(version_command=0x21, family=0x11, length=12):
    return SIGNATURE + bytes([version_command, family]) + length.to_bytes(2, "big")


ADDRESSES = bytes.fromhex("c000020ac6336407c7381bbd")


@pytest.mark.parametrize("family", [0x01, 0x02, 0x10, 0x13, 0x1F, 0x20, 0x23, 0x30, 0x33])
def test_a_family_goes_with_stream_or_datagram_and_unspec_with_neither(family):
    assert fault_of(fixed(family=family)[:14]) is Fault.BAD_TRANSPORT


@pytest.mark.parametrize(
    ("end", "datagram"), [(SOURCE, 0x12), (InetAddress(IPv6Address("2001:db8::1"), 1), 0x22), (UNIX, 0x32)]
)
def test_datagram_is_read_like_stream(end, datagram):
    stream = write_header(source=end, destination=end, tlvs=[Tlv(0xE5, b"a/b/0")])
    assert read_header(stream[:13] + bytes([datagram]) + stream[14:]) == read_header(stream)


def test_a_local_header_is_skipped_whatever_it_carries():
    nonsense = b"\xff" * 40
    header = read_header(fixed(0x20, 0xFF, len(nonsense)) + nonsense)
    assert header == Header(Command.LOCAL, None, None, (), FIXED_LENGTH + len(nonsense))


def test_a_local_header_is_waited_for_and_limited_like_any_other():
    assert read_header(fixed(0x20, 0x00, 10) + bytes(9)) is None
    assert fault_of(fixed(0x20, 0x00, MAX_HEADER_LENGTH - FIXED_LENGTH + 1)) is Fault.HEADER_TOO_LONG


def test_the_earlier_fault_wins_where_there_are_several():
    assert fault_of(fixed(0x3F, 0xFF, 0xFFFF)) is Fault.BAD_VERSION
    assert fault_of(fixed(0x2F, 0xFF, 0xFFFF)) is Fault.BAD_COMMAND
    assert fault_of(fixed(0x21, 0xFF, 0xFFFF)) is Fault.BAD_FAMILY
    assert fault_of(fixed(0x21, 0x1F, 0xFFFF)) is Fault.BAD_TRANSPORT
    assert fault_of(fixed(0x21, 0x11, 0xFFFF)) is Fault.HEADER_TOO_LONG
    assert fault_of(fixed(0x21, 0x11, 3)) is Fault.ADDRESS_BLOCK_SHORT


def header_with(block):
    return fixed(length=len(ADDRESSES) + len(block)) + ADDRESSES + block


CRC_OF_THREE = bytes.fromhex("030003000000")
CRC_OF_FOUR = bytes.fromhex("03000400000000")


def test_broken_tlvs_win_over_checksums_and_lengths_over_repeats():
    assert fault_of(header_with(CRC_OF_THREE + CRC_OF_FOUR + b"\xe5")) is Fault.TLV_HEADER_TRUNCATED
    assert fault_of(header_with(CRC_OF_THREE + CRC_OF_FOUR + b"\xe5\x00\x01")) is Fault.TLV_VALUE_TRUNCATED
    assert fault_of(header_with(CRC_OF_FOUR + CRC_OF_THREE)) is Fault.CRC_BAD_LENGTH
    assert fault_of(header_with(CRC_OF_FOUR + CRC_OF_FOUR)) is Fault.CRC_DUPLICATE
    assert fault_of(header_with(CRC_OF_FOUR)) is Fault.CRC_MISMATCH


@pytest.mark.parametrize("data", [b"\x0a", b"GET", b"PROX\n", b"PRIVMSG", b"\x16\x03\x01", b"\x00"])
def test_who_begins_like_neither_version_sent_no_preface(data):
    assert fault_of(data) is Fault.MISSING


def test_a_first_byte_alone_may_still_become_either():
    assert read_header(b"P") is None
    assert read_header(b"PROXY") is None
    assert read_header(b"\r") is None
    assert read_header(b"") is None


def test_the_signature_is_refused_at_its_first_wrong_byte():
    for position in range(1, len(SIGNATURE)):
        assert fault_of(SIGNATURE[:position] + b"\xff") is Fault.BAD_SIGNATURE


def test_a_bit_flipped_anywhere_breaks_the_checksum():
    data = write_header(source=SOURCE, destination=DESTINATION, tlvs=[Tlv(0xE5, b"a/b/0")], crc=True)
    length_of_the_tlv = (FIXED_LENGTH + 12 + 1, FIXED_LENGTH + 12 + 2)  # there the framing would break first
    for position in set(range(FIXED_LENGTH, len(data) - 7)) - set(length_of_the_tlv):
        flipped = data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]
        assert fault_of(flipped) is Fault.CRC_MISMATCH


def test_the_checksum_covers_padding():
    padded = fixed(length=12 + 4 + 7) + ADDRESSES + bytes([TYPE_NOOP, 0, 1, 0]) + CRC_OF_FOUR
    assert fault_of(padded) is Fault.CRC_MISMATCH


def test_faults_become_verdicts():
    assert PrefaceError(Fault.MISSING).refused == Refused(Reason.PREFACE_MISSING)
    for fault in set(Fault) - {Fault.MISSING}:
        assert PrefaceError(fault).refused == Refused(Reason.PREFACE_MALFORMED, fault.value)


def test_an_end_within_a_header_is_truncation_and_before_it_is_a_probe():
    data = write_header(source=SOURCE, destination=DESTINATION)
    check_end(b"")
    check_end(data)
    check_end(data + b"payload")
    for cut in range(1, len(data)):
        with pytest.raises(PrefaceError) as caught:
            check_end(data[:cut])
        assert caught.value.fault is Fault.TRUNCATED


def test_an_end_after_faulty_bytes_keeps_their_fault():
    with pytest.raises(PrefaceError) as caught:
        check_end(b"GET / HTTP/1.0\r\n\r\n")
    assert caught.value.fault is Fault.MISSING


def test_a_reader_is_told_how_much_it_may_read():
    data = write_header(source=SOURCE, destination=DESTINATION, tlvs=[Tlv(0xE5, b"a/b/0")])
    assert bytes_wanted(b"") == 16
    assert bytes_wanted(data[:10]) == 6
    assert bytes_wanted(data[:16]) == len(data) - 16
    assert bytes_wanted(data) == 0
    assert bytes_wanted(data + b"payload") == 0


# Writing


def test_a_local_header_carries_nothing():
    assert write_header(source=None, destination=None, command=Command.LOCAL) == fixed(0x20, 0x00, 0)
    for carried in ({"source": SOURCE, "destination": SOURCE}, {"tlvs": [Tlv(0xE5, b"")]}, {"crc": True}):
        with pytest.raises(ValueError, match="LOCAL"):
            write_header(**{"source": None, "destination": None, "command": Command.LOCAL} | carried)


def test_nothing_is_written_that_a_receiver_would_refuse():
    room = MAX_HEADER_LENGTH - FIXED_LENGTH - 3
    assert read_header(write_header(source=None, destination=None, tlvs=[Tlv(0xE5, bytes(room))])) is not None
    with pytest.raises(ValueError, match="4096"):
        write_header(source=None, destination=None, tlvs=[Tlv(0xE5, bytes(room + 1))])
    with pytest.raises(ValueError, match="crc=True"):
        write_header(source=None, destination=None, tlvs=[Tlv(TYPE_CRC32C, bytes(4))])


# Properties

ports = st.integers(0, 0xFFFF)
unmapped_v6 = st.ip_addresses(v=6).filter(lambda host: host.ipv4_mapped is None)
paths = st.binary(max_size=108).filter(lambda path: not path.endswith(b"\0"))
ends = st.one_of(
    st.just((None, None)),
    st.tuples(st.builds(InetAddress, st.ip_addresses(v=4), ports), st.builds(InetAddress, st.ip_addresses(v=4), ports)),
    st.tuples(st.builds(InetAddress, unmapped_v6, ports), st.builds(InetAddress, unmapped_v6, ports)),
    st.tuples(st.builds(UnixAddress, paths), st.builds(UnixAddress, paths)),
)
tlvs = st.lists(
    st.builds(Tlv, st.integers(0, 255).filter(lambda kind: kind != TYPE_CRC32C), st.binary(max_size=60)), max_size=12
)
# Bytes that get past the first checks now and then, which bytes at random never would.
nearly_headers = st.builds(
    lambda a, b, length, rest, cut: (SIGNATURE + bytes([a, b]) + length.to_bytes(2, "big") + rest)[:cut],
    st.sampled_from([0x20, 0x21, 0x22, 0x11]),
    st.sampled_from([0x00, 0x11, 0x12, 0x21, 0x31, 0x41, 0x13]),
    st.one_of(st.integers(0, 80), st.integers(0, 0xFFFF)),
    st.binary(max_size=100),
    st.integers(0, 130),
)
anything = st.one_of(st.binary(max_size=64), nearly_headers)


def test_a_header_that_comes_again_is_verified_again():
    """What is remembered of a header is its fixed bytes and its TLVs: the checksum is over the addresses too."""
    data = write_header(source=SOURCE, destination=DESTINATION, tlvs=[Tlv(0xE5, b"a/b/0")], crc=True)
    moved = data[:24] + bytes([data[24] ^ 1]) + data[25:]
    for _ in range(2):
        assert read_header(data).source == SOURCE
        assert fault_of(moved) is Fault.CRC_MISMATCH


def test_strangers_cant_make_it_remember_more_than_a_few_short_headers():
    for number in range(10 * REMEMBERED):
        read_header(write_header(source=None, destination=None, tlvs=[Tlv(0xE5, b"%d" % number)]))
    assert module._remembered.cache_info().currsize == REMEMBERED
    before = module._remembered.cache_info()
    read_header(write_header(source=None, destination=None, tlvs=[Tlv(0xE5, bytes(REMEMBERED_LENGTH))]))
    assert module._remembered.cache_info() == before


def test_a_header_that_comes_again_from_elsewhere_has_its_own_addresses():
    tlvs = [Tlv(0xE5, b"a/b/0")]
    for port in (1, 2, 1):
        end = InetAddress(SOURCE.host, port)
        assert read_header(write_header(source=end, destination=SOURCE, tlvs=tlvs)).source == end


@given(ends, tlvs)
def test_a_block_in_a_frame_is_the_header_that_is_written(ends, tlvs):
    source, destination = ends
    written = write_header(source=source, destination=destination, tlvs=tlvs)
    assert frame(write_block(tlvs), source=source, destination=destination) == written
    assert read_header(written).block == write_block(tlvs)


@given(ends, tlvs, st.booleans(), st.binary(max_size=20))
def test_what_is_written_is_read_back(ends, tlvs, crc, payload):
    data = write_header(source=ends[0], destination=ends[1], tlvs=tlvs, crc=crc)
    header = read_header(data + payload)
    kept = [tlv for tlv in header.tlvs if tlv.type != TYPE_CRC32C]
    assert (header.command, header.source, header.destination) == (Command.PROXY, *ends)
    assert kept == [tlv for tlv in tlvs if tlv.type != TYPE_NOOP]
    assert len(header.tlvs) - len(kept) == crc
    assert header.length == len(data)


@settings(max_examples=500)
@given(anything)
def test_any_bytes_are_a_header_or_unfinished_or_a_preface_error(data):
    header = outcome(data)
    if isinstance(header, Header):
        assert FIXED_LENGTH <= header.length <= len(data)


@given(anything, st.lists(st.integers(0, 130), max_size=6))
def test_the_result_is_the_same_however_the_bytes_are_cut(data, cuts):
    growing, last = bytearray(), None
    for start, stop in zip([0, *sorted(cuts)], [*sorted(cuts), len(data)], strict=True):
        growing += data[start:stop]
        last = outcome(growing)
        if last is not None:
            break
    assert last == outcome(data)


@given(anything, st.binary(min_size=1, max_size=30))
def test_nothing_past_the_header_is_looked_at(data, more):
    header = outcome(data)
    if header is not None:
        assert outcome(data + more) == header


# Agreement with the independent codec of PyPI's proxy-protocol. It reads one TLV of a type, so none is repeated here;
# it knows no LOCAL block to skip and drops UNSPEC's TLVs, so neither is compared, nor are checksums, which it leaves to
# another package.

RESULTS = {4: ProxyResultIPv4, 6: ProxyResultIPv6}
distinct_tlvs = st.dictionaries(
    st.integers(1, 255).filter(lambda kind: kind not in (TYPE_CRC32C, TYPE_NOOP)),
    st.binary(max_size=40),
    max_size=6,
)
ascii_paths = st.binary(max_size=100).map(lambda path: bytes(byte & 0x7F or 0x61 for byte in path))
other_ends = st.one_of(
    st.tuples(st.builds(InetAddress, st.ip_addresses(v=4), ports), st.builds(InetAddress, st.ip_addresses(v=4), ports)),
    st.tuples(st.builds(InetAddress, unmapped_v6, ports), st.builds(InetAddress, unmapped_v6, ports)),
    st.tuples(st.builds(UnixAddress, ascii_paths), st.builds(UnixAddress, ascii_paths)),
)


def as_other_result(ends, values):
    source, destination = ends
    tlv = ProxyProtocolTLV(init=values)
    if isinstance(source, UnixAddress):
        return ProxyResultUnix(source.path.decode(), destination.path.decode(), protocol=socket.SOCK_STREAM, tlv=tlv)
    return RESULTS[source.host.version](
        (source.host, source.port), (destination.host, destination.port), protocol=socket.SOCK_STREAM, tlv=tlv
    )


@given(other_ends, distinct_tlvs)
def test_we_read_what_another_codec_writes(ends, values):
    header = read_header(ProxyProtocolV2().pack(as_other_result(ends, values)))
    assert (header.source, header.destination) == ends
    assert {tlv.type: tlv.value for tlv in header.tlvs if tlv.type != TYPE_CRC32C} == values


@given(other_ends, distinct_tlvs)
def test_another_codec_reads_what_we_write(ends, values):
    tlvs = [Tlv(kind, value) for kind, value in values.items()]
    result = ProxyProtocolV2().unpack(write_header(source=ends[0], destination=ends[1], tlvs=tlvs))
    theirs = as_other_result(ends, values)
    assert (result.source, result.dest, result.protocol) == (theirs.source, theirs.dest, theirs.protocol)
    assert dict(result.tlv) == values
