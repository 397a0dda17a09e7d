"""Reading: records by queue and offset, by place, by time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, final

from domain.errors import ErrorCode, Failure, StoreError
from domain.filter.tag import TagFilter
from domain.ports import ReadResult
from domain.record import Record, check
from store.log.reader import RecordReader
from store.queue.index import QueueIndex
from store.queue.queue import Queue
from store.queue.row import Row

SCAN_ROWS_MAX: Final = 8_192


@final
class Reading:
    """What is durable, seen by queue. A record that the log should have and does not is INTERNAL, never an exception."""

    def __init__(self, index: QueueIndex, reader: RecordReader) -> None:
        self._index = index
        self._reader = reader

    def read(
        self, topic: str, queue_id: int, offset: int, limit: int, max_bytes: int, tags: TagFilter | None
    ) -> ReadResult | Failure:
        """MessageStore.read."""
        queue = self._index.queue(topic, queue_id)
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
            if tags is None:
                rows = self._index.rows(queue, offset, min(limit, end - offset))
                records = self._reader.fetch(_within(rows, max_bytes))
                following = offset + len(records)
            else:
                records, following = self._tagged(queue, offset, limit, max_bytes, tags)
        except (OSError, StoreError) as error:
            return Failure(ErrorCode.INTERNAL, f"{topic} queue {queue_id} cannot be read at {offset}: {error}")
        return ReadResult("FOUND" if records else "NO_MATCH", records, following, first, end)

    def _tagged(
        self, queue: Queue, offset: int, limit: int, max_bytes: int, tags: TagFilter
    ) -> tuple[list[bytes], int]:
        """Records that `tags` want: by hash in the index, then by the tag itself."""
        found: list[bytes] = []
        size = 0
        stop = min(queue.visible, offset + SCAN_ROWS_MAX)
        while offset < stop and len(found) < limit:
            rows = self._index.rows(queue, offset, min(max(limit, 256), stop - offset))
            if not rows:
                break
            picked: list[tuple[int, Row]] = []
            for at, row in enumerate(rows):
                if row[2] in tags.hashes:
                    full = (found or picked) and size + row[1] > max_bytes
                    if full or len(found) + len(picked) == limit:
                        stop = offset + at
                        rows = rows[:at]
                        break
                    size += row[1]
                    picked.append((at, row))
            records = self._reader.fetch([row for _, row in picked])
            found += [record for record in records if tags.matches(Record(record).properties)]
            offset += len(rows)
        return found, offset

    def at(self, position: int, end: int) -> bytes | Failure:
        """The record that begins at `position`, before `end` of the log: MESSAGE_NOT_FOUND."""
        try:
            data = self._reader.at(position, end)
        except OSError as error:
            return Failure(ErrorCode.INTERNAL, f"the log cannot be read at {position}: {error}")
        if data is not None and check(data):
            record = Record(data)
            queue = self._index.queue(record.topic, record.queue_id)
            if record.physical_offset == position and queue is not None and queue.first <= record.queue_offset < queue.visible:
                return data
        return Failure(ErrorCode.MESSAGE_NOT_FOUND, f"no message begins at {position}")

    def search(self, topic: str, queue_id: int, timestamp_ms: int, upper: bool) -> int:
        """MessageStore.search: before the first it is the first, after the last the end, or for `upper` the last."""
        queue = self._index.queue(topic, queue_id)
        if queue is None:
            return 0
        low, high = queue.first, queue.visible
        if not upper:
            return self._index.search(queue, low, high, lambda row: row[3] >= timestamp_ms)
        return max(self._index.search(queue, low, high, lambda row: row[3] > timestamp_ms) - 1, low)


def _within(rows: Sequence[Row], max_bytes: int) -> Sequence[Row]:
    """The first rows that fit into `max_bytes`, always one."""
    if len(rows) * 1_024 <= max_bytes and all(row[1] <= 1_024 for row in rows):
        return rows
    size = 0
    for at, row in enumerate(rows):
        size += row[1]
        if size > max_bytes and at:
            return rows[:at]
    return rows
