"""Queries by message key: rows of the key index give positions, the records there are compared with the key."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final, final

from domain.errors import Failure, StoreError
from domain.message.record import Record
from domain.store.store_request import KeyQuery
from store.events import StoreEvents
from store.keys import row
from store.keys.index import KeyIndex
from store.keys.run import Sorted
from store.keys.runs import SPAN_BYTES
from store.log.segment import Segments
from store.queue.index import QueueIndex
from store.reads.reading import Reading
from store.reads.repair_waits import DamageFailure, unreadable

MISSES_MAX: Final = 1_024
"""Limit on the records that one query reads without a match; at the limit it returns the results so far."""

_BLOCK_ROWS: Final = 64
_LAST_MS: Final = (1 << 63) - 1


@final
class KeySearch:
    """Queries by topic, key and store time. Store times never decrease along the log, so positions sort by time."""

    def __init__(self, keys: KeyIndex, reading: Reading, index: QueueIndex, segments: Segments, events: StoreEvents) -> None:
        self._events = events
        self._keys = keys
        self._reading = reading
        self._index = index
        self._segments = segments

    def find(self, query: KeyQuery, whole: bool = False) -> list[bytes] | Failure:
        """MessageLog.find. A record that is damaged is passed over; `whole`: it ends the query, with DamageFailure."""
        topic, key, begin_ms, end_ms = query.topic, query.key, query.begin_ms, query.end_ms
        entry = self._index.topics.get(topic)
        if entry is None or not key:
            return []
        floor = max(self._segments.first, entry.epoch)
        hashed, sources = self._keys.sources(topic, key)
        found: list[bytes] = []
        room, misses = query.max_bytes, 0
        try:
            for source in sources:
                if not source.count:
                    continue
                if source.end <= floor or source.last_ms < begin_ms:
                    break
                for place in self._places(source, hashed, floor, end_ms):
                    data = self._reading.at(place)
                    if whole and isinstance(data, DamageFailure):
                        return data
                    record = Record(data) if isinstance(data, bytes) else None
                    if record is None or not _is_meant(record, topic, key, query.unique) or record.store_ms > end_ms:
                        misses += 1
                        if misses >= MISSES_MAX:
                            return found
                        continue
                    if record.store_ms < begin_ms:
                        return found
                    room -= len(record.data)
                    if room < 0 and found:
                        return found
                    found.append(record.data)
                    if len(found) >= query.limit:
                        return found
        except (OSError, StoreError) as error:
            self._events.unreadable(error)
            return unreadable(error, f"the key index cannot be read: {error}")
        return found

    def _places(self, source: Sorted, hashed: int, floor: int, end_ms: int) -> Iterator[int]:
        """Positions of records with the hash `hashed`, from `floor` on, stored up to `end_ms`; newest first. Raises OSError."""
        if source.first_ms > end_ms:
            return
        start = source.begin // SPAN_BYTES * SPAN_BYTES
        low = source.bound(hashed << 32 | min(max(floor - start, 0), row.LOW))
        high = source.bound((hashed + 1) << 32) if hashed < row.LOW else source.count
        if source.last_ms > end_ms:
            high = bisect_right(range(high), end_ms, low, high, key=lambda at: self._stored(source, at, start))
        while high > low:
            at = max(high - _BLOCK_ROWS, low)
            for found in reversed(source.rows(at, high - at)):
                yield start + (found & row.LOW)
            high = at

    def _stored(self, source: Sorted, at: int, start: int) -> int:
        """Store time of the record of row `at`; _LAST_MS when the record is not written yet."""
        data = self._reading.bytes_at(start + (source.rows(at, 1)[0] & row.LOW))
        return _LAST_MS if data is None else Record(data).store_ms


def _is_meant(record: Record, topic: str, key: str, unique: bool) -> bool:
    """True when `record` is of `topic` and has `key` as its id or, unless `unique`, among its KEYS."""
    if record.topic != topic:
        return False
    stored, wanted = record.properties, key.encode("utf-8", "replace")
    return row.id_of(stored) == wanted or (not unique and wanted in row.tokens_of(stored))
