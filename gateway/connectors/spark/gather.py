"""Records -> columns, many records at once: numpy finds the fields, Arrow copies them.

A chunk has records, one after the other: the bodies of pull replies. `_walk` finds where each record begins, one indexing
step copies the fixed-size heads. For a variable-size field, an Arrow binary array of alternating fields and gaps is laid over
the chunk, and `take` copies the fields. Only compressed bodies are expanded one at a time.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from domain import address, limits
from domain.message import property as properties
from domain.message.message import SYS_BORN_V6, SYS_COMPRESSED, SYS_STORE_V6
from gateway.client.answer import QueueRoute
from gateway.connectors.spark.failure import RecordError, place
from gateway.connectors.spark.tokens import PropertyTokens, spans, text

Numbers = npt.NDArray[np.int64]
EXPANDED_BYTES_MAX: Final = 16 * 1024 * 1024
"""Bytes of decompressed bodies in one batch; the last body can exceed it."""
PIECES_MAX: Final = 100_000
"""Separators of properties in one chunk; a single record can exceed it. Each takes about 100 bytes of a worker's memory."""
TIME_MS_MIN: Final = -62_135_510_400_000
TIME_MS_MAX: Final = 253_402_214_399_999
"""0001-01-02 to 9999-12-30 in UTC: times that every time zone writes with four digits. Times beyond are moved to these."""
_PIECE_END: Final = b"\x02"
_HEAD_BYTES: Final = 56
_HEX: Final = np.frombuffer(b"0123456789ABCDEF", np.uint8)
_SIZE = struct.Struct(">I")
_WIDE_MARK: Final = 0xAB
_MAGICS: Final = {b"\xda\xa3\x20\xa7", b"\xda\xa3\x20\xab"}
_PROPERTY: Final = {
    "keys": properties.KEYS, "tags": properties.TAGS, "messageGroup": properties.SHARDING_KEY, "messageId": properties.UNIQ_KEY,
}  # fmt: skip


def chunks(data: bytes, queue: QueueRoute, start: int, end: int, schema: pa.Schema, permissive: bool) -> Iterator[ColumnChunk]:
    """The records of `data` with offsets in [start, end), in one chunk; in several when their properties have many pieces.

    Raises RecordError for malformed records. Its batches raise it for bodies that cannot be decompressed unless `permissive`.
    """
    splits = any(field.name in _PROPERTY or field.name == "properties" for field in schema)
    if not splits or data.count(_PIECE_END) <= PIECES_MAX:
        yield ColumnChunk(data, queue, start, end, permissive)
        return
    first = pieces = 0
    at = _walk(data, queue)
    for low, high in pairwise([*at, len(data)]):
        more = data.count(_PIECE_END, low, high)
        if pieces + more > PIECES_MAX and low > first:
            yield ColumnChunk(data[first:low], queue, start, end, permissive)
            first, pieces = low, 0
        pieces += more
    yield ColumnChunk(data[first:], queue, start, end, permissive)


