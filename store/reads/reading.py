"""Reads records by queue and offset, by log position, and offsets by time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol, final

from domain.errors import ErrorCode, Failure, StoreError
from domain.filter.filter import Filter
from domain.message.record import Record, check
from domain.store.store_ports import ReadResult
from domain.store.store_request import ReadRequest
from domain.topic import lite
from store.events import StoreEvents
from store.log.reader import RecordReader
from store.queue.index import QueueIndex
from store.queue.queue import Queue
from store.queue.row import ROW, ROW_BYTES, Row, columns, fitting, rows_within
from store.reads.repair_waits import unreadable

SCAN_ROWS_MAX: Final = 8_192
SCAN_BYTES_MAX: Final = 4 * 1024 * 1024
"""Rows and bytes of records that one filtered read scans, rejected records included."""
READ_BYTES_MAX: Final = 512 * 1024
"""Bytes of records that are read at a time."""


def readable(
    fetch: Callable[[Sequence[Row]], list[bytes]], rows: Sequence[Row]
) -> tuple[list[bytes], OSError | StoreError | None]:
    """(records of `rows` up to the first unreadable one, its error; None when all were read)."""
    try:
        return fetch(rows), None
    except (OSError, StoreError):
        found: list[bytes] = []
    for row in rows:
        try:
            found += fetch((row,))
        except (OSError, StoreError) as error:
            return found, error
    return found, None


class WrittenLog(Protocol):
    """Limit of reads of records by position."""

    @property
    def written(self) -> int:
        """Position behind the last byte that can be read."""


@final
class Reading:
    """Reads readable messages. A record that the index has and the log has not is the failure INTERNAL, never an exception."""

    def __init__(self, index: QueueIndex, reader: RecordReader, log: WrittenLog, events: StoreEvents) -> None:
        self._events = events
        self._log = log
        self._index = index
        self._reader = reader

    def read(self, request: ReadRequest) -> ReadResult | Failure:
        """MessageLog.read."""
        topic, queue_id, offset = request.topic, request.queue_id, request.offset
        try:
            queue = self._index.queue(topic, queue_id)
        except (OSError, StoreError) as error:
            return self._unreadable(topic, queue_id, offset, error)
        if queue is None:
            return ReadResult("EMPTY" if offset == 0 else "TOO_LARGE", [], 0, 0, 0)
        first, end = queue.first, queue.visible
        if offset < first:
            return ReadResult("TOO_SMALL", [], first, first, end)
        if offset > end:
            return ReadResult("TOO_LARGE", [], end, first, end)
        if offset == end:
            return ReadResult("EMPTY", [], offset, first, end)
        try:
            if request.wanted is None:
                rows = self._index.encoded_rows(queue, offset, min(request.limit, end - offset))
                records = self._read_all(rows, request.max_bytes)
                following = offset + len(records)
                if not all(records):  # b"" was lost
                    records = [record for record in records if record]
            else:
                records, following = self._filtered(queue, request, request.wanted)
        except (OSError, StoreError) as error:
            return self._unreadable(topic, queue_id, offset, error)
        if queue.lite:
            records = [lite.seen_in(record, queue.entry.name, queue.lite) for record in records]
        return ReadResult("FOUND" if records else "NO_MATCH", records, following, first, end)

    def _unreadable(self, topic: str, queue_id: int, offset: int, error: OSError | StoreError) -> Failure:
        self._events.unreadable(error)
        return unreadable(error, f"{topic} queue {queue_id} cannot be read at {offset}: {error}")

    def _read_all(self, rows: bytes, max_bytes: int) -> list[bytes]:
        """The records of encoded `rows`, of at most `max_bytes`. Raises as `_readable` for the first of an answer."""
        places, sizes = columns(rows)
        count = fitting(sizes, max_bytes)
        try:
            return self._reader.fetch_at(places[:count], sizes[:count])
        except (OSError, StoreError):
            return self._readable(list(ROW.iter_unpack(rows[: count * ROW_BYTES])), True)

    def _readable(self, rows: Sequence[Row], first: bool) -> list[bytes]:
        """The records of `rows` up to one that cannot be read. Raises its error when it is the `first` of an answer."""
        found, error = readable(self._reader.fetch, rows)
        if error is not None:
            self._events.unreadable(error)
            if first and not found:
                raise error
        return found

    def _filtered(self, queue: Queue, request: ReadRequest, wanted: Filter) -> tuple[list[bytes], int]:
        """(records that match `wanted`, next offset). Filters by tag hashes in the index first, then by properties."""
        found: list[bytes] = []
        size = scanned = 0
        offset, limit, max_bytes = request.offset, request.limit, request.max_bytes
        stop = min(queue.visible, offset + max(1, SCAN_ROWS_MAX // wanted.cost))
        hashes = wanted.hashes
        while offset < stop and len(found) < limit and scanned < SCAN_BYTES_MAX:
            rows = self._index.rows(queue, offset, min(256, stop - offset))
            if not rows:
                break
            places = [at for at, row in enumerate(rows) if hashes is None or row[2] in hashes]
            last = len(rows)
            if hashes is not None and len(places) > limit - len(found):
                last = places[limit - len(found)]
                places = places[: limit - len(found)]
            part = rows_within([rows[at] for at in places], READ_BYTES_MAX)
            records = self._readable(part, offset == request.offset and not found)
            for at, record in zip(places, records, strict=False):
                scanned += len(record)
                if not record or not wanted.matches(Record(record).properties):
                    continue
                if found and (size + len(record) > max_bytes or len(found) == limit):
                    return found, offset + at
                size += len(record)
                found.append(record)
            if len(records) < len(part):
                return found, offset + places[len(records)]
            offset += places[len(part)] if len(part) < len(places) else last
        return found, offset

    def bytes_at(self, position: int) -> bytes | None:
        """The record at log position `position`, readable by consumers or not. Raises OSError."""
        return self._reader.at(position, self._log.written)

    def at(self, position: int) -> bytes | Failure:
        """The readable record at log position `position`; MESSAGE_NOT_FOUND, INTERNAL."""
        try:
            data = self._reader.at(position, self._log.written)
            if data is not None and check(data):
                record = Record(data)
                queue = self._index.queue(record.topic, record.queue_id)
                if record.physical_offset == position and queue is not None and _holds(queue, record):
                    return data
        except (OSError, StoreError) as error:
            self._events.unreadable(error)
            return unreadable(error, f"the log cannot be read at {position}: {error}")
        return Failure(ErrorCode.MESSAGE_NOT_FOUND, f"no message begins at {position}")

    def bounds(self, topic: str, queue_id: int) -> tuple[int, int] | Failure:
        """MessageLog.bounds."""
        try:
            queue = self._index.queue(topic, queue_id)
        except (OSError, StoreError) as error:
            return self._unreadable(topic, queue_id, 0, error)
        return (0, 0) if queue is None else (queue.first, queue.visible)

    def search(self, topic: str, queue_id: int, timestamp_ms: int, upper: bool) -> int | Failure:
        """MessageLog.search. A time before the first message gives its offset, a time after the last one the end of the queue,
        or for `upper` the last offset."""
        try:
            return self._search(topic, queue_id, timestamp_ms, upper)
        except (OSError, StoreError) as error:
            return self._unreadable(topic, queue_id, 0, error)

    def _search(self, topic: str, queue_id: int, timestamp_ms: int, upper: bool) -> int:
        queue = self._index.queue(topic, queue_id)
        if queue is None:
            return 0
        low, high = queue.first, queue.visible
        if not upper:
            return self._index.search(queue, low, high, lambda row: row[3] >= timestamp_ms)
        return max(self._index.search(queue, low, high, lambda row: row[3] > timestamp_ms) - 1, low)


def _holds(queue: Queue, record: Record) -> bool:
    """True when `record` is readable in `queue`, and not of a deleted topic of the same name."""
    return queue.entry.epoch <= record.physical_offset and queue.first <= record.queue_offset < queue.visible
