"""Timers of rmq_sys_wheel_timer: those of open buckets are in memory, an integer each; later buckets are queues of the index.

No timer is delivered while an earlier one has been accepted and is not yet durable, so the progress never passes a timer that
is still to come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush
from typing import Final, final

from domain.address import TIMER_TOPIC
from domain.store.store_ports import StateChange
from store.delay import parking
from store.delay.levels import rows_below
from store.queue.index import QueueIndex
from store.queue.queue import Queue
from store.queue.row import Row
from store.state.view import TIMER, StateView

RECALLED: Final = b"recalled-"
LAST_DELIVERED_KEY: Final = b"mark"
"""State key of (due ms 8 | position 8) of the last timer delivered."""
COPIED_BELOW_KEY: Final = b"copied"
"""State key of the position below which every pending timer has been copied forward, in decimal."""
SLICE_ROWS: Final = 4_096
"""Rows that one turn of the loop loads: a few milliseconds."""
AHEAD_MS: Final = 60_000
"""A bucket is loaded this long before its first timer can be due."""
_ALL_LOADED: Final = 1 << 62
_POSITION_BITS: Final = 64
_SIZE_BITS: Final = 32


@final
class RecalledTimers:
    """Positions of recalled timers, whose records are void, and the changes that set and remove their keys in the state.

    positions   log positions of recalled timers whose time has not come
    _removed    positions whose removal is being written
    """

    def __init__(self) -> None:
        self._removed: list[int] = []
        self.positions: set[int] = set()

    def load(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        """Load the positions from (key, value) pairs of the state."""
        self.positions.update(int.from_bytes(key[len(RECALLED) :], "big") for key, _ in pairs)

    def add(self, positions: Iterable[int]) -> list[StateChange]:
        """Recall the timers at `positions`; the changes for the log."""
        added = list(positions)
        self.positions.update(added)
        return [_change(position, b"1") for position in added]

    def remove_due(self, position: int) -> StateChange:
        """Remove the key of a recalled timer whose time has come; its position stays until `removal_written`."""
        self._removed.append(position)
        return _change(position, None)

    def removal_written(self, durable: bool) -> None:
        """End the removals of `remove_due`: forget their positions, or keep them when the write was refused."""
        if durable:
            self.positions.difference_update(self._removed)
        self._removed = []

    def drop_below(self, position: int) -> list[StateChange]:
        """Forget the recalled timers before `position`; the changes for the log."""
        gone = sorted(at for at in self.positions if at < position)
        self.positions.difference_update(gone)
        return [_change(at, None) for at in gone]


def _change(position: int, value: bytes | None) -> StateChange:
    return StateChange(TIMER, RECALLED + position.to_bytes(8, "big"), value)


@final
class BucketLoad:
    """The rows of one bucket that were durable when its loading began; later ones are announced by WheelTimers.arrived.

    base_ms   begin of the bucket in epoch ms; no timer of it is due before
    """

    def __init__(self, index: QueueIndex, queue: Queue) -> None:
        self._index = index
        self._queue = queue
        self._offset = queue.first
        self._end = queue.visible
        self.base_ms = queue.id << parking.BUCKET_BITS

    @property
    def left(self) -> int:
        """Number of rows not loaded yet."""
        return self._end - self._offset

    def rows(self, limit: int) -> list[Row]:
        """The next rows, at most `limit`; passes over one that cannot be found. Raises OSError."""
        found = self._index.rows(self._queue, self._offset, min(limit, self._end - self._offset))
        self._offset += len(found) or 1
        return found


@final
class WheelTimers:
    """Pending timers, and the progress of their delivery.

    last_delivered      (due ms, position) of the last timer delivered
    copied_below        timers below this position of the log are void: retention has copied the pending ones forward
    _heap               timers of open buckets: due ms | position 64 bits | size 32 bits, as one integer
    _buckets, _known    heap and set of the buckets with timers that are not open yet
    _opened             buckets below this one are open: their new timers go to `_heap` directly
    _kept_ms            due time whose bucket, and all later ones, the index still has
    _accepted           position -> due ms of timers that are not durable yet
    """

    def __init__(self, index: QueueIndex) -> None:
        self._index = index
        self._heap: list[int] = []
        self._buckets: list[int] = []
        self._known: set[int] = set()
        self._opened = 0
        self._accepted: dict[int, int] = {}
        self._kept_ms = 0
        self._inherited_below = self._inherited_delay_ms = 0
        self.load: BucketLoad | None = None
        self.last_delivered = (0, -1)
        self.copied_below = 0
        self.recalled = RecalledTimers()

    def start(self, state: StateView) -> None:
        """Load the stored progress and the pending buckets. What was known before is forgotten, but for accepted timers."""
        self._heap.clear()
        self._known.clear()
        self._buckets.clear()
        self._opened = 0
        last = state.get(TIMER, LAST_DELIVERED_KEY)
        self.last_delivered = (0, -1) if last is None else (int.from_bytes(last[:8], "big"), int.from_bytes(last[8:], "big"))
        self.copied_below = int(state.get(TIMER, COPIED_BELOW_KEY) or b"0")
        self.recalled.load(state.scan(TIMER, RECALLED))
        for queue in self._queues():
            if (queue.id + 1) << parking.BUCKET_BITS <= self.last_delivered[0]:
                self._index.drop(queue)
            else:
                self._bucket(queue.id)
        self.load = None
        if self.last_delivered[0]:
            self.open_buckets(self.last_delivered[0])
        self._kept_ms = self.last_delivered[0]

    def inherit(self, below: int, delay_ms: int) -> None:
        """Wheel.inherit."""
        self._inherited_below, self._inherited_delay_ms = below, delay_ms

    def due_min_ms(self) -> int:
        """The earliest due time of a new timer: behind the last one delivered."""
        return self.last_delivered[0] + 1

    def accepted(self, position: int, due_ms: int) -> None:
        """Note a timer that has been accepted and is not yet durable; `arrived` follows when it is."""
        self._accepted[position] = due_ms

    def has_accepted(self) -> bool:
        """True while an accepted timer is not durable yet."""
        return bool(self._accepted)

    def arrived(self, queue: Queue, records: Sequence[bytes], copied: bool) -> None:
        """Take the records of timers that have become durable in `queue`. `copied`: pending timers are being copied forward."""
        for data in records:
            position = int.from_bytes(data[28:36], "big")
            if copied and self._inherited_delay_ms:
                self._inherited_below = position + 1  # it may be the copy of one that was inherited
            due = self._accepted.pop(position)
            if queue.id < self._opened:
                self._push(due, position, len(data))
        if queue.id >= self._opened:
            self._bucket(queue.id)

    def _queues(self) -> list[Queue]:
        entry = self._index.topics.get(TIMER_TOPIC)
        return [] if entry is None else list(entry.queues.values())

    def _push(self, due: int, position: int, size: int) -> None:
        heappush(self._heap, ((due << _POSITION_BITS) | position) << _SIZE_BITS | size)

    def _bucket(self, bucket: int) -> None:
        if bucket not in self._known:
            self._known.add(bucket)
            heappush(self._buckets, bucket)

    def _due_of(self, packed: int) -> int:
        """The delivery time of a timer, epoch ms. `packed`: its entry in `_heap`."""
        due = packed >> (_POSITION_BITS + _SIZE_BITS)
        is_inherited = (packed >> _SIZE_BITS) & ((1 << _POSITION_BITS) - 1) < self._inherited_below
        return due + self._inherited_delay_ms if is_inherited else due

    def next_ms(self) -> int:
        """Due time of the next timer or bucket, in epoch ms; 0 when none is pending."""
        found = self._due_of(self._heap[0]) if self._heap else 0
        if self._buckets:
            begins = max((self._buckets[0] << parking.BUCKET_BITS) - AHEAD_MS, 1)
            found = begins if found == 0 else min(found, begins)
        return found

    def open_buckets(self, now: int) -> int:
        """Load a slice of the buckets whose time is near; returns the time before which all timers are in the heap."""
        current = (now + AHEAD_MS) >> parking.BUCKET_BITS
        room = SLICE_ROWS
        while True:
            load = self.load
            if load is None:
                if not self._buckets or self._buckets[0] > current:
                    self._opened = max(self._opened, current + 1)
                    return _ALL_LOADED
                bucket = heappop(self._buckets)
                self._known.discard(bucket)
                self._opened = max(self._opened, bucket + 1)
                queue = self._index.queue(TIMER_TOPIC, bucket)
                if queue is not None:
                    self.load = BucketLoad(self._index, queue)
            elif load.left <= 0:
                self.load = None
            elif room <= 0:
                return load.base_ms
            else:
                rows = load.rows(room)
                room -= len(rows) or 1
                for position, size, within, _ in rows:
                    due = load.base_ms + within
                    if size and (due, position) > self.last_delivered and position >= self.copied_below:
                        self._push(due, position, size)

    def due(self, before_ms: int, room: int, room_bytes: int) -> tuple[list[Row], list[StateChange]]:
        """(rows of timers that are due before `before_ms`, the changes that store the progress past them). At most `room` rows;
        the one that fills `room_bytes` is the last."""
        limit = min(min(self._accepted.values(), default=before_ms), before_ms)
        heap = self._heap
        rows: list[Row] = []
        changes: list[StateChange] = []
        last = self.last_delivered
        # In the order of their times: one that is delayed delays those behind it, or the progress would pass it.
        while heap and self._due_of(heap[0]) < limit and len(rows) < room and room_bytes > 0:
            packed = heappop(heap)
            due = packed >> (_POSITION_BITS + _SIZE_BITS)
            position = (packed >> _SIZE_BITS) & ((1 << _POSITION_BITS) - 1)
            size = packed & ((1 << _SIZE_BITS) - 1)
            if position in self.recalled.positions:
                changes.append(self.recalled.remove_due(position))
            elif position >= self.copied_below:
                rows.append((position, size, 0, due))
                room_bytes -= size
            last = (due, position)
        if last != self.last_delivered:
            self.last_delivered = last
            mark = last[0].to_bytes(8, "big") + last[1].to_bytes(8, "big")
            changes.append(StateChange(TIMER, LAST_DELIVERED_KEY, mark))
        return rows, changes

    def drop_delivered(self) -> None:
        """Drop the queues of the buckets that have been delivered since the last call."""
        before, self._kept_ms = self._kept_ms, self.last_delivered[0]
        entry = self._index.topics.get(TIMER_TOPIC)
        if before == 0 or entry is None:
            return
        for bucket in range(before >> parking.BUCKET_BITS, self._kept_ms >> parking.BUCKET_BITS):
            queue = entry.queues.get(bucket)
            if queue is not None and queue.visible == queue.next:
                self._index.drop(queue)

    def is_pending(self, due_ms: int, position: int) -> bool:
        """True when the timer at `position` is not delivered yet."""
        valid = position >= self.copied_below and position not in self.recalled.positions
        return valid and (due_ms, position) > self.last_delivered

    def drop_recalled_below(self, position: int) -> list[StateChange]:
        """Forget recalled timers before `position`, when all records before it are void; the changes for the log."""
        changes = self.recalled.drop_below(position)
        if changes:
            changes.append(self.copied(max(self.copied_below, position)))
        return changes

    def copied(self, below: int) -> StateChange:
        """Make the timers before position `below` void: pending ones are copied forward. The change for the log."""
        self.copied_below = below
        return StateChange(TIMER, COPIED_BELOW_KEY, b"%d" % below)

    def pending_below(self, position: int, found: list[tuple[int, Row]]) -> Iterator[int]:
        """Add (due ms, row) of pending timers before `position` to `found`; yields the rows of each read. Raises OSError."""
        for queue in self._queues():
            base = queue.id << parking.BUCKET_BITS
            for rows in rows_below(self._index, queue, queue.first, position):
                found += [(base + row[2], row) for row in rows if self.is_pending(base + row[2], row[0])]
                yield len(rows)
            yield 1

    def pending(self) -> int:
        """Number of timers that are not delivered yet."""
        count = len(self._heap) - len(self.recalled.positions) + (0 if self.load is None else self.load.left)
        for bucket in sorted(self._known):
            queue = self._index.queue(TIMER_TOPIC, bucket)
            count += 0 if queue is None else queue.visible - queue.first
        return count
