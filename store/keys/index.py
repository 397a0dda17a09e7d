"""The key index: newest rows in memory, older ones in sorted runs that are merged into fewer, longer ones.

add -> tail -> sorted chunks in memory -> a run, at a checkpoint -> longer runs, below the checkpoint
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Final, final

from domain.message import property as properties
from domain.message.crc32 import crc32
from domain.message.message import Message
from domain.message.record import Record
from domain.ports import Clock, Disk
from store.keys import row
from store.keys.merge import Merge
from store.keys.run import RowChunk, Sorted
from store.keys.runs import SPAN_BYTES, KeyRuns
from store.log import batch
from store.log.segment import Segments
from store.settings import StoreSettings

CHUNK_ROWS: Final = 4_096
"""Rows of the unsorted tail, before it becomes a sorted chunk."""
CHUNKS_MAX: Final = 64
"""Sorted chunks in memory, before they are written without waiting for a checkpoint; at twice as many, `add` writes itself."""
_SEEDS_MAX: Final = 65_536


@final
class KeyIndex:
    """Rows of all keys, in the order of the log: runs, then chunks, then the tail.

    A checkpoint writes the rows before it into runs, except for a last part below an eighth of `checkpoint_bytes`, which is not
    worth a run: the next start reads it from the log again.

    runs                 sorted rows in files
    _seeds               topic -> seed of its hashes (row.seed_of)
    _tail                unsorted rows of the positions from _begin to _end, stored from _first_ms to _last_ms; of each row the
                         low half, then the high one: numbers above 2^62 take twice as long
    _chunks              sorted rows in memory, oldest first
    _spill               the merge under way of chunks into a run
    _gap_bytes           the part of the log that is not worth a run
    """

    def __init__(
        self,
        disk: Disk,
        clock: Clock,
        config: StoreSettings,
        failed: Callable[[str, OSError], None],
        chunk_rows: int = CHUNK_ROWS,
    ) -> None:
        """`failed(what, error)` is called after a failed write: the store then takes no more writes, or none for a while."""
        self._disk = disk
        self.runs = KeyRuns(disk, clock, failed)
        self._chunk_rows = chunk_rows
        self._gap_bytes = config.checkpoint_bytes // 8
        self._seeds: dict[str, int] = {}
        self._tail: array[int] = array("I")
        self._begin = 0
        self._end = 0
        self._first_ms = 0
        self._last_ms = 0
        self._chunks: list[RowChunk] = []
        self._spill: Merge | None = None

    # Adding

    def add(self, messages: Sequence[Message], places: Sequence[int], first_ms: int, last_ms: int, batch_base: int) -> None:
        """Index the keys of messages of one batch that has been written.

        `places` are their positions, ascending; their store times are from `first_ms` to `last_ms`.
        """
        if len(self._tail) >= 2 * self._chunk_rows and batch_base > self._begin:
            self._seal(batch_base)
            if len(self._chunks) >= CHUNKS_MAX:
                self.runs.attempt(self._spill_when_full)
        last = places[-1]
        start = last - last % SPAN_BYTES
        if places[0] < start:
            cut = bisect_left(places, start)
            self.add(messages[:cut], places[:cut], first_ms, last_ms, batch_base)
            self.add(messages[cut:], places[cut:], first_ms, last_ms, batch_base)
            return
        if self._begin < start:
            self._seal(start)
        if not self._tail:
            self._first_ms = first_ms
        self._last_ms = last_ms
        self._end = last + 1
        seeds = self._seeds
        rows: list[int] = []
        for at, message in enumerate(messages):  # a strict `zip` is not compiled to a loop
            seed = seeds.get(message.topic)
            if seed is None:
                seed = self._seed(message.topic)
            low = places[at] - start
            stored = message.properties
            if message.message_id:
                rows.append(low)
                rows.append(crc32(message.message_id.encode(), seed))
            else:
                unique = row.id_of(stored)
                if unique:
                    rows.append(low)
                    rows.append(crc32(unique, seed))
            if stored.find(properties.KEYS_START) >= 0:
                for token in row.tokens_of(stored):
                    rows.append(low)
                    rows.append(crc32(token, seed))
        self._tail.fromlist(rows)

    def _seed(self, topic: str) -> int:
        if len(self._seeds) >= _SEEDS_MAX:
            self._seeds.clear()
        seed = self._seeds[topic] = row.seed_of(topic)
        return seed

    def _seal(self, end: int) -> None:
        """Make a chunk of the tail's rows before position `end`: the end of the tail, or a checkpoint."""
        rows = row.joined(self._tail)
        low = end - self._begin // SPAN_BYTES * SPAN_BYTES
        count = len(rows) if end >= self._end else bisect_left(rows, low, key=lambda found: found & row.LOW)
        if end > self._begin:
            # A part of the log without keys has a chunk without rows: no start reads it again to find none.
            ordered = array("Q", sorted(rows[:count]))
            self._chunks.append(RowChunk(ordered, self._begin, end, self._first_ms, self._last_ms))
            del self._tail[: 2 * count]
        self._begin = self.runs.newest = end
        self._end = max(self._end, end)

    # Searching

    def sources(self, topic: str, key: str) -> tuple[int, Iterator[Sorted]]:
        """(hash of a key, all rows that may hold it, newest first)."""
        hashed = row.hash_of(key, self._seeds.get(topic) or row.seed_of(topic))
        fresh = array("Q", (found for found in row.joined(self._tail) if found >> 32 == hashed))
        tail = RowChunk(fresh, self._begin, self._end, self._first_ms, self._last_ms)
        return hashed, chain((tail,), reversed(self._chunks), reversed(self.runs.all))

    @property
    def memory_rows(self) -> int:
        """Number of rows in memory."""
        return len(self._tail) // 2 + sum(chunk.count for chunk in self._chunks)

    # Writing

    def _spill_when_full(self) -> None:
        """Begin to write chunks when there are CHUNKS_MAX; write without pauses when there are twice as many."""
        if self._spill is None:
            self._begin_spill(self._chunks)
            self.runs.later(self._continue_spill)
        while len(self._chunks) >= 2 * CHUNKS_MAX and self._spill is not None:
            self._step_spill()

    def _continue_spill(self) -> None:
        if self._spill is not None:
            self._step_spill()
            self.runs.later(self._continue_spill)

    def _begin_spill(self, chunks: Sequence[RowChunk]) -> None:
        """Begin to merge the oldest chunks of one span into a run."""
        span = chunks[0].begin // SPAN_BYTES
        self._spill = Merge(self._disk, [chunk for chunk in chunks if chunk.begin // SPAN_BYTES == span])

    def _step_spill(self) -> None:
        job = self._spill
        assert job is not None
        try:
            done = job.step()
        except OSError:
            self._spill = None  # its chunks stay in memory
            self.runs.remove(job.run)
            raise
        if done:
            self._spill = None
            del self._chunks[: len(job.sources)]
            self.runs.add(job.run)

    def write_below(self, position: int) -> bool:
        """Write a slice of the rows before `position`; True when none, or too few for a run, are left. Raises OSError."""
        if self._spill is not None:
            self._step_spill()
            return False
        oldest = self._chunks[0].begin if self._chunks else self._begin
        if position - oldest < self._gap_bytes:
            return True
        if self._begin < position:
            self._seal(position)
        chunks = [chunk for chunk in self._chunks if chunk.end <= position]
        if chunks:
            self._begin_spill(chunks)
        return not chunks

    def drop_before(self, oldest: int) -> None:
        """Delete runs and chunks that end before position `oldest`; those being merged are deleted by a later call.

        A damaged run refuses its readers until the next start, which builds it again.
        """
        self.runs.drop_before(oldest)
        if self._spill is None:
            self._chunks = [chunk for chunk in self._chunks if chunk.end > oldest]

    # Opening and closing

    def load(self, position: int, segments: Segments, end: int) -> list[tuple[int, int]]:
        """Open the runs of the checkpoint at `position`, and index the rest of the log below `end`. Raises OSError.

        Returns (begin, end) of the parts of the log that are damaged: the index has the keys of all others.
        """
        begin = self.runs.load(position, segments.first)
        self._begin = self._end = self.runs.newest = begin
        damaged: list[tuple[int, int]] = []
        at = _batch_at(begin, segments)
        while at < end:
            for header, data in segments.walk(at, True):
                if header.position >= end:
                    break
                self.read(header, data, begin)
                at = header.position + header.size
            at = segments.after(at)
            if at < end:
                following = _behind(at, segments)
                damaged.append((at, following))
                at = following
        self._end = max(self._end, end)
        return damaged

    def read(self, header: batch.Header, data: bytes, begin: int = 0) -> None:
        """Index the messages of a batch that was read from the log, of those that stand at position `begin` or after."""
        at = header.head
        while at < header.size:
            size = int.from_bytes(data[at : at + 4], "big")
            if at != header.state_at and header.position + at >= begin:
                record = Record(data[at : at + size])
                message = Message(record.topic, b"", record.properties)
                self.add((message,), (header.position + at,), record.store_ms, record.store_ms, header.position)
            at += size

    def close(self) -> None:
        """Close the files of all runs."""
        self.runs.close()
        if self._spill is not None:
            self._spill.run.file.close()


def _behind(position: int, segments: Segments) -> int:
    """Continuation of the log behind a damaged batch: the next batch, or the next segment if its length is damaged."""
    segment = segments.at(position)
    if segment is None:
        return segments.end
    header = batch.header(segments.read(position, batch.HEADER_BYTES), position)
    if header is not None and position + header.size <= segment.end:
        return position + header.size
    return min(segments.follows(segment), segments.end)


def _batch_at(position: int, segments: Segments) -> int:
    """The position of the batch that holds `position`; `position` itself when none does."""
    if batch.header(segments.read(position, batch.HEADER_BYTES), position) is not None:
        return position
    segment = segments.at(position)
    if segment is not None:
        for header, _ in segments.walk(segment.base, False):
            if header.position + header.size > position:
                return header.position
    return position
