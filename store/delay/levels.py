"""Delay levels 1 to 18: each is a queue of SCHEDULE_TOPIC_XXXX whose messages fall due in order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import final

from domain.address import SCHEDULE_TOPIC
from domain.message.record import Record
from domain.store.store_ports import StateChange
from store.delay import parking
from store.queue.index import QueueIndex
from store.queue.queue import Queue
from store.queue.row import Row
from store.state.view import TIMER, StateView


def level_key(level: int) -> bytes:
    """State key of a level's progress, its next offset in decimal; `level` is 1 to 18."""
    return b"level-%d" % level


@final
class DelayLevels:
    """The progress of all levels. A level's queue id is the level less one.

    offsets   next offset to deliver, by queue id
    """

    def __init__(self, index: QueueIndex) -> None:
        self._index = index
        self.offsets = [0] * len(parking.LEVELS_MS)
        self._inherited_below = self._inherited_delay_ms = 0

    def inherit(self, below: int, delay_ms: int) -> None:
        """Wheel.inherit."""
        self._inherited_below, self._inherited_delay_ms = below, delay_ms

    def _due_of(self, level: int, row: Row) -> int:
        """Delivery time of a message, in epoch ms."""
        due = row[3] + parking.LEVELS_MS[level]
        return due + self._inherited_delay_ms if row[0] < self._inherited_below else due

    def load(self, state: StateView) -> None:
        """Load the stored progress."""
        for level in range(len(self.offsets)):
            self.offsets[level] = int(state.get(TIMER, level_key(level + 1)) or b"0")

    def next_ms(self) -> int:
        """Due time of the next message of any level, in epoch ms; 0 when none is pending."""
        found = 0
        for level in range(len(parking.LEVELS_MS)):
            rows = self._rows(level, 1)[1]
            if rows and (found == 0 or self._due_of(level, rows[0]) < found):
                found = self._due_of(level, rows[0])
        return found

    def due(self, level: int, limit: int, now: int) -> list[Row]:
        """Rows of at most `limit` messages of level `level` (a queue id) that are due at `now`; moves its offset past them."""
        offset, waiting = self._rows(level, limit)
        rows = list(takewhile(lambda row: self._due_of(level, row) <= now, waiting))
        if rows:
            self.offsets[level] = offset + len(rows)
        return rows

    def progress(self, level: int) -> StateChange:
        """The change that stores the progress of the level with queue id `level`."""
        return StateChange(TIMER, level_key(level + 1), b"%d" % self.offsets[level])

    def copied(self, record: Record) -> StateChange:
        """Move the progress past `record`, which has been copied forward; the change that stores it."""
        self.offsets[record.queue_id] = record.queue_offset + 1
        return self.progress(record.queue_id)

    def pending_below(self, position: int, found: list[tuple[int, Row]]) -> Iterator[int]:
        """Add (due ms, row) of pending messages before `position` to `found`; yields the rows of each read. Raises OSError."""
        for level, delay_ms in enumerate(parking.LEVELS_MS):
            queue = self._index.queue(SCHEDULE_TOPIC, level)
            if queue is not None:
                for rows in rows_below(self._index, queue, max(self.offsets[level], queue.first), position):
                    found += [(row[3] + delay_ms, row) for row in rows]
                    yield len(rows)

    def pending(self) -> int:
        """Number of messages that are not delivered yet."""
        queues = [(level, self._index.queue(SCHEDULE_TOPIC, level)) for level in range(len(self.offsets))]
        return sum(queue.visible - max(self.offsets[level], queue.first) for level, queue in queues if queue is not None)

    def _rows(self, level: int, limit: int) -> tuple[int, list[Row]]:
        """(offset of the first row, at most `limit` rows) that are not delivered yet."""
        queue = self._index.queue(SCHEDULE_TOPIC, level)
        if queue is None:
            return 0, []
        offset = max(self.offsets[level], queue.first)
        if offset >= queue.visible:
            return offset, []
        return offset, self._index.rows(queue, offset, min(limit, queue.visible - offset))


def rows_below(index: QueueIndex, queue: Queue, offset: int, position: int) -> Iterator[list[Row]]:
    """Rows of `queue` from `offset` on whose records stand before `position`, a read at a time."""
    while offset < queue.visible:
        rows = index.rows(queue, offset, min(1_024, queue.visible - offset))
        if not rows:
            offset += 1
            continue
        if rows[-1][0] >= position:
            yield [row for row in rows if row[0] < position]
            return
        yield rows
        offset += len(rows)
