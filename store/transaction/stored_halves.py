"""Reads of stored half messages by their offset in the half queue."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from domain.errors import StoreError
from store.appends.writer import StoreWriter
from store.log.reader import RecordReader
from store.queue.index import QueueIndex
from store.queue.row import Row


@final
class StoredHalves:
    """The half messages in the log, each found by the row of its offset."""

    def __init__(self, index: QueueIndex, reader: RecordReader, writer: StoreWriter) -> None:
        self._index = index
        self._reader = reader
        self._writer = writer

    def row(self, offset: int) -> Row | None:
        """Read the index row of a half message. Returns None when the row is lost or cannot be read."""
        queue = self._writer.half_queue()
        self._index.refresh(queue)
        rows = self._index.rows(queue, offset, 1) if queue.first <= offset < queue.visible else []
        return rows[0] if rows and not self._reader.is_lost(rows[0]) else None

    def is_lost(self, offset: int) -> bool:
        """True when the half message at `offset` was lost in a gap of the log."""
        queue = self._writer.half_queue()
        rows = self._index.rows(queue, offset, 1) if queue.first <= offset < queue.visible else []
        return bool(rows) and self._reader.is_lost(rows[0])

    def readable(self, rows: Sequence[tuple[int, Row]]) -> list[tuple[int, bytes]]:
        """(offset, record) of the half messages that can be read: one that is damaged holds back no other."""
        try:
            records = self._reader.fetch([row for _, row in rows])
        except (OSError, StoreError):
            found: list[tuple[int, bytes]] = []
        else:
            return [(offset, data) for (offset, _), data in zip(rows, records, strict=True)]
        for offset, row in rows:
            try:
                found.append((offset, self._reader.fetch([row])[0]))
            except (OSError, StoreError):
                continue
        return found
