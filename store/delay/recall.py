"""Recall of timers: the record stays in the log, and a state key makes it void, so that it is skipped when it is due."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.address import TIMER_TOPIC
from domain.delivery.recall import RecallHandle
from domain.errors import ErrorCode, Failure, StoreError
from domain.message import property as properties
from domain.message.message import Message, Placed
from domain.message.record import Record
from domain.ports import Clock
from domain.store.store_ports import StateChange
from store.appends.writer import StoreWriter
from store.delay import parking
from store.delay.accompaniment import Accompaniment
from store.delay.wheel import Wheel
from store.log.reader import RecordReader
from store.queue.index import QueueIndex
from store.queue.row import Row

_SLICE_ROWS: Final = 4_096
_SLICE_NS: Final = 1_000_000
_PAUSED_RETRY_NS: Final = 10_000_000


@final
class TimerRecall:
    """The `Timers` port. Timers in a bucket of 17 minutes are not sorted, so recall scans it, a slice of rows at a time.

    recalled   timers recalled since the start
    """

    def __init__(
        self,
        index: QueueIndex,
        clock: Clock,
        wheel: Wheel,
        reader: RecordReader,
        writer: StoreWriter,
        accompaniment: Accompaniment,
    ) -> None:
        self._index = index
        self._clock = clock
        self._wheel = wheel
        self._reader = reader
        self._writer = writer
        self._accompaniment = accompaniment
        self.recalled = 0

    def recall(self, handle: RecallHandle, done: Callable[[None | Failure], None]) -> None:
        """Timers.recall. Recalls all timers with this id and time: a sender that retries leaves several."""
        self._search(handle.topic, handle.due_ms, handle.message_id, 0, [], done)

    def accompany(self, change: Callable[[Message], StateChange | None]) -> None:
        """Timers.accompany."""
        self._accompaniment.ask(change)

    def _search(
        self,
        topic: str,
        due_ms: int,
        message_id: str,
        offset: int,
        found: list[int],
        done: Callable[[None | Failure], None],
    ) -> None:
        """Scan the next slice of the bucket from `offset` on; `found` collects positions of matching records."""

        def later(at: int, matches: list[int], pause_ns: int) -> None:
            again = self._clock.monotonic_ns() + pause_ns
            self._clock.call_at(again, lambda: self._search(topic, due_ms, message_id, at, matches, done))

        if self._wheel.paused:
            later(0, [], _PAUSED_RETRY_NS)  # timers are being copied forward, which changes their positions
            return
        queue = self._index.queue(TIMER_TOPIC, due_ms >> parking.BUCKET_BITS)
        if queue is not None:
            offset = max(offset, queue.first)
            try:
                rows = self._index.rows(queue, offset, min(_SLICE_ROWS, queue.visible - offset))
                within = due_ms & parking.BUCKET_MASK
                fits = [row for row in rows if row[2] == within and self._matches(row, topic, message_id)]
            except (OSError, StoreError) as error:
                done(Failure(ErrorCode.INTERNAL, f"the timers cannot be read: {error}"))
                return
            found = found + [row[0] for row in fits]
            offset += max(len(rows), 1)
            if offset < queue.visible:
                later(offset, found, _SLICE_NS)
                return
        self._recall_found(due_ms, message_id, found, done)

    def _matches(self, row: Row, topic: str, message_id: str) -> bool:
        data = self._reader.fetch([row])[0]
        if not data:
            return False
        stored = Record(data).properties
        named = properties.text(stored, properties.UNIQ_KEY) == message_id
        return named and properties.text(stored, properties.REAL_TOPIC) == topic

    def _recall_found(self, due_ms: int, message_id: str, found: list[int], done: Callable[[None | Failure], None]) -> None:
        timers = self._wheel.timers
        pending = [position for position in found if timers.is_pending(due_ms, position)]
        before = [
            position
            for position in found
            if position in timers.recalled.positions and (due_ms, position) > timers.last_delivered
        ]
        if not pending and not before:
            failure = Failure(ErrorCode.MESSAGE_NOT_FOUND, f"message {message_id} does not wait for {due_ms} ms any more")
            done(failure)
            return

        def written(result: list[Placed] | Failure) -> None:
            if isinstance(result, Failure):
                if result.code is not ErrorCode.FLUSH_TIMEOUT:
                    timers.recalled.positions.difference_update(pending)
                done(result)
                return
            self.recalled += len(pending)
            done(None)

        self._writer.append_changes(timers.recalled.add(pending), written)
