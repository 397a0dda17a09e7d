"""Delivers parked messages at their time. Everything is derived from the log; a delivery and its progress are one commit.

Timers (rmq_sys_wheel_timer): see timers.py. Levels (SCHEDULE_TOPIC_XXXX): see levels.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
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
from store.delay.accompaniment import Accompaniment
from store.delay.levels import DelayLevels
from store.delay.timers import WheelTimers
from store.events import StoreEvents
from store.log.reader import RecordReader
from store.queue.index import QueueIndex
from store.queue.queue import Queue
from store.queue.row import Row
from store.state.view import TIMER, StateView

BATCH_MESSAGES: Final = 256
BATCH_BYTES: Final = 1024 * 1024
"""Messages and bytes of one delivery, at most."""
_RECHECK_MS: Final = 1_000
"""The timer sleeps at most this long: the wall clock may jump."""
_PAUSE_MS: Final = 100
"""Pause before the next attempt when a delivery was refused, or an accepted timer is not yet durable."""
MEND_MS: Final = 600_000
"""Longest wait of a leader with replicas for the repair of a damaged timer, which another replica has."""
_SLICE_PAUSE_MS: Final = 1
"""Pause between two slices of a bucket that is being loaded."""


@final
class Wheel:
    """Timers and delay levels.

    paused              True between `pause` and `resume`: pending messages are being copied
    parked, delivered   messages parked and delivered since the start
    mend_ms             longest wait of delivery for the repair of a damaged record; 0: no replica repairs it
    _reload_due         True when memory is ahead of the stored progress: `_reload` before the next delivery
    _late               the changes of the last delivery that was answered FLUSH_TIMEOUT: stored, but perhaps not in effect yet
    _damaged            position of a damaged due message -> begin of the wait for its repair, monotonic ns
    _busy               True while a delivery is being written, while paused, and after `stop`
    """

    def __init__(
        self,
        timers: WheelTimers,
        index: QueueIndex,
        clock: Clock,
        reader: RecordReader,
        state: StateView,
        writer: StoreWriter,
        accompaniment: Accompaniment,
        events: StoreEvents,
    ) -> None:
        self.timers = timers
        self._index = index
        self._clock = clock
        self._reader = reader
        self._state = state
        self._writer = writer
        self._accompaniment = accompaniment
        self._events = events
        self.levels = DelayLevels(index)
        self.paused = False
        self._busy = False
        self._reload_due = False
        self._late: Sequence[StateChange] = ()
        self.mend_ms = 0
        self._damaged: dict[int, int] = {}
        self._timer: Timer | None = None
        self.parked = self.delivered = 0

    def start(self) -> None:
        """Load the progress and the pending buckets, after recovery has read the log."""
        self.levels.load(self._state)
        self.timers.start(self._state)
        self._arm()

    def inherit(self, below: int, delay_ms: int) -> None:
        """Call it before `start`: what is parked before this position of the log was timed by another clock, and is delivered
        so much later."""
        self.timers.inherit(below, delay_ms)
        self.levels.inherit(below, delay_ms)

    def arrived(self, queue: Queue, records: Sequence[bytes]) -> None:
        """Take the records of parked messages that have become durable in `queue`."""
        self.parked += 0 if self.paused else len(records)
        if queue.entry.name == TIMER_TOPIC:
            self.timers.arrived(queue, records, self.paused)
        if not self._busy:
            self._arm()

    def _next_ms(self) -> int:
        """Due time of the next timer, bucket or level message, in epoch ms; 0 when none is pending."""
        found = self.timers.next_ms()
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
        if due or self.timers.load is not None:
            wait = max(min(max(due - self._clock.wall_ms(), 0), _RECHECK_MS), pause_ms)
            if self.timers.load is not None:
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
            loaded_ms = self.timers.open_buckets(now)
            messages, changes = self._due(now, loaded_ms)
        except (OSError, StoreError) as error:
            self._events.unreadable(error)
            self._reload_due = True  # timers that were taken out of the heap are read again
            self._arm(_RECHECK_MS)
            return
        if not changes:
            pause = _PAUSE_MS if self.timers.has_accepted() and self._next_ms() <= now else 0
            self._arm(pause)
            return
        self._busy = True
        self._writer.deliver(messages, changes, partial(self._done, changes))

    def _done(self, changes: Sequence[StateChange], result: list[Placed] | Failure) -> None:
        self._busy = False
        self.timers.recalled.removal_written(not isinstance(result, Failure))
        if not isinstance(result, Failure):
            self._late = []  # what was stored before this one is in effect, too
            self.delivered += len(result)
            self.timers.drop_delivered()
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

    def _due(self, now: int, loaded_ms: int) -> tuple[list[Message], list[StateChange]]:
        rows, changes = self.timers.due(min(now + 1, loaded_ms), BATCH_MESSAGES, BATCH_BYTES)
        taken = sum(row[1] for row in rows)
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
        for message in messages:
            changes += self._accompaniment.changes_of(message)
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

    def pending_below(self, position: int, found: list[tuple[int, Row]]) -> Iterator[int]:
        """Find the pending messages that retention must copy forward: `found` gets their (due ms, row), in log order.

        These are the messages in records before `position`. Call it while paused; yields the rows that each step has read.
        Raises OSError.
        """
        yield from self.timers.pending_below(position, found)
        yield from self.levels.pending_below(position, found)
        found.sort(key=lambda pair: pair[1][0])

    def copies(self, pending: Sequence[tuple[int, Row]]) -> tuple[list[Message], list[StateChange]]:
        """Copies of parked messages, to be appended at the end of the log, and the changes that make the old ones void.

        `pending` is a run of what `pending_below` found, in log order.
        """
        left = [
            (due, row) for due, row in pending if row[0] not in self.timers.recalled.positions and not self._reader.is_lost(row)
        ]
        records = self._reader.fetch([row for _, row in left])
        void = self.timers.copied(pending[-1][1][0] + 1)
        messages: list[Message] = []
        changes: list[StateChange] = []
        floor = self.timers.due_min_ms()
        for (due, _), data in zip(left, records, strict=True):
            record = Record(data)
            message = parking.delivered(data)
            messages.append(parking.parked_until(message, max(due, floor)))
            if record.topic == SCHEDULE_TOPIC:
                changes.append(self.levels.copied(record))
        changes.append(void)
        return messages, changes

    def pending(self) -> int:
        """Number of timers and level messages that are not delivered yet."""
        return self.timers.pending() + self.levels.pending()
