from sidecar.preface.crc32c import crc32c

# RFC 3720, appendix B.4, and the check value that every CRC catalogue gives.
KNOWN = {
    b"": 0x00000000,
    b"123456789": 0xE3069283,
    bytes(32): 0x8A9136AA,
    b"\xff" * 32: 0x62A8AB43,
    bytes(range(32)): 0x46DD794E,
    bytes(reversed(range(32))): 0x113FDB5C,
}


def test_the_published_values_come_out():
    assert {data: crc32c(data) for data in KNOWN} == KNOWN
