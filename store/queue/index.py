"""The queue index: all queues write their rows as blocks into a few shared files, and remember where their blocks are."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import Final, final

from domain.errors import StoreError
from domain.ports import Disk
from domain.topic import lite
from store.queue import block, table
from store.queue.block_files import BlockFiles
from store.queue.entries import TopicEntries
from store.queue.queue import Queue, TopicEntry
from store.queue.row import ROW, ROW_BYTES, Row
from store.queue.tails import Tails
from store.settings import StoreSettings

_SPILL_QUEUES: Final = 64
_SPILL_COST_ROWS: Final = 64
_WRITE_ROWS: Final = 2_048
FORGET_QUEUES: Final = 512
"""Queues of deleted topics that are forgotten in one step."""


@final
class QueueIndex(TopicEntries):
    """Topics, their queues and their rows.

    Rows stay in memory until a queue has a block full of them, or until all queues together have `tail_rows_max`: then the
    queues whose oldest row is the oldest write theirs out as smaller blocks. A small block is merged with the one before it
    when that is not much larger, so a queue of n messages has about n / 512 blocks, and a row is written a few times at most.

    tail_rows            rows in memory, all queues together
    log_start            position of the first record that the log still has
    lost_ms              last position of a gap of the log -> store time of the messages that were lost there
    _tails               queues with rows in memory, the one with the oldest row first
    deleted              entries of deleted topics whose queues have to be forgotten
    """

    def __init__(self, disk: Disk, config: StoreSettings, first: int, end: int) -> None:
        """Raises DerivedDamageError, as BlockFiles does."""
        super().__init__(config.durability.waits_for_sync)
        self._config = config
        self.files = BlockFiles(disk, config.index_segment_bytes, first, end)
        self._tails = Tails()
        self.tail_rows = 0
        self.blocks = 0
        self.log_start = 0
        self.lost_ms: dict[int, int] = {}
        self.deleted: list[TopicEntry] = []

    def queue(self, topic: str, queue_id: int) -> Queue | None:
        """One queue, with its `first` up to date; None when it was never written."""
        entry = self.topics.get(topic)
        queue = self.lite_queue(topic) if entry is None else entry.queues.get(queue_id)
        if queue is not None:
            self.refresh(queue)
        return queue

    def refresh(self, queue: Queue) -> None:
        """Bring `queue.first` up to date: it is computed when records have been deleted since the last call."""
        oldest = self.log_start
        if queue.lite and queue.entry.retained_from > oldest:
            oldest = queue.entry.retained_from
        if queue.log_start >= oldest:
            return
        queue.log_start = oldest
        self.trim(queue, self.search(queue, queue.first, queue.next, lambda row: row[0] >= oldest))

    def add(self, queue: Queue, row: bytes) -> None:
        """Add the row of offset `queue.next`, and advance `next`."""
        tail = queue.tail
        if tail is None:
            queue.tail = bytearray(row)
            queue.tail_first = queue.next
            self._tails.add(queue)
        else:
            tail += row
        queue.next += 1
        self.tail_rows += 1

    def spill(self) -> Iterator[int]:
        """Write out the oldest tails while memory is above its bound; yields the cost of each step, in rows. Raises OSError."""
        if self.tail_rows > self._config.tail_rows_max:
            while self._tails and self.tail_rows > self._config.tail_rows_max // 2:
                for queue in self._tails.oldest(_SPILL_QUEUES):
                    self.write_out(queue)
                yield _SPILL_QUEUES * _SPILL_COST_ROWS

    def write_below(self, position: int, most: int) -> bool:
        """Write out queues that hold rows of records before `position`, at most `most` and no more after _WRITE_ROWS rows.

        True when none is left.
        """
        count = 0
        for queue in self._tails.oldest(most):
            tail = queue.tail
            assert tail is not None
            count += len(tail) // ROW_BYTES
            if count > _WRITE_ROWS + len(tail) // ROW_BYTES:
                return False
            if ROW.unpack_from(tail)[0] >= position:
                return True
            self.write_out(queue)
        return not self._tails

    def write_out(self, queue: Queue) -> None:
        """Move the rows of `queue` from memory to a block. Raises OSError."""
        tail = queue.tail
        if tail is None:
            return
        count = len(tail) // ROW_BYTES
        rows = bytes(tail)
        first = queue.tail_first
        last = ROW.unpack_from(rows, len(rows) - ROW_BYTES)[0]
        rows, first, merged = self._merge(queue, rows, first)
        entry = queue.entry
        data = block.encode(queue.name, queue.id, entry.epoch, first, last, rows)
        place = self.files.append(data, last)
        if merged:
            known = queue.block_count()
            self.blocks -= queue.drop_blocks(known - merged, known)
        queue.add_block(first, place)
        queue.last_record = last
        self.blocks += 1
        self.tail_rows -= count
        queue.tail = None
        queue.tail_first = queue.next
        self._tails.remove(queue)

    def add_lost(self, queue: Queue, count: int, position: int) -> None:
        """Step over `count` messages from `queue.next` on, which were lost in the gap that holds `position`. Raises OSError.

        Their rows have a size of 0.
        """
        self.write_out(queue)
        if queue.first < queue.next:
            data = block.encode_lost(queue.name, queue.id, queue.entry.epoch, queue.next, position, count)
            self.files.append_here(data, position)
            queue.add_block(queue.next, -1 - position)
            self.blocks += 1
            queue.next = queue.tail_first = queue.visible = queue.next + count
        else:
            queue.first = queue.next = queue.tail_first = queue.visible = queue.next + count
        queue.last_record = position

    def _merge(self, queue: Queue, rows: bytes, first: int) -> tuple[bytes, int, int]:
        """Merge the last blocks of `queue` with `rows` while they are small: (rows, their first offset, blocks merged)."""
        merged = 0
        blocks, known = queue.blocks, queue.block_count()
        while blocks is not None and merged < known:
            at = known - 1 - merged
            before = blocks[at]
            count = first - before
            ours = len(rows) // ROW_BYTES
            if count > 2 * ours or count + ours > block.ROWS_MAX or blocks[known + at] < self.files.segments.first:
                break
            try:
                older = self.files.rows(queue, at, before, count)
            except StoreError:
                break  # its reader gets the error
            if len(older) != count * ROW_BYTES:
                break
            rows, first = older + rows, before
            merged += 1
        return rows, first, merged

    def rows(self, queue: Queue, offset: int, limit: int) -> list[Row]:
        """At most `limit` rows from `offset` on, from `first` to `next`; fewer when a block cannot be read. Raises OSError."""
        return list(ROW.iter_unpack(self.encoded_rows(queue, offset, limit)))

    def encoded_rows(self, queue: Queue, offset: int, limit: int) -> bytes:
        """`rows`, encoded."""
        tail = queue.tail
        if tail is not None and offset >= queue.tail_first:
            at = (offset - queue.tail_first) * ROW_BYTES
            return bytes(tail[at : at + limit * ROW_BYTES])
        blocks = queue.blocks
        if not blocks:
            return b""
        known = len(blocks) // 2
        index = bisect_right(blocks, offset, 0, known) - 1
        if index < 0:
            return b""
        end = blocks[index + 1] if index + 1 < known else queue.tail_first
        place = blocks[known + index]
        if place < 0:
            found = ROW.pack(-1 - place, 0, 0, self.lost_ms.get(-1 - place, 0)) * min(limit, end - offset)
        else:
            found = self.files.rows(queue, index, offset, min(limit, end - offset))
        count = len(found) // ROW_BYTES
        if 0 < count < limit and offset + count < queue.next:
            found += self.encoded_rows(queue, offset + count, limit - count)
        return found

    def search(self, queue: Queue, low: int, high: int, past: Callable[[Row], bool]) -> int:
        """The lowest offset in [low, high) whose row is `past`, else `high`. Once `past` is true, it is true for later rows."""
        while low < high:
            middle = (low + high) // 2
            row = self.rows(queue, middle, 1)
            if row and past(row[0]):
                high = middle
            else:
                low = middle + 1
        return low

    def trim(self, queue: Queue, first: int) -> None:
        """Raise `queue.first` to `first`, and forget the blocks and the tail that hold only lower offsets."""
        if first <= queue.first:
            return
        queue.first = first
        blocks = queue.blocks
        if blocks is not None:
            known = len(blocks) // 2
            gone = known if first >= queue.tail_first else max(bisect_right(blocks, first, 0, known) - 1, 0)
            self.blocks -= queue.drop_blocks(0, gone)
        tail = queue.tail
        # Rows whose records the log still has are kept until they are in a block: recovery finds `next` by them.
        if tail is not None and first >= queue.next and ROW.unpack_from(tail, len(tail) - ROW_BYTES)[0] < self.log_start:
            self.forget_tail(queue)

    def forget_tail(self, queue: Queue) -> None:
        """Forget the rows in memory: their records are deleted, or the queue is."""
        if queue.tail is not None:
            self.tail_rows -= queue.tail_rows()
            queue.tail = None
            queue.tail_first = queue.next
            self._tails.remove(queue)

    def drop_topic(self, topic: str, epoch: int) -> None:
        """Forget a topic's queues. Records before position `epoch` do not belong to a later topic of the same name.

        The configuration stays until its removal is durable.
        """
        old = self.topics.get(topic)
        self.lite_topics.pop(topic, None)
        self.topics[topic] = TopicEntry(topic, self._flushed_default, epoch)
        if old is not None:
            self.configured -= old.settings is not None
            self.queue_count -= len(old.queues)
            self.configure(topic, old.settings, old.created_ms, old.anchor)
            self.deleted.append(old)
            next(self.forget_deleted(), 0)

    def forget_deleted(self) -> Iterator[int]:
        """Forget the queues of deleted topics; yields the cost of each step, in rows."""
        while self.deleted:
            queues = self.deleted[-1].take_queues(FORGET_QUEUES)
            if not queues:
                self.deleted.pop()
                continue
            for queue in queues:
                self.forget_tail(queue)
                self.blocks -= queue.block_count()
            yield 4 * len(queues)

    def drop(self, queue: Queue) -> None:
        """Forget a queue."""
        self.forget_tail(queue)
        self.blocks -= queue.block_count()
        if not queue.lite:
            if queue.entry.queues.pop(queue.id, None) is not None:
                self.queue_count -= 1
        elif queue.entry.lite_queues is not None:
            queue.entry.lite_queues.pop(queue.lite, None)

    def load(self, begin: int, position: int, epochs: Callable[[str], int]) -> None:
        """Read the headers of all blocks from place `begin` on. Rows of records from `position` on are left out: recovery reads
        those records again.

        `epochs(topic)` is the epoch of a topic; blocks of an earlier epoch are skipped. Raises DerivedDamageError and OSError.
        """
        for place, found in self.files.headers(begin):
            self._load_block(found, place, position, epochs(lite.topic_of(found.topic)))

    def _load_block(self, found: block.Block, place: int, position: int, epoch: int) -> None:
        if found.epoch < epoch:
            return
        entry = self.entry(lite.topic_of(found.topic))
        if found.epoch != entry.epoch:
            if found.epoch < entry.epoch:
                return
            for queue in entry.all_queues():
                self.drop(queue)
            entry.epoch = found.epoch
        queue = _queue_of(self, found, entry)
        if found.first > queue.next:
            return  # the rows before these belong to records from `position` on, so recovery reads all of them again
        self.forget_tail(queue)
        blocks = queue.blocks
        if blocks:
            known = len(blocks) // 2
            self.blocks -= queue.drop_blocks(bisect_left(blocks, found.first, 0, known), known)
        if found.last_physical < position:
            queue.add_block(found.first, -1 - found.last_physical if found.lost else place)
            self.blocks += 1
            queue.next = queue.visible = queue.tail_first = found.first + found.count
            queue.last_record = found.last_physical
            return
        queue.next = queue.visible = queue.tail_first = found.first
        if found.lost:
            return
        rows = self.files.all_rows(place, found)
        for at in range(0, len(rows), ROW_BYTES):
            if ROW.unpack_from(rows, at)[0] >= position:
                break
            self.add(queue, rows[at : at + ROW_BYTES])
        queue.visible = queue.next

    def load_queues(self, body: bytes) -> None:
        """Load a frame of queues (table.py)."""
        self.blocks += table.load_queues(self, body, self.files.segments.first)


def _queue_of(index: QueueIndex, found: block.Block, entry: TopicEntry) -> Queue:
    """The queue of a block; created when it does not exist."""
    lite_topic = lite.split(found.topic)[1]
    if lite_topic:
        return index.lite_queue(found.topic) or index.new_lite_queue(entry, lite_topic, found.first)
    queue = entry.queues.get(found.queue_id)
    if queue is None:
        queue = index.new_queue(entry, found.queue_id, found.first)
    return queue
