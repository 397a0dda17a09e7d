"""Syntax of messages: vectors that cite their section, and property tests over all inputs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.coap.message import message

FORMAT_ERRORS = {
    "shorter than a header (7252-3)": "40010a",
    "version 0 (7252-3)": "00010001",
    "version 2 (7252-3)": "80010001",
    "token length 9 (7252-3)": "49010001" + "00" * 9,
    "token length 15 (7252-3)": "4f010001" + "00" * 15,
    "token cut short (7252-3)": "44010001aabb",
    "empty message with a token (7252-4.1)": "4100000101",
    "empty message with a payload (7252-4.1)": "40000001ff41",
    "delta nibble 15 (7252-3.1)": "40010001f161",
    "length nibble 15 (7252-3.1)": "400100011f61",
    "option value cut short (7252-3.1)": "40010001b36d71",
    "delta extension cut short (7252-3.1)": "40010001d0",
    "two-byte delta extension cut short (7252-3.1)": "40010001e001",
    "length extension cut short (7252-3.1)": "400100010d",
    "two-byte length extension cut short (7252-3.1)": "400100010e01",
    "option number above 65535": "40010001e0ffffe0ffff",
    "marker without payload (7252-3)": "40010001b26d71ff",
}


@pytest.mark.parametrize("text", FORMAT_ERRORS.values(), ids=FORMAT_ERRORS.keys())
def test_format_error_is_no_packet(text: str) -> None:
    assert message.decode(bytes.fromhex(text)) is None


def test_example_of_rfc_7252_appendix_a_figure_16() -> None:
    # CON GET MID 0x7d34, Uri-Path "temperature"; its answer is a piggybacked 2.05 "22.3 C"
    request = bytes.fromhex("40017d34") + b"\xbbtemperature"
    packet = message.decode(request)
    assert packet is not None
    assert (packet.kind, packet.code, packet.mid, packet.token) == (message.CON, message.GET, 0x7D34, b"")
    assert packet.options == [(11, b"temperature")]
    assert message.encode(message.CON, message.GET, 0x7D34, b"", message.join(packet.options), b"") == request
    response = message.encode(message.ACK, message.CONTENT, 0x7D34, b"", b"", b"22.3 C")
    assert response == bytes.fromhex("60457d34") + b"\xff22.3 C"


def test_uint_has_no_leading_zero() -> None:
    assert [message.uint(value) for value in (0, 1, 255, 256, 65_536)] == [b"", b"\x01", b"\xff", b"\x01\x00", b"\x01\x00\x00"]


def test_name_is_class_dot_detail() -> None:
    assert [message.name(code) for code in (message.CONTENT, message.NOT_FOUND, message.GATEWAY_TIMEOUT)] == [
        "2.05",
        "4.04",
        "5.04",
    ]


pairs = st.lists(st.tuples(st.integers(0, 65_535), st.binary(max_size=400)), max_size=12)


@settings(max_examples=100)
@given(st.integers(0, 3), st.integers(1, 255), st.integers(0, 65_535), st.binary(max_size=8), pairs, st.binary(max_size=64))
def test_decode_is_the_inverse_of_encode(
    kind: int, code: int, mid: int, token: bytes, options: message.Pairs, payload: bytes
) -> None:
    packet = message.decode(message.encode(kind, code, mid, token, message.join(options), payload))
    assert packet is not None
    assert (packet.kind, packet.code, packet.mid, packet.token, packet.payload) == (kind, code, mid, token, payload)
    assert packet.options == sorted(options, key=lambda pair: pair[0])


@settings(max_examples=100)
@given(st.binary(max_size=96))
def test_no_bytes_raise(data: bytes) -> None:
    packet = message.decode(data)
    if packet is not None:
        again = message.decode(
            message.encode(packet.kind, packet.code, packet.mid, packet.token, message.join(packet.options), packet.payload)
        )
        assert again is not None
        assert again.options == packet.options
