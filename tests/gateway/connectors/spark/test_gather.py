"""Columns of many records at once equal the columns of one record at a time, for any records."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import lz4.frame
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.message import record
from domain.message.message import Message
from domain.message.record import Record
from gateway.client.answer import QueueRoute
from gateway.connectors.spark import column, gather
from gateway.connectors.spark.failure import RecordError
from tests.gateway.connectors.spark import reference

QUEUE = QueueRoute("broker-a", "orders", 3)
SCHEMA = column.arrow_schema(column.struct("all"))

NAMES = st.sampled_from(
    [b"KEYS", b"TAGS", b"UNIQ_KEY", b"__SHARDINGKEY", b"k", b"a key", b"", b"KEY", b"XKEYS", "naïve".encode()]
)
VALUES = st.sampled_from([b"", b"1", b"red", b"KEYS", "grün".encode(), b"\xff\xfe", b"with\x01one", b" "])
PIECES = st.one_of(
    st.tuples(NAMES, VALUES).map(lambda pair: pair[0] + b"\x01" + pair[1] + b"\x02"),
    st.sampled_from([b"", b"\x02", b"\x01", b"\x01\x02", b"TAGS", b"KEYS\x01last"]),
)
PROPERTIES = st.lists(PIECES, max_size=6).map(b"".join)
MANY_NAMES = st.lists(st.integers(0, 120), max_size=90).map(lambda ids: b"".join(b"n%d\x01v\x02" % one for one in ids))


HOSTS = [b"\x7f\0\0\x01\0\0\x2a\x9f", b"\x0a\0\0\x02\0\0\x1f\x91", bytes(15) + b"\x01\0\0\x2a\x9f"]


@st.composite
def messages(draw: st.DrawFn) -> Message:
    body = draw(st.binary(max_size=40))
    flag = draw(st.sampled_from([0, 0, 0, 0x1, 0x301, 0x101, 0x201]))
    if flag == 0x101:
        body = lz4.frame.compress(body)
    elif flag == 0x201:
        body = zstandard.ZstdCompressor().compress(body)
    elif flag and draw(st.booleans()):
        body = zlib.compress(body)
    return Message(
        draw(st.sampled_from(["orders", "t" * 130])),
        body,
        draw(st.one_of(PROPERTIES, MANY_NAMES)),
        queue_id=draw(st.integers(0, 2**31 - 1)),
        sys_flag=flag,
        born_ms=draw(st.one_of(st.integers(0, 2**43), st.integers(-(2**63), 2**63 - 1))),
        born_host=draw(
            st.sampled_from([b"\x0a\0\0\x01\0\0\x1f\x90", b"\x0a\0\0\x02\0\0\x1f\x91", bytes(15) + b"\x01\0\0\x1f\x90"])
        ),
        reconsume_times=draw(st.integers(0, 2**31 - 1)),
    )


def encoded(sent: list[Message], host: int = 0, first: int = 100) -> list[bytes]:
    return [record.encode(one, first + at, 7000 + at, 1_700_000_000_000 + at, HOSTS[host]) for at, one in enumerate(sent)]


def batches(data: bytes, start: int, end: int, schema: pa.Schema, permissive: bool) -> Iterator[pa.RecordBatch]:
    """The record batches of all chunks."""
    for chunk in gather.chunks(data, QUEUE, start, end, schema, permissive):
        yield from chunk.batches(schema)


def gathered(data: bytes, start: int, end: int, schema: pa.Schema, permissive: bool) -> pa.Table:
    """The batches of `gather`, concatenated."""
    return pa.Table.from_batches(list(batches(data, start, end, schema, permissive)), schema)


def plain(records: list[bytes], schema: pa.Schema) -> pa.RecordBatch:
    """The expected result, from `reference` alone."""
    columns = []
    for field in schema:
        read = reference.reader(field.name, QUEUE)
        columns.append(pa.array([read(Record(one)) for one in records], field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


@settings(max_examples=100, deadline=None)
@given(st.lists(messages(), max_size=8), st.integers(0, 2))
def test_gather_equals_the_reference(sent: list[Message], host: int) -> None:
    records = encoded(sent, host)
    found = gathered(b"".join(records), 0, 1_000, SCHEMA, True)
    found.validate(full=True)
    assert found.to_pylist() == plain(records, SCHEMA).to_pylist()
    assert found.schema.equals(SCHEMA)


@settings(max_examples=50, deadline=None)
@given(st.lists(messages(), min_size=1, max_size=8), st.integers(98, 110), st.integers(98, 110))
def test_only_the_range_is_taken(sent: list[Message], start: int, end: int) -> None:
    records = encoded(sent)
    found = gathered(b"".join(records), start, end, SCHEMA, True)
    wanted = [one for one in records if start <= Record(one).queue_offset < end]
    assert found.to_pylist() == plain(wanted, SCHEMA).to_pylist()


@settings(max_examples=50, deadline=None)
@given(st.lists(messages(), max_size=4), st.lists(st.sampled_from(list(column.TYPES)), min_size=1, unique=True))
def test_a_projection_is_the_same_columns(sent: list[Message], names: list[str]) -> None:
    schema = column.arrow_schema(column.struct(",".join(names)))
    records = encoded(sent)
    assert gathered(b"".join(records), 0, 1_000, schema, True).to_pylist() == plain(records, schema).to_pylist()


@settings(max_examples=100, deadline=None)
@given(st.lists(messages(), min_size=1, max_size=3), st.data())
def test_broken_bytes_raise_a_record_error_and_nothing_else(sent: list[Message], data: st.DataObject) -> None:
    broken = bytearray(b"".join(encoded(sent)))
    at = data.draw(st.integers(0, len(broken) - 1))
    broken[at] ^= data.draw(st.integers(1, 255))
    with suppress(RecordError):
        gathered(bytes(broken), -(2**63), 2**63 - 1, SCHEMA, True)


@settings(max_examples=50, deadline=None)
@given(st.lists(messages(), min_size=1, max_size=3), st.data())
def test_bytes_cut_short_are_a_record_error(sent: list[Message], data: st.DataObject) -> None:
    whole = encoded(sent)
    cut = data.draw(st.integers(1, len(whole[-1]) - 1))
    with pytest.raises(RecordError, match="Topic 'orders', queue 3 on broker-a"):
        gathered(b"".join(whole)[:-cut], 0, 1_000, SCHEMA, True)


@pytest.mark.parametrize("flag", [0x1, 0x101, 0x201, 0x301])
def test_a_body_that_cannot_be_decompressed_fails_or_is_null(flag: int) -> None:
    sent = [Message("orders", b"fine"), Message("orders", b"garbage", sys_flag=flag)]
    data = b"".join(encoded(sent))
    schema = column.arrow_schema(column.struct("body"))
    with pytest.raises(RecordError, match=r"offset 101: the body is corrupt.*mode=PERMISSIVE"):
        gathered(data, 0, 1_000, schema, False)
    assert gathered(data, 0, 1_000, schema, True).column("body").to_pylist() == [b"fine", None]


def test_a_decompression_bomb_is_stopped_at_the_bound() -> None:
    bomb = Message("orders", zlib.compress(bytes(64 * 1024 * 1024)), sys_flag=0x301)
    with pytest.raises(RecordError, match="larger than 4194304 bytes"):
        gathered(encoded([bomb])[0], 0, 1_000, SCHEMA, False)


def test_a_message_without_an_id_has_its_offset_id() -> None:
    sent = [Message("orders", b"", b"UNIQ_KEY\x01A\x02"), Message("orders", b"")]
    schema = column.arrow_schema(column.struct("messageId"))
    found: Any = gathered(b"".join(encoded(sent)), 0, 1_000, schema, False).column(0).to_pylist()
    assert found == ["A", "7F00000100002A9F0000000000001B59"]


def test_large_decompressed_bodies_make_smaller_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gather, "EXPANDED_BYTES_MAX", 250)
    grown = [Message("orders", zlib.compress(bytes(100)), sys_flag=0x301) for _ in range(7)]
    records = encoded([Message("orders", b"first"), *grown, Message("orders", b"last")])
    found = list(batches(b"".join(records), 0, 1_000, SCHEMA, False))
    assert [one.num_rows for one in found] == [4, 3, 2]
    assert pa.Table.from_batches(found).to_pylist() == plain(records, SCHEMA).to_pylist()
    exact = list(batches(b"".join(records[:4]), 0, 1_000, SCHEMA, False))
    assert [one.num_rows for one in exact] == [4]
