"""Delivers parked messages at their time. Everything is derived from the log; a delivery and its progress are one commit.

Timers (rmq_sys_wheel_timer): only the buckets whose time has come are in memory, one integer a timer; later buckets are queues
of the index like any other. The progress is (due, position) of the last timer delivered. No timer is delivered while an
earlier one has been accepted and is not yet durable, so the progress never passes a timer that is still to come.
Levels (SCHEDULE_TOPIC_XXXX): see levels.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from heapq import heappop, heappush
from typing import Final, final

from domain.address import SCHEDULE_TOPIC, TIMER_TOPIC
from domain.errors import ErrorCode, Failure, StoreError
from domain.message.message import Message, Placed
from domain.message.record import Record
from domain.ports import Clock, Timer
from domain.store.store_event import StoreEventKind
from domain.store.store_ports import StateChange
from store.appends.writer import StoreWriter
from store.delay import parking
from store.delay.bucket_load import AHEAD_MS, SLICE_ROWS, BucketLoad
from store.delay.levels import DelayLevels, rows_below
from store.delay.recalled_timers import RECALLED, RecalledTimers
from store.events import StoreEvents
from store.log.reader import RecordReader
from store.queue.index import QueueIndex
from store.queue.queue import Queue
from store.queue.row import Row
from store.state.view import TIMER, StateView

LAST_DELIVERED_KEY: Final = b"mark"
"""State key of (due ms 8 | position 8) of the last timer delivered."""
COPIED_BELOW_KEY: Final = b"copied"
"""State key of the position below which every pending timer has been copied forward, in decimal."""
BATCH_MESSAGES: Final = 256
BATCH_BYTES: Final = 1024 * 1024
"""Messages and bytes of one delivery, at most."""
_RECHECK_MS: Final = 1_000
"""The timer sleeps at most this long: the wall clock may jump."""
_PAUSE_MS: Final = 100
"""Pause before the next attempt when a delivery was refused, or an accepted timer is not yet durable."""
_ALL_LOADED: Final = 1 << 62
MEND_MS: Final = 600_000
"""Longest wait of a leader with replicas for the repair of a damaged timer, which another replica has."""
_SLICE_PAUSE_MS: Final = 1
"""Pause between two slices of a bucket that is being loaded."""
_POSITION_BITS: Final = 64
_SIZE_BITS: Final = 32


@final
class Wheel:
    """Timers and delay levels.

    last_delivered      (due ms, position) of the last timer delivered
    copied_below        timers below this position of the log are void: retention has copied the pending ones forward
    recalled            positions of recalled timers
    levels              the delay levels and their progress
    paused              True between `pause` and `resume`: pending messages are being copied
    parked, delivered   messages parked and delivered since the start
    mend_ms             longest wait of delivery for the repair of a damaged record; 0: no replica repairs it
    change_with         the state change in the commit of the delivery of a delayed or half message (Timers.accompany)
    _heap               timers of open buckets: due ms | position 64 bits | size 32 bits, as one integer
    _buckets, _known    heap and set of the buckets with timers that are not open yet
    _opened             buckets below this one are open: their new timers go to `_heap` directly
    _kept_ms            due time whose bucket, and all later ones, the index still has
    _accepted           position -> due ms of timers that are not durable yet
    _reload_due         True when memory is ahead of the stored progress: `_reload` before the next delivery
    _late               the changes of the last delivery that was answered FLUSH_TIMEOUT: stored, but perhaps not in effect yet
    _damaged            position of a damaged due message -> begin of the wait for its repair, monotonic ns
    _load               the bucket that is being loaded, None for none
    _busy               True while a delivery is being written, while paused, and after `stop`
    """

    def __init__(
        self,
        index: QueueIndex,
        clock: Clock,
        reader: RecordReader,
        state: StateView,
        writer: StoreWriter,
        change: Callable[[bytes, bytes | None], StateChange],
        events: StoreEvents,
    ) -> None:
        """`change(key, value)` makes a change of the state space of timers."""
        self._index = index
        self._clock = clock
        self._reader = reader
        self._state = state
        self._writer = writer
        self._change = change
        self._heap: list[int] = []
        self._buckets: list[int] = []
        self._known: set[int] = set()
        self._opened = 0
        self._load: BucketLoad | None = None
        self._accepted: dict[int, int] = {}
        self.last_delivered = (0, -1)
        self.copied_below = 0
        self.recalled = RecalledTimers(change)
        self.paused = False
        self.levels = DelayLevels(index, change)
        self._busy = False
        self._kept_ms = 0
        self._inherited_below = self._inherited_delay_ms = 0
        self._reload_due = False
        self._late: Sequence[StateChange] = ()
        self.mend_ms = 0
        self._damaged: dict[int, int] = {}
        self._events = events
        self._timer: Timer | None = None
        self._timer_ms = 0
        self.parked = self.delivered = self.refused_changes = 0
        self.change_with: Callable[[Message], StateChange | None] = _no_change

    def change_of(self, message: Message) -> StateChange | None:
        """The state change that goes with the delivery of `message`, which may lose a property.

        None: there is none, or no room for it.
        """
        change = self.change_with(message)
        if change is None or self._state.refusal(change) is None:
            return change
        self.refused_changes += 1
        return None

    def start(self) -> None:
        """Load the progress and the pending buckets, after recovery has read the log."""
        last = self._state.get(TIMER, LAST_DELIVERED_KEY)
        if last is not None:
            self.last_delivered = (int.from_bytes(last[:8], "big"), int.from_bytes(last[8:], "big"))
        self.copied_below = int(self._state.get(TIMER, COPIED_BELOW_KEY) or b"0")
        self.recalled.load(self._state.scan(TIMER, RECALLED))
        self.levels.load(partial(self._state.get, TIMER))
        entry = self._index.topics.get(TIMER_TOPIC)
        for queue in [] if entry is None else list(entry.queues.values()):
            if (queue.id + 1) << parking.BUCKET_BITS <= self.last_delivered[0]:
                self._index.drop(queue)
            else:
                self._bucket(queue.id)
        self._load = None
        if self.last_delivered[0]:
            self._open_buckets(self.last_delivered[0])
        self._kept_ms = self.last_delivered[0]
        self._arm()

    def inherit(self, below: int, delay_ms: int) -> None:
        """Call it before `start`: what is parked before this position of the log was timed by another clock, and is delivered
        so much later."""
        self._inherited_below, self._inherited_delay_ms = below, delay_ms
        self.levels.inherit(below, delay_ms)

    def _due_of(self, packed: int) -> int:
        """Delivery time of a timer of the heap, in epoch ms."""
        due = packed >> (_POSITION_BITS + _SIZE_BITS)
        is_inherited = (packed >> _SIZE_BITS) & ((1 << _POSITION_BITS) - 1) < self._inherited_below
        return due + self._inherited_delay_ms if is_inherited else due

    def due_min_ms(self) -> int:
        """The earliest due time of a new timer: behind the last one delivered."""
        return self.last_delivered[0] + 1

    def accepted(self, position: int, due_ms: int) -> None:
        """Note a timer that has been accepted and is not yet durable; `arrived` follows when it is."""
        self._accepted[position] = due_ms

    def arrived(self, queue: Queue, records: Sequence[bytes]) -> None:
        """Take the records of parked messages that have become durable in `queue`."""
        self.parked += 0 if self.paused else len(records)
        if queue.entry.name == TIMER_TOPIC:
            for data in records:
                position = int.from_bytes(data[28:36], "big")
                if self.paused and self._inherited_delay_ms:
                    self._inherited_below = position + 1  # it may be the copy of one that was inherited
                due = self._accepted.pop(position)
                if queue.id < self._opened:
                    self._push(due, position, len(data))
            if queue.id >= self._opened:
                self._bucket(queue.id)
        if not self._busy:
            self._arm()

    def _push(self, due: int, position: int, size: int) -> None:
        heappush(self._heap, ((due << _POSITION_BITS) | position) << _SIZE_BITS | size)

    def _bucket(self, bucket: int) -> None:
        if bucket not in self._known:
            self._known.add(bucket)
            heappush(self._buckets, bucket)

    def _next_ms(self) -> int:
        """Due time of the next timer, bucket or level message, in epoch ms; 0 when none is pending."""
        found = 0
        if self._heap:
            found = self._due_of(self._heap[0])
        if self._buckets:
            begins = max((self._buckets[0] << parking.BUCKET_BITS) - AHEAD_MS, 1)
            found = begins if found == 0 else min(found, begins)
        level_ms = self.levels.next_ms()
        return level_ms if level_ms and (found == 0 or level_ms < found) else found

    def _arm(self, pause_ms: int = 0) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        try:
            due = 1 if self._reload_due else self._next_ms()
        except (OSError, StoreError) as error:
            self._events.unreadable(error)
            due, pause_ms = 1, _RECHECK_MS
        if due or self._load is not None:
            wait = max(min(max(due - self._clock.wall_ms(), 0), _RECHECK_MS), pause_ms)
            if self._load is not None:
                wait = max(_SLICE_PAUSE_MS, pause_ms)
            self._timer = self._clock.call_at(self._clock.monotonic_ns() + wait * 1_000_000, self._fire)

    def _fire(self) -> None:
        self._timer = None
        if self._busy:
            return
        now = self._clock.wall_ms()
        try:
            if self._reload_due and not self._reload():
                self._arm(_PAUSE_MS)
                return
            loaded_ms = self._open_buckets(now)
            messages, changes = self._due(now, loaded_ms)
        except (OSError, StoreError) as error:
            self._events.unreadable(error)
            self._reload_due = True  # timers that were taken out of the heap are read again
            self._arm(_RECHECK_MS)
            return
        if not changes:
            pause = _PAUSE_MS if self._accepted and self._next_ms() <= now else 0
            self._arm(pause)
            return
        self._busy = True
        self._writer.deliver(messages, changes, partial(self._done, changes))

    def _done(self, changes: Sequence[StateChange], result: list[Placed] | Failure) -> None:
        self._busy = False
        self.recalled.removal_written(not isinstance(result, Failure))
        if not isinstance(result, Failure):
            self._late = []  # what was stored before this one is in effect, too
            self.delivered += len(result)
            _drop_buckets(self._index, self._kept_ms, self.last_delivered[0])
            self._kept_ms = self.last_delivered[0]
        elif result.code is ErrorCode.FLUSH_TIMEOUT:
            self._late = [change for change in changes if change.space == TIMER]
        else:
            self._reload_due = True
            try:
                self._reload()
            except (OSError, StoreError) as error:
                self._events.unreadable(error)
            self._arm(_PAUSE_MS)
            return
        self._arm()

    def _reload(self) -> bool:
        """Start again from the stored progress: a delivery was refused, and nothing of it is stored.

        Returns False while an earlier delivery is stored whose effects are to come: the known progress does not have it.
        """
        if any(self._state.get(TIMER, change.key) != change.value for change in self._late):
            return False
        self._late = []
        self._heap.clear()
        self._known.clear()
        self._buckets.clear()
        self._opened = 0
        self.last_delivered = (0, -1)
        self.start()
        self._reload_due = False
        return True

    def stop(self) -> None:
        """Stop delivering: the store is closed."""
        self._busy = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def pause(self) -> bool:
        """Stop delivering until `resume`, while pending messages are copied. False while a delivery is being written, and
        while it is not known which messages are pending."""
        if self._busy or self._reload_due:
            return False
        self._busy = self.paused = True
        return True

    def resume(self) -> None:
        """Deliver again after `pause`. No effect when not paused."""
        if not self.paused:
            return
        self._busy = self.paused = False
        self._arm()

    def _open_buckets(self, now: int) -> int:
        """Load a slice of the buckets whose time is near; returns the time before which all timers are in the heap."""
        current = (now + AHEAD_MS) >> parking.BUCKET_BITS
        room = SLICE_ROWS
        while True:
            load = self._load
            if load is None:
                if not self._buckets or self._buckets[0] > current:
                    self._opened = max(self._opened, current + 1)
                    return _ALL_LOADED
                bucket = heappop(self._buckets)
                self._known.discard(bucket)
                self._opened = max(self._opened, bucket + 1)
                queue = self._index.queue(TIMER_TOPIC, bucket)
                if queue is not None:
                    self._load = BucketLoad(self._index, queue)
            elif load.left <= 0:
                self._load = None
            elif room <= 0:
                return load.base_ms
            else:
                rows = load.rows(room)
                room -= len(rows) or 1
                for position, size, within, _ in rows:
                    due = load.base_ms + within
                    if size and (due, position) > self.last_delivered and position >= self.copied_below:
                        self._push(due, position, size)

    def _due(self, now: int, loaded_ms: int) -> tuple[list[Message], list[StateChange]]:
        limit = min(self._accepted.values(), default=now + 1)
        limit = min(limit, now + 1, loaded_ms)
        heap = self._heap
        rows: list[Row] = []
        taken = 0
        last = self.last_delivered
        changes: list[StateChange] = []
        bits = _POSITION_BITS + _SIZE_BITS
        # In the order of their times: one that is delayed delays those behind it, or the progress would pass it.
        while heap and self._due_of(heap[0]) < limit and len(rows) < BATCH_MESSAGES and taken < BATCH_BYTES:
            packed = heappop(heap)
            due = packed >> bits
            position = (packed >> _SIZE_BITS) & ((1 << _POSITION_BITS) - 1)
            size = packed & ((1 << _SIZE_BITS) - 1)
            if position in self.recalled.positions:
                changes.append(self.recalled.remove_due(position))
            elif position >= self.copied_below:
                rows.append((position, size, 0, due))
                taken += size
            last = (due, position)
        if last != self.last_delivered:
            self.last_delivered = last
            changes.append(self._change(LAST_DELIVERED_KEY, last[0].to_bytes(8, "big") + last[1].to_bytes(8, "big")))
        for level in range(len(parking.LEVELS_MS)):
            room = BATCH_MESSAGES - len(rows)
            if room <= 0 or taken >= BATCH_BYTES:
                break
            due_rows = self.levels.due(level, room, now)
            if due_rows:
                rows += due_rows
                taken += sum(row[1] for row in due_rows)
                changes.append(self.levels.progress(level))
        messages = [parking.delivered(data) for data in self._records(rows) if data]
        messages = [message for message in messages if self._index.has_topic(message.topic)]
        changes += [change for message in messages if (change := self.change_of(message)) is not None]
        return messages, changes

    def _records(self, rows: Sequence[Row]) -> list[bytes]:
        """Records of due messages. Raises OSError; StoreError for a damaged record that another replica may give.

        Any other damaged record is reported and left out, since it would hold back all later ones.
        """
        try:
            found = self._reader.fetch(rows)
        except StoreError:
            found = []
        else:
            self._damaged.clear()
            return found
        for row in rows:
            try:
                found += self._reader.fetch((row,))
            except StoreError as error:
                now = self._clock.monotonic_ns()
                if now - self._damaged.setdefault(row[0], now) < self.mend_ms * 1_000_000:
                    raise
                cause = f"the delayed message at {row[0]} of the log is damaged and is not delivered: {error}"
                self._events.notify(
                    StoreEventKind.DAMAGED, error.file, cause, "run `headgate check` on the data directory", error
                )
        return found

    def is_pending(self, due_ms: int, position: int) -> bool:
        """True when the timer at `position` is not delivered yet."""
        valid = position >= self.copied_below and position not in self.recalled.positions
        return valid and (due_ms, position) > self.last_delivered

    def drop_recalled_below(self, position: int) -> list[StateChange]:
        """Forget recalled timers before `position`, when all records before it are void; the changes for the log."""
        changes = self.recalled.drop_below(position)
        if changes:
            self.copied_below = max(self.copied_below, position)
            changes.append(self._change(COPIED_BELOW_KEY, b"%d" % self.copied_below))
        return changes

    def pending_below(self, position: int, found: list[tuple[int, Row]]) -> Iterator[int]:
        """Find the pending messages that retention must copy forward: `found` gets their (due ms, row), in log order.

        These are the messages in records before `position`. Call it while paused; yields the rows that each step has read.
        Raises OSError.
        """
        entry = self._index.topics.get(TIMER_TOPIC)
        for queue in [] if entry is None else list(entry.queues.values()):
            base = queue.id << parking.BUCKET_BITS
            for rows in rows_below(self._index, queue, queue.first, position):
                found += [(base + row[2], row) for row in rows if self.is_pending(base + row[2], row[0])]
                yield len(rows)
            yield 1
        yield from self.levels.pending_below(position, found)
        found.sort(key=lambda pair: pair[1][0])

    def copies(self, pending: Sequence[tuple[int, Row]]) -> tuple[list[Message], list[StateChange]]:
        """Copies of parked messages, to be appended at the end of the log, and the changes that make the old ones void.

        `pending` is a run of what `pending_below` found, in log order.
        """
        left = [(due, row) for due, row in pending if row[0] not in self.recalled.positions and not self._reader.is_lost(row)]
        records = self._reader.fetch([row for _, row in left])
        self.copied_below = pending[-1][1][0] + 1
        messages: list[Message] = []
        changes: list[StateChange] = []
        floor = self.due_min_ms()
        for (due, _), data in zip(left, records, strict=True):
            record = Record(data)
            message = parking.delivered(data)
            messages.append(parking.parked_until(message, max(due, floor)))
            if record.topic == SCHEDULE_TOPIC:
                changes.append(self.levels.copied(record))
        changes.append(self._change(COPIED_BELOW_KEY, b"%d" % self.copied_below))
        return messages, changes

    def pending(self) -> int:
        """Number of timers and level messages that are not due yet."""
        count = len(self._heap) - len(self.recalled.positions) + (0 if self._load is None else self._load.left)
        for bucket in sorted(self._known):
            queue = self._index.queue(TIMER_TOPIC, bucket)
            count += 0 if queue is None else queue.visible - queue.first
        return count + self.levels.pending()


def _no_change(_message: Message) -> None:
    """Default of `change_with`: no further change."""


def _drop_buckets(index: QueueIndex, before: int, after: int) -> None:
    """Drop the queues of buckets that are delivered: `before` and `after` are due times of the last timer delivered, in ms."""
    for bucket in range(before >> parking.BUCKET_BITS, after >> parking.BUCKET_BITS):
        entry = index.topics.get(TIMER_TOPIC)
        if before == 0 or entry is None:
            break
        queue = entry.queues.get(bucket)
        if queue is not None and queue.visible == queue.next:
            index.drop(queue)
