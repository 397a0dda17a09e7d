"""The queue index: all queues write their rows as blocks into a few shared files, and remember where their blocks are."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from typing import Final, final

from domain import lite
from domain.errors import StoreError
from domain.ports import Disk
from store.checkpoint.derived_damage import DerivedDamageError
from store.log.segment import Segments, file_name
from store.queue import block, table
from store.queue.block_rows import FOLDER, BlockRows
from store.queue.entries import TopicEntries
from store.queue.last_records import LastRecords
from store.queue.queue import Queue, TopicEntry
from store.queue.row import ROW, ROW_BYTES, Row
from store.queue.tails import Tails
from store.settings import StoreSettings

_HEADER_BYTES_MAX: Final = block.HEADER_BYTES + block.NAME_BYTES_MAX
_READ_BYTES: Final = 16_384
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
    blocks               blocks in the files that queues refer to
    log_start            position of the first record that the log still has
    lost_ms              last position of a gap of the log -> store time of the messages that were lost there
    _tails               queues with rows in memory, the one with the oldest row first
    deleted              entries of deleted topics whose queues have to be forgotten
    last_records         base of an index file -> the highest log position that a block in it refers to
    """

    def __init__(self, disk: Disk, config: StoreSettings, first: int, end: int) -> None:
        """Open the files and cut off what lies beyond `end`. The checkpoint needs the blocks from `first` to `end`.

        Raises DerivedDamageError.
        """
        self._config = config
        self._disk = disk
        self._files = Segments(disk, FOLDER)
        self._files.delete_left()
        if end and (self._files.end < end or self._files.first > first):
            self._files.close()
            text = f"the index goes from {self._files.first} to {self._files.end}, and the checkpoint needs {first} to {end}"
            raise DerivedDamageError(text, FOLDER)
        self._files.cut(min(end, self._files.end))
        super().__init__(config.durability.waits_for_sync)
        self._block_rows = BlockRows(disk, self._files)
        self._tails = Tails()
        self.tail_rows = 0
        self.blocks = 0
        self.log_start = 0
        self.lost_ms: dict[int, int] = {}
        self.deleted: list[TopicEntry] = []
        self.last_records = LastRecords(self._files)

    @property
    def first(self) -> int:
        """The place of the first block."""
        return self._files.first

    @property
    def end(self) -> int:
        """The place after the last block."""
        return self._files.end

    def files(self, end: int) -> list[tuple[str, int]]:
        """(name, bytes) of the files with the blocks before place `end`."""
        return self._files.files(end)

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
        if self._files.end - self._files.active.base + len(data) > self._config.index_segment_bytes:
            self._files.roll()
        place = self._files.end
        self._files.append(data)
        self.last_records.note(self._files.active.base, last)
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
            self._files.append(data)
            self.last_records.note(self._files.active.base, position)
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
            if count > 2 * ours or count + ours > block.ROWS_MAX or blocks[known + at] < self._files.first:
                break
            try:
                older = self._block_rows.read(queue, at, before, count)
            except StoreError:
                break  # its reader gets the error
            if len(older) != count * ROW_BYTES:
                break
            rows, first = older + rows, before
            merged += 1
        return rows, first, merged

    def rows(self, queue: Queue, offset: int, limit: int) -> list[Row]:
        """At most `limit` rows from `offset` on, from `first` to `next`; fewer when a block cannot be read. Raises OSError."""
        tail = queue.tail
        if tail is not None and offset >= queue.tail_first:
            at = (offset - queue.tail_first) * ROW_BYTES
            return list(ROW.iter_unpack(tail[at : at + limit * ROW_BYTES]))
        blocks = queue.blocks
        if not blocks:
            return []
        known = len(blocks) // 2
        index = bisect_right(blocks, offset, 0, known) - 1
        if index < 0:
            return []
        end = blocks[index + 1] if index + 1 < known else queue.tail_first
        place = blocks[known + index]
        if place < 0:
            found = [(-1 - place, 0, 0, self.lost_ms.get(-1 - place, 0))] * min(limit, end - offset)
        else:
            found = list(ROW.iter_unpack(self._block_rows.read(queue, index, offset, min(limit, end - offset))))
        if len(found) < limit and offset + len(found) < queue.next and found:
            found += self.rows(queue, offset + len(found), limit - len(found))
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
        place = max(begin, self._files.first)
        begin, data = 0, b""
        while place < self._files.end:
            segment = self._files.at(place)
            if segment is None:
                raise DerivedDamageError(f"the index has no file that holds {place}", FOLDER)
            found = block.header(data[place - begin : place - begin + _HEADER_BYTES_MAX]) if place >= begin else None
            if found is None:
                begin, data = place, segment.file.read(place - segment.base, _READ_BYTES)
                found = block.header(data[:_HEADER_BYTES_MAX])
            if found is None or place + found.size > segment.end:
                raise DerivedDamageError(f"the index has no valid block at {place}", file_name(FOLDER, segment.base))
            self.last_records.note(segment.base, found.last_physical)
            self._load_block(found, place, position, epochs(lite.topic_of(found.topic)))
            place += found.size

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
        groups = -(-found.count // block.GROUP_ROWS)
        rows = block.rows_of(self._files.read(place + found.rows_at, found.size - found.rows_at), groups)
        if rows is None:
            raise DerivedDamageError(f"the index block at {place} is damaged", FOLDER)
        for at in range(0, len(rows), ROW_BYTES):
            if ROW.unpack_from(rows, at)[0] >= position:
                break
            self.add(queue, rows[at : at + ROW_BYTES])
        queue.visible = queue.next

    def load_queues(self, body: bytes) -> None:
        """Load a frame of queues (table.py)."""
        self.blocks += table.load_queues(self, body, self._files.first)

    def needed_from(self) -> int:
        """Base of the first index file with a block of records from `log_start` on; of the last file when none has one."""
        for segment in self._files.all:
            if self.last_records.of(segment.base) >= self.log_start:
                return segment.base
        return self._files.active.base

    def drop_before(self, place: int) -> None:
        """Delete the index files that end at `place` or before. Raises OSError."""
        while len(self._files.all) > 1 and self._files.all[1].base <= place:
            self.last_records.drop(self._files.first)
            self._files.drop_first()

    def sync(self, done: Callable[[OSError | None], None]) -> None:
        """Make the blocks durable; `done` gets the error, None when it succeeded."""
        self._files.sync(done)

    def close(self) -> None:
        """Close the files."""
        self._files.close()


def _queue_of(index: QueueIndex, found: block.Block, entry: TopicEntry) -> Queue:
    """The queue of a block; created when it does not exist."""
    lite_topic = lite.split(found.topic)[1]
    if lite_topic:
        return index.lite_queue(found.topic) or index.new_lite_queue(entry, lite_topic, found.first)
    queue = entry.queues.get(found.queue_id)
    if queue is None:
        queue = index.new_queue(entry, found.queue_id, found.first)
    return queue
