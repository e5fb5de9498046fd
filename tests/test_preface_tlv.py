"""Blocks of TLVs, and that remembering them changes nothing but the time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.preface import tlv as module
from sidecar.preface.fault import Fault, PrefaceError
from sidecar.preface.tlv import (
    REMEMBERED,
    REMEMBERED_LENGTH,
    TYPE_CRC32C,
    TYPE_NOOP,
    Block,
    Tlv,
    read_block,
    write_block,
)

tlvs = st.lists(st.builds(Tlv, st.integers(0, 255), st.binary(max_size=40)), max_size=8)


def outcome(read, raw):
    try:
        return read(raw)
    except PrefaceError as error:
        return error.fault


def test_a_tlv_is_valid_once_constructed():
    for kind, value in ((-1, b""), (256, b""), (0xE5, bytes(65536))):
        with pytest.raises(ValueError, match="TLV"):
            Tlv(kind, value)


def test_padding_is_left_out_and_a_checksum_is_found_where_it_stands():
    block = read_block(bytes.fromhex("04000200000300040a0b0c0de5000161"))
    assert block == Block((Tlv(TYPE_CRC32C, b"\n\x0b\x0c\r"), Tlv(0xE5, b"a")), ((8, b"\n\x0b\x0c\r"),))


def test_a_block_is_filled_to_its_end_or_faulty():
    assert read_block(b"") == Block((), ())
    assert outcome(read_block, b"\xe5") is Fault.TLV_HEADER_TRUNCATED
    assert outcome(read_block, b"\xe5\x00") is Fault.TLV_HEADER_TRUNCATED
    assert outcome(read_block, b"\xe5\x00\x01") is Fault.TLV_VALUE_TRUNCATED


@given(tlvs)
def test_what_is_written_is_read_back(tlvs):
    assert read_block(write_block(tlvs)).tlvs == tuple(tlv for tlv in tlvs if tlv.type != TYPE_NOOP)


@given(st.one_of(st.binary(max_size=60), tlvs.map(write_block)))
def test_a_block_that_comes_again_is_read_as_the_first_time(raw):
    fresh = outcome(module._read, raw)
    assert outcome(read_block, raw) == outcome(read_block, bytes(memoryview(raw))) == fresh


def test_a_fault_is_found_each_time():
    raw = write_block([Tlv(0xE5, b"a/b/0")])[:-1]
    assert [outcome(read_block, raw) for _ in range(3)] == [Fault.TLV_VALUE_TRUNCATED] * 3


def test_strangers_cant_make_it_remember_more_than_a_few_short_blocks():
    for number in range(10 * REMEMBERED):
        read_block(write_block([Tlv(0xE5, b"%d" % number)]))
    assert module._remembered.cache_info().currsize == REMEMBERED
    long = write_block([Tlv(0xE5, bytes(REMEMBERED_LENGTH))])
    before = module._remembered.cache_info()
    assert read_block(long) == read_block(long)
    assert module._remembered.cache_info() == before