@final
class ColumnChunk:
    """Records, one after the other, and the positions of their parts.

    after   offset after the last record; -1 without records
    """

    def __init__(self, data: bytes, queue: QueueRoute, start: int, end: int, permissive: bool) -> None:
        self._data = data
        self._queue = queue
        self._permissive = permissive
        self._bytes = np.frombuffer(data, np.uint8)
        at = np.array(_walk(data, queue), np.int64)
        heads = self._bytes[at[:, None] + np.arange(_HEAD_BYTES)] if len(at) else np.zeros((0, _HEAD_BYTES), np.uint8)
        offsets = _big(heads, 20, 8)
        wanted = (offsets >= start) & (offsets < end)
        if not wanted.all():
            at, heads, offsets = at[wanted], heads[wanted], offsets[wanted]
        self._at = at
        self._heads = heads
        self._offsets = offsets
        self.rows = len(at)
        self.after = int(offsets[-1]) + 1 if self.rows else -1
        self._flags = flags = _big(heads, 36, 4)
        self._compressed = (flags & SYS_COMPRESSED) != 0
        self._born_v6 = (flags & SYS_BORN_V6) != 0
        self._store_at = at + 48 + np.where(self._born_v6, 20, 8)
        self._reconsume_at = self._store_at + 8 + np.where((flags & SYS_STORE_V6) != 0, 20, 8)
        self._tokens: PropertyTokens | None = None
        self._check(at + _big(heads, 0, 4))

    def _check(self, ends: Numbers) -> None:
        """Raises RecordError when the lengths inside a record do not add up to the size of the record."""
        self._body_at = self._reconsume_at + 16
        self._body_end = self._body_at + self._number(self._reconsume_at + 12, 4)
        good = (self._body_end + 3 <= ends) & (self._body_end >= self._body_at)
        topic_at = np.where(good, self._body_end, 0)
        wide = self._heads[:, 7] == _WIDE_MARK
        topic_end = topic_at + np.where(wide, 2 + self._number(topic_at, 2), 1 + self._number(topic_at, 1))
        good &= topic_end + 2 <= ends
        self._properties_at = np.where(good, topic_end, 0) + 2
        self._properties_end = ends
        good &= self._properties_at + self._number(self._properties_at - 2, 2) == ends
        if not good.all():
            offset = int(self._offsets[int(np.argmin(good))])
            raise RecordError(f"{place(self._queue)}, offset {offset}: the lengths in the record do not add up.")

    def gaps(self, start: int) -> list[tuple[int, int]]:
        """Ranges of offsets without a record, from `start` to the last one. Raises RecordError for records out of order."""
        steps = np.diff(self._offsets, prepend=start - 1)
        if (steps < 1).any():
            raise RecordError(f"{place(self._queue)}: the broker sends the records at offset {start} out of order.")
        at = np.flatnonzero(steps > 1)
        return [(int(self._offsets[one] - steps[one]) + 1, int(self._offsets[one])) for one in at]

    def batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Record batches of the schema, usually one; several when decompressed bodies exceed EXPANDED_BYTES_MAX."""
        whole = [None if field.name == "body" else self.column(field) for field in schema]
        for first, after, bodies in self.bodies() if any(column is None for column in whole) else [(0, self.rows, None)]:
            columns = [bodies if column is None else column.slice(first, after - first) for column in whole]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def column(self, field: pa.Field) -> pa.Array:
        """One column, except `body`."""
        name = field.name
        if name == "topic":
            return pa.repeat(pa.scalar(self._queue.topic, field.type), self.rows)
        if name == "brokerName":
            return pa.repeat(pa.scalar(self._queue.broker, field.type), self.rows)
        if name == "bornHost":
            return self._born_hosts()
        if name == "properties":
            return self._map(field)
        if name == "messageId":
            return self._message_ids(field)
        if name in _PROPERTY:
            return self._property(field)
        return pa.array(self._fixed(name), field.type)

    def _fixed(self, name: str) -> Numbers:
        if name == "queueOffset":
            return self._offsets
        if name == "queueId":
            return _big(self._heads, 12, 4)
        if name == "bornTimestamp":
            return _big(self._heads, 40, 8).clip(TIME_MS_MIN, TIME_MS_MAX) * 1000
        if name == "storeTimestamp":
            return self._number(self._store_at, 8).clip(TIME_MS_MIN, TIME_MS_MAX) * 1000
        if name == "bodyCrc":
            return _big(self._heads, 8, 4)
        return self._number(self._reconsume_at, 4)

    def _number(self, at: Numbers, size: int) -> Numbers:
        """Big-endian numbers at positions in the chunk; signed for sizes 4 and 8, unsigned for 1 and 2."""
        return _big(self._bytes[at[:, None] + np.arange(size)], 0, size)

    def bodies(self) -> Iterator[tuple[int, int, pa.Array]]:
        """(first row, row after the last, bodies): all rows at once unless decompressed bodies exceed EXPANDED_BYTES_MAX."""
        first = size = 0
        found: list[bytes | None] = []
        rows = np.flatnonzero(self._compressed)
        if len(rows):
            from protocols.compression import expanded
        whole = 0 < self.rows == len(rows)
        stored = None if whole else spans(pa.py_buffer(self._data), self._body_at, self._body_end)
        places = (self._body_at[rows].tolist(), self._body_end[rows].tolist(), self._flags[rows].tolist())
        for row, begin, end, flags in zip(rows.tolist(), *places, strict=True):
            body = expanded(self._data[begin:end], flags, limits.BODY_BYTES_MAX)
            if body is None and not self._permissive:
                raise RecordError(
                    f"{place(self._queue)}, offset {int(self._offsets[row])}: the body is corrupt, or larger than "
                    f"{limits.BODY_BYTES_MAX} bytes when decompressed. Set option mode=PERMISSIVE to read such bodies as null."
                )
            found.append(body)
            size += len(body) if body else 0
            if size >= EXPANDED_BYTES_MAX:
                yield first, row + 1, self._expanded(stored, first, row + 1, found)
                first, size, found = row + 1, 0, []
        if first < self.rows or self.rows == 0:
            yield first, self.rows, self._expanded(stored, first, self.rows, found)

    def _expanded(self, stored: pa.Array | None, first: int, after: int, found: list[bytes | None]) -> pa.Array:
        """The bodies of some rows, with `found` for the compressed ones. `stored`: as they are stored; None: all compressed."""
        if stored is None:
            return pa.array(found, pa.binary())
        some = stored.slice(first, after - first)
        if not found:
            return some
        return pc.replace_with_mask(some, pa.array(self._compressed[first:after]), pa.array(found, pa.binary()))

    def _born_hosts(self) -> pa.Array:
        size = 20 if self._born_v6.any() else 8
        keys = np.zeros((self.rows, size + 1), np.uint8)
        keys[:, :8] = self._heads[:, 48:56]
        if size == 20:
            six = np.flatnonzero(self._born_v6)
            keys[six, :20] = self._bytes[self._at[six][:, None] + np.arange(48, 68)]
            keys[six, 20] = 1
        unique, which = np.unique(keys.view(f"V{size + 1}").ravel(), return_inverse=True)
        hosts = [bytes(one) for one in unique.tolist()]
        texts = [address.host_text(host[:20] if host[-1] else host[:8]) for host in hosts]
        return pa.array(texts, pa.string()).take(pa.array(which.ravel()))

    def _split(self) -> PropertyTokens:
        if self._tokens is None:
            dense = spans(pa.py_buffer(self._data), self._properties_at, self._properties_end)
            self._tokens = PropertyTokens(dense)
        return self._tokens

    def _property(self, field: pa.Field) -> pa.Array:
        return text(self._split().values(_PROPERTY[field.name].encode()))

    def _message_ids(self, field: pa.Field) -> pa.Array:
        """Property UNIQ_KEY; without one, the offset message id: store host and physical offset in hexadecimal digits."""
        ids = self._property(field)
        if ids.null_count == 0:
            return ids
        for host_bytes in (8, 20):
            rows = np.flatnonzero(
                ids.is_null().to_numpy(zero_copy_only=False) & (self._reconsume_at - self._store_at == 8 + host_bytes)
            )
            if len(rows):
                places = np.empty((len(rows), host_bytes + 8), np.uint8)
                places[:, :host_bytes] = self._bytes[self._store_at[rows][:, None] + np.arange(8, 8 + host_bytes)]
                places[:, host_bytes:] = self._heads[rows, 28:36]
                digits = np.stack((places >> 4, places & 15), axis=-1).reshape(len(rows), -1)
                texts = pa.array(_HEX[digits].view(f"S{2 * (host_bytes + 8)}").ravel().astype(str), pa.string())
                mask = np.zeros(self.rows, bool)
                mask[rows] = True
                ids = pc.replace_with_mask(ids, pa.array(mask), texts)
        return ids

    def _map(self, field: pa.Field) -> pa.Array:
        return pa.MapArray.from_arrays(*self._split().pairs()).cast(field.type)


def _big(rows: npt.NDArray[np.uint8], at: int, size: int) -> Numbers:
    """Big-endian numbers in columns [at, at + size) of a byte matrix; signed for sizes 4 and 8, unsigned for 1 and 2."""
    kind = {1: "u1", 2: ">u2", 4: ">i4", 8: ">i8"}[size]
    return np.ascontiguousarray(rows[:, at : at + size]).view(kind).ravel().astype(np.int64)


def _walk(data: bytes, queue: QueueRoute) -> list[int]:
    """Positions at which records begin. Raises RecordError when sizes do not add up to the chunk, or a record is malformed."""
    out: list[int] = []
    add = out.append
    size_at = _SIZE.unpack_from
    at = 0
    last = len(data) - 91
    while at <= last:
        add(at)
        size = size_at(data, at)[0]
        if size < 91:
            break
        at += size
    marks = {data[at + 4 : at + 8] for at in out}
    if at != len(data) or marks - _MAGICS:
        raise RecordError(f"{place(queue)}: the answer of the broker holds bytes that are no record.")
    return out
