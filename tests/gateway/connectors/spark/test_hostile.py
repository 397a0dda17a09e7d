"""Records made to be expensive cost about what others cost: work and memory in counts."""

from __future__ import annotations

import zlib

import lz4.frame
import pyarrow as pa
import pytest
import zstandard

from domain.message.message import Message
from gateway.connectors.spark import column, gather
from protocols import compression
from tests.gateway.connectors.spark.lines import lines_of
from tests.gateway.connectors.spark.test_gather import QUEUE, SCHEMA, batches, encoded, gathered, plain

ROWS = 400
LINES_PER_BODY = 25
"""The rest of its cost is that of the decompressor."""
USUAL = b"UNIQ_KEY\x01A\x02TAGS\x01red\x02KEYS\x01k\x02colour\x01blue\x02"
HOSTILE: dict[str, bytes] = {
    "equal names": USUAL + b"colour\x01green\x02",
    "bad utf-8": b"UNIQ_KEY\x01A\x02TAGS\x01\xff\x02KEYS\x01k\xe2\x82\x02colour\x01\x80blue\x02",
    "bad utf-8 in a name": USUAL[:-12] + b"\xffcolour\x01blue\x02",
    "no id": USUAL[11:] + b"colour2\x01red\x02",
    "names without end": b"".join(b"n%d\x01v\x02" % one for one in range(60)),
}


def lines_to_read(properties: bytes, schema: pa.Schema = SCHEMA, body: bytes = b"body", sys_flag: int = 0) -> int:
    """Lines of Python executed to make the columns of ROWS records."""
    data = b"".join(encoded([Message("orders", body, properties, sys_flag=sys_flag)] * ROWS))
    list(batches(data, 0, 1_000, schema, False))  # what is imported at the first use is not counted
    lines, found = lines_of(lambda: list(batches(data, 0, 1_000, schema, False)))
    assert sum(one.num_rows for one in found) == ROWS
    return lines


@pytest.mark.parametrize("properties", list(HOSTILE.values()), ids=list(HOSTILE))
def test_no_record_makes_the_others_be_read_singly(properties: bytes) -> None:
    assert lines_to_read(properties) <= lines_to_read(USUAL) + ROWS // 2


PACKED = {
    "zlib": (zlib.compress(b"body" * 40), 0x301), "lz4": (lz4.frame.compress(b"body" * 40), 0x101),
    "zstd": (zstandard.compress(b"body" * 40), 0x201),
}  # fmt: skip


@pytest.mark.parametrize(("body", "sys_flag"), list(PACKED.values()), ids=list(PACKED))
def test_a_compressed_body_costs_its_decompression_and_a_few_lines(body: bytes, sys_flag: int) -> None:
    some = column.arrow_schema(column.struct("queueOffset,storeTimestamp,body"))
    usual = lines_to_read(USUAL, some, b"body" * 40)
    assert lines_to_read(USUAL, some, body, sys_flag) <= usual + LINES_PER_BODY * ROWS


@pytest.mark.parametrize("columns", ["", "queueOffset,storeTimestamp,body", "queueOffset,storeTimestamp,properties"])
def test_bodies_are_decompressed_once_and_only_when_they_are_read(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def expanded(body: bytes, sys_flag: int, limit: int) -> bytes | None:
        calls.append(limit)
        return real(body, sys_flag, limit)

    real = compression.expanded
    monkeypatch.setattr(compression, "expanded", expanded)
    body, sys_flag = PACKED["zlib"]
    packed = [Message("orders", body, USUAL, sys_flag=sys_flag)] * 30 + [Message("orders", b"plain", USUAL)] * 10
    found = gathered(b"".join(encoded(packed)), 0, 1_000, column.arrow_schema(column.struct(columns)), False)
    assert calls == ([4 * 1024 * 1024] * 30 if "body" in found.schema.names else [])


def test_far_times_are_moved_to_what_spark_can_show() -> None:
    far = [Message("orders", b"", USUAL, born_ms=at) for at in (-(2**63), -1, 0, 2**63 - 1)]
    records = encoded(far)
    schema = column.arrow_schema(column.struct("bornTimestamp"))
    found = gathered(b"".join(records), 0, 1_000, schema, False)
    years = [one.year for one in found.column(0).to_pylist()]
    assert years == [1, 1969, 1970, 9999]
    assert found.to_pylist() == plain(records, schema).to_pylist()


def test_records_with_very_many_properties_make_small_chunks() -> None:
    many = Message("orders", b"x", b"k\x01v\x02" * 8_000)
    data = b"".join(encoded([many] * 60))
    chunks = list(gather.chunks(data, QUEUE, 0, 1_000, SCHEMA, False))
    assert [chunk.rows for chunk in chunks] == [12] * 5
    assert gathered(data, 0, 1_000, SCHEMA, False).column("properties")[59].as_py() == [("k", "v")]
    without = column.arrow_schema(column.struct("queueOffset,body"))
    assert len(list(gather.chunks(data, QUEUE, 0, 1_000, without, False))) == 1


def test_bombs_are_bounded_one_at_a_time_and_together() -> None:
    """60 bodies of 4 MiB in 250 KB: batches hold at most EXPANDED_BYTES_MAX and one body."""
    bomb = Message("orders", zlib.compress(bytes(4 * 1024 * 1024)), USUAL, sys_flag=0x301)
    data = b"".join(encoded([bomb] * 60))
    schema = column.arrow_schema(column.struct("body"))
    before = pa.total_allocated_bytes()
    rows = most = 0
    for one in batches(data, 0, 1_000, schema, False):
        rows += one.num_rows
        most = max(most, pa.total_allocated_bytes() - before)
        assert one.nbytes <= gather.EXPANDED_BYTES_MAX + 4 * 1024 * 1024 + 4096
        del one
    assert rows == 60
    assert most <= 3 * gather.EXPANDED_BYTES_MAX


def test_many_bombs_beyond_the_limit_are_null_and_hold_nothing() -> None:
    bomb = Message("orders", zlib.compress(bytes(8 * 1024 * 1024)), USUAL, sys_flag=0x301)
    data = b"".join(encoded([bomb] * 20))
    schema = column.arrow_schema(column.struct("body"))
    [found] = batches(data, 0, 1_000, schema, True)
    assert found.column(0).null_count == 20
