"""Decompression is bounded and never raises."""

from __future__ import annotations

import gzip
import zlib

import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from domain import record as records
from domain.message import Message
from protocols import compression

TEXT = b"headgate " * 500
FRAMES = {
    "zlib": (zlib.compress(TEXT), 0x301),
    "zlib, older clients": (zlib.compress(TEXT), 0x001),
    "gzip": (gzip.compress(TEXT), 0x301),
    "lz4": (lz4.frame.compress(TEXT), 0x101),
    "zstd": (zstandard.ZstdCompressor().compress(TEXT), 0x201),
}


def stored(body: bytes, sys_flag: int) -> records.Record:
    return records.Record(records.encode(Message("t", body, sys_flag=sys_flag), 0, 0, 0, b"\x7f\x00\x00\x01\x00\x00\x00\x01"))


@pytest.mark.parametrize("name", FRAMES)
def test_body_becomes_what_its_sender_had(name: str) -> None:
    body, sys_flag = FRAMES[name]
    assert compression.plain(stored(body, sys_flag), len(TEXT)) == TEXT


@pytest.mark.parametrize("name", FRAMES)
def test_body_beyond_the_limit_is_refused(name: str) -> None:
    body, sys_flag = FRAMES[name]
    assert compression.plain(stored(body, sys_flag), len(TEXT) - 1) is None


@pytest.mark.parametrize("name", FRAMES)
def test_body_cut_short_is_refused(name: str) -> None:
    body, sys_flag = FRAMES[name]
    assert compression.plain(stored(body[:-1], sys_flag), len(TEXT)) is None


def test_zstd_frame_without_a_stated_size_is_refused_when_its_last_block_is_missing() -> None:
    stream = zstandard.ZstdCompressor().compressobj()
    first = stream.compress(TEXT) + stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    last = stream.compress(TEXT) + stream.flush()
    assert compression.unframe_zstd(first + last, 2 * len(TEXT)) == TEXT * 2
    assert compression.unframe_zstd(first, 2 * len(TEXT)) is None


def test_bomb_stops_at_the_limit() -> None:
    bomb = zlib.compress(bytes(64 * 1024 * 1024), 9)
    assert compression.inflate(bomb, 4096) is None


def test_plain_body_is_bounded_too() -> None:
    assert compression.plain(stored(b"abc", 0), 3) == b"abc"
    assert compression.plain(stored(b"abcd", 0), 3) is None


@settings(max_examples=60)
@given(st.binary(max_size=200), st.sampled_from([0x001, 0x101, 0x201, 0x301]))
def test_garbage_is_refused_without_raising(garbage: bytes, sys_flag: int) -> None:
    out = compression.plain(stored(garbage, sys_flag), 1000)
    assert out is None or len(out) <= 1000


def test_fields_are_inflated_one_by_one() -> None:
    data = bytes(range(256)) * 1_000
    for packed in (zlib.compress(data), zlib.compress(data, 0)):
        inflater = compression.Inflater(packed, len(data))
        sizes = [1, 0, 7, 100_000, len(data) - 100_008]
        assert b"".join([inflater.read(size) for size in sizes]) == data
        with pytest.raises(ValueError, match="inflates beyond"):
            inflater.read(1)


@pytest.mark.parametrize(
    ("packed", "why"), [(zlib.compress(TEXT)[:-9], "breaks off"), (b"", "breaks off"), (TEXT, "no zlib|not a")]
)
def test_fields_of_bad_streams_are_refused(packed: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        compression.Inflater(packed, 1 << 20).read(len(TEXT))
