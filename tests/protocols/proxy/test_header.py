"""The PROXY header: a prefix is incomplete, a whole header is decoded, other bytes are rejected."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.proxy.header import V1_BYTES_MAX, V2, V2_BYTES_MAX, Header, begins, crc32c, read

IP4 = bytes((10, 0, 0, 1, 10, 0, 0, 2)) + struct.pack(">HH", 56_324, 1_883)
IP6 = bytes(15) + b"\x01" + bytes(15) + b"\x02" + struct.pack(">HH", 1, 65_535)
MAPPED = bytes(10) + b"\xff\xff\x0a\x00\x00\x01" + bytes(10) + b"\xff\xff\x0a\x00\x00\x02" + struct.pack(">HH", 7, 8)


def v2(command: int, family: int, body: bytes, version: int = 2) -> bytes:
    """A header of version 2."""
    return V2 + bytes((version << 4 | command, family)) + struct.pack(">H", len(body)) + body


def tlv(kind: int, value: bytes) -> bytes:
    """One TLV of a header."""
    return bytes((kind,)) + struct.pack(">H", len(value)) + value


def summed(body: bytes) -> bytes:
    """A header with a CRC32c TLV after `body`."""
    blank = v2(1, 0x11, body + tlv(3, bytes(4)))
    return blank[:-4] + struct.pack(">I", crc32c(blank))


EXTRAS = tlv(2, b"example.org") + tlv(0x20, b"\x01" + bytes(4) + tlv(0x21, b"TLSv1.3"))
GOOD = [
    (b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n", ("192.168.0.1", 56_324), ("192.168.0.11", 443)),
    (b"PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n", ("255.255.255.255", 65_535), ("255.255.255.255", 65_535)),
    (b"PROXY TCP6 2001:db8::1 ::1 0 1\r\n", ("2001:db8::1", 0), ("::1", 1)),
    (b"PROXY UNKNOWN\r\n", None, None),
    (b"PROXY UNKNOWN ffff:f...f:ffff ffff:f...f:ffff 65535 65535\r\n", None, None),
    (v2(1, 0x11, IP4), ("10.0.0.1", 56_324), ("10.0.0.2", 1_883)),
    (v2(1, 0x12, IP4), ("10.0.0.1", 56_324), ("10.0.0.2", 1_883)),
    (v2(1, 0x21, IP6), ("::1", 1), ("::2", 65_535)),
    (v2(1, 0x22, MAPPED), ("10.0.0.1", 7), ("10.0.0.2", 8)),
    (v2(1, 0x31, bytes(216)), None, None),
    (v2(1, 0x00, b"anything"), None, None),
    (v2(0, 0x00, b""), None, None),
    (v2(0, 0x11, IP4), None, None),
    (v2(1, 0x11, IP4 + EXTRAS), ("10.0.0.1", 56_324), ("10.0.0.2", 1_883)),
    (v2(1, 0x11, IP4 + tlv(4, bytes(9))), ("10.0.0.1", 56_324), ("10.0.0.2", 1_883)),
    (summed(IP4 + tlv(1, b"mqtt")), ("10.0.0.1", 56_324), ("10.0.0.2", 1_883)),
]  # fmt: skip

BAD = [
    b"PROXY TCP4 192.168.0.1 192.168.0.11 56324\r\n",
    b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 443 1\r\n",
    b"PROXY TCP5 192.168.0.1 192.168.0.11 56324 443\r\n",
    b"PROXY TCP6 192.168.0.1 192.168.0.11 56324 443\r\n",
    b"PROXY TCP4 ::1 ::1 56324 443\r\n",
    b"PROXY TCP4 192.168.0.256 192.168.0.11 56324 443\r\n",
    b"PROXY TCP4 192.168.0.1 192.168.0.11 65536 443\r\n",
    b"PROXY TCP4 192.168.0.1 192.168.0.11 0443 443\r\n",
    b"PROXY TCP4 192.168.0.1 192.168.0.11 -1 443\r\n",
    b"PROXY TCP4  192.168.0.1 192.168.0.11 1 443\r\n",
    b"PROXY \r\n",
    b"PROXY TCP4 \xff 192.168.0.11 1 443\r\n",
    b"PROXY " + b"x" * V1_BYTES_MAX,
    v2(1, 0x11, IP4, version=1),
    v2(1, 0x11, IP4, version=3),
    v2(2, 0x11, IP4),
    v2(1, 0x11, IP4[:-1]),
    v2(1, 0x13, IP4),
    v2(1, 0x41, IP4),
    v2(1, 0x31, bytes(215)),
    v2(1, 0x11, IP4 + b"\x03\x00"),
    v2(1, 0x11, IP4 + b"\x01\x00\x05mqtt"),
    v2(1, 0x11, IP4 + tlv(3, bytes(3))),
    v2(1, 0x11, IP4 + tlv(3, bytes(4))),
    V2 + b"\x21\x11" + struct.pack(">H", V2_BYTES_MAX),
]


@pytest.mark.parametrize(("data", "source", "destination"), GOOD)
def test_every_prefix_waits_and_the_whole_is_read(
    data: bytes, source: tuple[str, int] | None, destination: tuple[str, int] | None
) -> None:
    for length in range(1, len(data)):
        assert begins(data[:length]) is not False
        if begins(data[:length]):
            assert read(data[:length]) is None, length
    header = Header(source, destination, len(data))
    assert read(data) == read(data + b"\x10\x0c\x00\x04MQTT") == header


@pytest.mark.parametrize("data", BAD)
def test_what_is_wrong_is_told_in_words(data: bytes) -> None:
    assert begins(data) is True
    found = read(data)
    assert isinstance(found, str)
    assert found


@pytest.mark.parametrize("at", range(16, 16 + len(IP4) + 7))
def test_any_changed_byte_fails_the_checksum(at: int) -> None:
    data = bytearray(summed(IP4 + tlv(1, b"mqtt")))
    data[at] ^= 1
    assert isinstance(read(bytes(data)), str)


@pytest.mark.parametrize("data", [b"PUT / HTTP/1.1", b"PROPFIND / HTTP/1.1", b"\r\n\r\nGET", b"\x16\x03\x01", b"PROXIES"])
def test_others_are_known_at_the_first_byte_that_differs(data: bytes) -> None:
    assert begins(data) is False


def test_checksum_is_that_of_the_rfc() -> None:
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E


@given(st.binary(max_size=600), st.sampled_from([b"PROXY ", V2, V2 + b"\x21\x11\x00\x20", V2 + b"\x21\x21\x00\x40"]))
def test_whatever_follows_never_raises_and_stays_decided(rest: bytes, begin: bytes) -> None:
    data = begin + rest
    decided: Header | str | None = None
    for length in range(len(begin), len(data) + 1):
        found = read(data[:length])
        if isinstance(decided, Header):
            assert found == decided
        elif isinstance(decided, str):
            assert isinstance(found, str)
        decided = found
