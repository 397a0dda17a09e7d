"""Writes of batches to the segments, in the order of their acceptance."""

from __future__ import annotations

from typing import final

from store.log import batch
from store.log.batch import Writer
from store.log.open_batch import OpenBatch
from store.log.recent import RecentBytes, TailCache
from store.log.segment import Segments


@final
class BatchWriter:
    """The written part of the log.

    behind_batch    position behind the last batch written; a filler may follow it
    writes, written_bytes   counters since the start
    state_bytes     bytes of state records written, or applied by recovery, since the start
    recent          the newest bytes, for followers; None: this log is not replicated
    _rolling        True: the segment has its filler, and the next segment does not exist yet
    """

    def __init__(self, segments: Segments, cache: TailCache) -> None:
        self.segments = segments
        self._cache = cache
        self._rolling = False
        self.written = self.behind_batch = segments.end
        self.writer = Writer(0, 0)
        self.writes = self.written_bytes = self.state_bytes = 0
        self.recent: RecentBytes | None = None

    def begin(self, writer: Writer, behind_batch: int) -> None:
        """Begin at the end of the log, after recovery; its last batch ends at `behind_batch`."""
        self.writer = writer
        self.written = self.segments.end
        self.behind_batch = behind_batch

    def write(self, current: OpenBatch, store_ms: int, now_ms: int, synced: int) -> None:
        """Write a closed batch. `now_ms`: the time now, by which it will be deleted. `synced`: position below which the log is
        durable. Raises OSError if it is not written."""
        state_at = current.end - current.base - len(current.parts[-1]) if current.changes else 0
        data = batch.encode(current.parts, current.base, store_ms, state_at, self.writer, synced)
        self._append(data)
        self.writes += 1
        self.written_bytes += len(data)
        if state_at:
            self.state_bytes += len(current.parts[-1])
        self.written = self.behind_batch = current.end
        self.segments.active.newest_ms = now_ms
        records = current.parts[:-1] if current.changes else current.parts
        self._cache.add(current.places, records, len(data))

    def close_segment(self) -> None:
        """Write the filler, and begin the next segment. Raises OSError; a repeated call does the remaining part."""
        if not self._rolling:
            self._append(batch.FILLER)
            self.written = self.segments.end
            self._rolling = True
        self.segments.roll()
        self._rolling = False

    def _append(self, data: bytes) -> None:
        position = self.segments.end
        self.segments.append(data)
        if self.recent is not None:
            self.recent.add(position, data)
