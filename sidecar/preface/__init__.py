"""The preface: the bytes that carry a claim before any application byte, and the answer to them.

The format alone is docs/wire.md. Here it is bytes to values and back, and nothing else: no sockets, no clock, no log.

proxy_v2    one PROXY protocol v2 header: reads it from what has arrived so far, writes it
tlv         a header's block of TLVs
fault       what is wrong with bytes that should be a header
address     the two ends that a header states
claim       what a header's TLVs claim: read for the sidecar, written for a dialler
answer      the verdict as a header: written for the sidecar, read for a dialler
crc32c      the checksum that a header may carry
printable   bytes from the wire as text for people
"""
