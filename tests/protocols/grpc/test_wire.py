"""Protobuf by hand, held against the library of Google."""

from __future__ import annotations

from google.protobuf.timestamp_pb2 import Timestamp
from google.protobuf.wrappers_pb2 import BytesValue, StringValue, UInt64Value
from hypothesis import given
from hypothesis import strategies as st

from protocols.grpc import wire

FIELD_1 = b"\x0a"


@given(st.integers(1, (1 << 64) - 1) | st.sampled_from((1, 127, 128, 2_047, 2_048, 16_383, 16_384)))
def test_a_varint_is_that_of_the_library(value: int) -> None:
    assert b"\x08" + wire.varint(value) == UInt64Value(value=value).SerializeToString()


@given(st.sampled_from((1, 127, 128, 2_047, 2_048, 20_000)) | st.integers(1, 300))
def test_a_field_of_bytes_is_that_of_the_library(size: int) -> None:
    assert wire.text(FIELD_1, b"x" * size) == BytesValue(value=b"x" * size).SerializeToString()


@given(st.text(st.characters(codec="utf-8"), min_size=1, max_size=50))
def test_a_text_is_that_of_the_library(text: str) -> None:
    assert wire.text(FIELD_1, text.encode()) == StringValue(value=text).SerializeToString()


@given(st.integers(0, 253_402_300_799_999) | st.integers(0, 2_000).map(lambda seconds: seconds * 1_000))
def test_a_timestamp_is_that_of_the_library(ms: int) -> None:
    found = wire.timestamp(FIELD_1, ms)
    assert found[:2] == FIELD_1 + bytes((len(found) - 2,))
    read = Timestamp.FromString(found[2:])
    assert read.ToMilliseconds() == ms
    if ms >= 1_000:
        assert found[2:] == read.SerializeToString()


def test_a_timestamp_is_that_of_the_library_however_many_seconds_there_are() -> None:
    for number in range(1, 2 * wire.SECONDS_MAX):
        ms = number * 1_700_003
        wanted = Timestamp(seconds=ms // 1_000, nanos=ms % 1_000 * 1_000_000).SerializeToString()
        assert wire.timestamp(FIELD_1, ms) == FIELD_1 + bytes((len(wanted),)) + wanted
