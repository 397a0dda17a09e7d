"""Frames and headers: golden vectors of RocketMQ 5.5.0's RemotingCommand, any split, any bytes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.remoting import codes
from protocols.remoting.wire.frame import FAULT_HEADER, FAULT_LENGTH, Frame, FrameDecoder, encode
from protocols.remoting.wire.header import BINARY, JSON, LANGUAGE_PYTHON, LANGUAGES, encode_ext, split

JSON_VECTOR = bytes.fromhex("000000830000007d") + (
    b'{"code":105,"extFields":{"topic":"T"},"flag":0,"language":"PYTHON","opaque":7,'
    b'"serializeTypeCurrentRPC":"JSON","version":479}hi'
)
BINARY_VECTOR = bytes.fromhex(
    "00000027010000210069 03 01df 00000007 00000000 00000000 0000000c 0005 746f706963 00000001 54 6869".replace(" ", "")
)


def decoded(data: bytes) -> Frame:
    decoder = FrameDecoder()
    (frame,) = decoder.feed(data)
    assert decoder.fault == ""
    assert decoder.held == 0
    return frame


@pytest.mark.parametrize(("serialize", "vector"), [(JSON, JSON_VECTOR), (BINARY, BINARY_VECTOR)])
def test_golden_vectors_of_remoting_command(serialize: int, vector: bytes) -> None:
    made = encode(105, 7, fields={"topic": "T"}, body=b"hi", serialize=serialize, language=LANGUAGE_PYTHON)
    assert made == vector
    frame = decoded(vector)
    assert (frame.code, frame.opaque, frame.flag, frame.version) == (105, 7, 0, 479)
    assert LANGUAGES[frame.language] == "PYTHON"
    assert frame.fields() == {"topic": "T"}
    assert frame.body == b"hi"
    assert frame.serialize == serialize


def test_json_header_in_any_key_order_with_unknown_keys_and_nulls() -> None:
    header = b'{"opaque":-5,"x":[1],"remark":null,"extFields":{"a":5,"b":true,"c":null},"code":34,"language":"XYZ"}'
    frame = decoded((len(header) + 4).to_bytes(4, "big") + len(header).to_bytes(4, "big") + header)
    assert frame.opaque == -5
    assert frame.fields() == {"a": "5", "b": "true"}
    assert LANGUAGES[frame.language] == "OTHER"
    assert frame.version == 0
    assert frame.body == b""


@pytest.mark.parametrize("code", [codes.POP, codes.ACK, codes.CHANGE_INVISIBLE, codes.NOTIFICATION, codes.BATCH_ACK])
def test_pop_codes_survive_the_sixteen_bits_of_a_binary_header(code: int) -> None:
    assert decoded(encode(code, 1, serialize=BINARY)).code == code


def test_remark_in_both_encodings() -> None:
    for serialize in (JSON, BINARY):
        assert decoded(encode(1, 1, remark="schön", serialize=serialize)).remark == "schön"


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"\x16\x03\x01", FAULT_LENGTH),
        (b"\x01\x00\x00\x01", FAULT_LENGTH),
        (b"\x00\x00\x00\x05", FAULT_LENGTH),
        (b"\xff\xff\xff\xff", FAULT_LENGTH),
        (b"\x00\x00\x00\x10\x02\x00\x00\x0c", FAULT_HEADER),
        (b"\x00\x00\x00\x10\x00\x00\x00\x0d", FAULT_HEADER),
        (b"\x00\x00\x00\x10\x01\x00\x00\x0c", FAULT_HEADER),
        (b"\x00\x00\x00\x06\x00\x00\x00\x02[]", FAULT_HEADER),
        (b"\x00\x00\x00\x06\x00\x00\x00\x02\xff\xfe", FAULT_HEADER),
        (b'\x00\x00\x00\x0f\x00\x00\x00\x0b{"code":"x"}'[:19], FAULT_HEADER),
    ],
)
def test_a_malformed_frame_is_a_fault_at_once(data: bytes, fault: str) -> None:
    decoder = FrameDecoder()
    assert decoder.feed(data) == []
    assert decoder.fault == fault
    assert decoder.feed(JSON_VECTOR) == []


def test_frames_before_a_fault_are_returned() -> None:
    decoder = FrameDecoder()
    assert len(decoder.feed(JSON_VECTOR + BINARY_VECTOR + b"\x7f")) == 2
    assert decoder.fault == FAULT_LENGTH


def test_a_frame_of_sixteen_mebibytes_is_the_longest() -> None:
    decoder = FrameDecoder()
    decoder.feed((16 * 1024 * 1024 - 4).to_bytes(4, "big"))
    assert decoder.fault == ""
    decoder = FrameDecoder()
    decoder.feed((16 * 1024 * 1024 - 3).to_bytes(4, "big"))
    assert decoder.fault == FAULT_LENGTH


@pytest.mark.parametrize(
    "ext", [b"\x00", b"\x00\x05abc", b"\x00\x01a\x00\x00", b"\x00\x01a\x00\x00\x00\x05b", b"\x00\x01a\xff\xff\xff\xff"]
)
def test_wrong_lengths_in_binary_ext_fields_are_malformed(ext: bytes) -> None:
    assert split(ext) is None


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)


@given(
    st.dictionaries(NAMES, NAMES, max_size=6),
    st.binary(max_size=50),
    st.integers(-0x80000000, 0x7FFFFFFF),
    st.integers(0, 3),
    st.integers(0, 3000),
    st.sampled_from([JSON, BINARY]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
)
@settings(max_examples=100, deadline=None)
def test_what_is_encoded_is_decoded(
    fields: dict[str, str], body: bytes, opaque: int, flag: int, code: int, serialize: int, remark: str
) -> None:
    frame = decoded(encode(code, opaque, fields=fields, body=body, flag=flag, serialize=serialize, remark=remark))
    assert (frame.code, frame.opaque, frame.flag, frame.body, frame.remark) == (code, opaque, flag, body, remark)
    assert frame.fields() == fields


@given(st.lists(st.integers(1, 40), max_size=40))
@settings(max_examples=100, deadline=None)
def test_any_split_gives_the_same_frames(cuts: list[int]) -> None:
    data = JSON_VECTOR + BINARY_VECTOR + encode(10, 9, body=b"x" * 100) + BINARY_VECTOR
    decoder = FrameDecoder()
    found: list[Frame] = []
    at = 0
    for size in [*cuts, len(data)]:
        if data[at : at + size]:
            found.extend(decoder.feed(data[at : at + size]))
        at += size
    assert decoder.fault == ""
    assert [(frame.code, len(frame.body)) for frame in found] == [(105, 2), (105, 2), (10, 100), (105, 2)]


@given(st.binary(max_size=200))
@settings(max_examples=100, deadline=None)
def test_no_bytes_raise(data: bytes) -> None:
    FrameDecoder().feed(data)
    decoder = FrameDecoder()
    for prefix in (b"\x00\x00\x00", b"\x00\x00\x00\x40\x01\x00\x00\x20", b"\x00\x00\x00\x40\x00\x00\x00\x20"):
        decoder = FrameDecoder()
        for frame in decoder.feed(prefix + data):
            frame.fields()


def test_empty_keys_and_values_are_not_encoded() -> None:
    assert encode_ext({"": "x", "y": ""}) == b""
