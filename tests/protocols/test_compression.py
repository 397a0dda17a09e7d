"""Decompression is bounded and never raises."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib

import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.message import record as records
from domain.message.message import Message
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


@pytest.mark.parametrize("name", ["zlib", "lz4", "zstd"])
def test_bomb_holds_little_memory(name: str) -> None:
    """64 MiB of zeros; Zstandard without a stated size. Zstandard's blocks are of 128 KiB, and 4 MiB are made at once."""
    zeros = bytes(64 * 1024 * 1024)
    stream = zstandard.ZstdCompressor().compressobj()
    bombs = {"zlib": zlib.compress(zeros, 9), "lz4": lz4.frame.compress(zeros), "zstd": stream.compress(zeros) + stream.flush()}
    del zeros
    body = bombs[name]
    tracemalloc.start()
    try:
        assert compression.expanded(body, FRAMES[name][1], 64 * 1024) is None
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert held <= 9 * 1024 * 1024


def test_no_stream_expands_more_than_its_format_allows() -> None:
    zeros = bytes(8 * 1024 * 1024)
    assert len(zeros) <= len(zlib.compress(zeros, 9)) * compression.DEFLATE_RATIO_MAX
    assert len(zeros) <= len(lz4.frame.compress(zeros, compression_level=16)) * compression.LZ4_RATIO_MAX


@pytest.mark.parametrize("name", FRAMES)
@pytest.mark.parametrize("limit", [len(TEXT), 4 * 1024 * 1024])
def test_bytes_after_the_stream_are_ignored(name: str, limit: int) -> None:
    body, sys_flag = FRAMES[name]
    assert compression.expanded(body + b"more", sys_flag, limit) == TEXT
    assert compression.expanded(b"", sys_flag, limit) is None


def test_one_decompressor_for_many_small_bodies(monkeypatch: pytest.MonkeyPatch) -> None:
    created: list[int] = []
    real = zstandard.ZstdDecompressor

    def count(max_window_size: int) -> zstandard.ZstdDecompressor:
        created.append(1)
        return real(max_window_size=max_window_size)

    monkeypatch.setattr(zstandard, "ZstdDecompressor", count)
    body, sys_flag = FRAMES["zstd"]
    bodies = [compression.expanded(body, sys_flag, len(TEXT)) for _ in range(100)]
    assert bodies == [TEXT] * 100
    assert len(created) <= 1


def test_a_corrupt_body_does_not_spoil_the_next_one() -> None:
    body, sys_flag = FRAMES["zstd"]
    for broken in (body[:-1], body[:9] + b"\xff" * 9 + body[18:], b""):
        assert compression.expanded(broken, sys_flag, len(TEXT)) is None
        assert compression.expanded(body, sys_flag, len(TEXT)) == TEXT


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
