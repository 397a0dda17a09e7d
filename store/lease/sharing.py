"""Members that pull, in groups that others receive in: one ledger for both (docs/decisions/0015-one-ledger.md).

    nobody receives        a pull is a read, the group's position one number; who pulls, and how far, is a mark in memory
    somebody receives      what was pulled and not reported becomes leases of the puller; from then on a pull leases what it
                           returns, and a report settles what the puller holds below it
    nobody receives any more, and all that is out is the puller's: one number again
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final, Protocol, final

from domain import limits
from domain.errors import Failure
from domain.filter.filter import Filter
from domain.ports import Clock, ReadResult
from domain.record import Record, with_reconsume_times
from store.lease import stray
from store.lease.ledger import Ledger
from store.lease.mark import HOLD_MS, Mark
from store.lease.table import LeaseTable
from store.queue.index import QueueIndex
from store.queue.queue import Queue
from store.queue.row import Row, within
from store.reading import READ_BYTES_MAX, Reading

RENEW_MS: Final = 30_000
STRAY_MS: Final = 30_000
"""A message behind a puller that reads the group's retry topic goes there when no receiver has taken it for so long."""
QUIET_MS: Final = 600_000
"""A group in which nobody has received for so long is one of pullers."""
_STEP: Final = 64


class Source(Protocol):
    """Where pulls get their messages, and what they need of the store."""

    def records(self, rows: Sequence[Row]) -> list[bytes]:
        """Records of rows."""

    def move_on(self, table: LeaseTable, offset: int, record: bytes, retry_topic: str = "") -> None:
        """Copy a message to a retry topic, and settle it in the same commit."""

    def freed(self, group: str, topic: str) -> None:
        """Messages of `topic` can be leased again by `group`."""

    def has_topic(self, name: str) -> bool:
        """True when the topic exists."""


@final
class Sharing:
    """Pulls of members, their reports, and their end."""

    def __init__(self, ledger: Ledger, index: QueueIndex, reading: Reading, clock: Clock, source: Source) -> None:
        self._ledger = ledger
        self._index = index
        self._reading = reading
        self._clock = clock
        self._source = source

    def pull(
        self,
        group: str,
        member: str,
        retry_topic: str,
        topic: str,
        queue_id: int,
        offset: int,
        limit: int,
        max_bytes: int,
        wanted: Filter | None,
        done: Callable[[ReadResult | Failure], None],
    ) -> None:
        """MessageStore.pull."""
        ledger = self._ledger
        place = (group, topic, queue_id)
        table = ledger.tables.get(place)
        queue = self._index.queue(topic, queue_id)
        if table is None or not table.shared or queue is None:
            result = self._reading.read(topic, queue_id, offset, limit, max_bytes, wanted)
            if not isinstance(result, Failure):
                mark = ledger.marks.get(place)
                if mark is None or mark.member != member:
                    ledger.marks.put(place, Mark(member, offset, result.next_offset))
                else:
                    mark.start = min(mark.start, offset)
                    mark.end = result.next_offset
            done(result)
            return
        failure = ledger.broken()
        if failure is not None:
            done(failure)
            return
        ledger.table(group, queue, True)
        now = self._clock.wall_ms()
        freed = table.puller not in ("", member) and table.let_go(now)
        if table.puller != member:
            table.puller = member
            table.asked = table.reported = 0
            table.renewed_ms = now
            ledger.marks.hold(member, place)
        elif offset < table.asked:
            freed = stray.went_back(table, now)
        elif now - table.renewed_ms >= RENEW_MS:
            table.renew(now, now + HOLD_MS)
        moved = bool(retry_topic) and self._move_strays(table, queue, offset, retry_topic, now)
        call = _Pull(self._index, self._source, table, queue, now)
        result = call.run(offset, limit, max_bytes, wanted, not retry_topic)
        table.asked = result.next_offset
        if call.changed or freed or moved or result.pop_ms:
            ledger.changed(table, done, result)
        else:
            done(result)
        if freed:
            self._source.freed(group, topic)

    def _move_strays(self, table: LeaseTable, queue: Queue, offset: int, retry_topic: str, now: int) -> bool:
        """Messages that came back behind the puller, and that no receiver wants, go on in the group's retry topic."""
        table.expire(now)
        if table.heard_ms + STRAY_MS > now or not self._source.has_topic(retry_topic):
            return False
        strays = [at for at in stray.behind(table, offset, _STEP) if table.leases[at].end_ms + STRAY_MS <= now]
        for at in strays:
            records = self._source.records(self._index.rows(queue, at, 1))
            if records:
                self._source.move_on(table, at, records[0], retry_topic)
            else:
                table.pass_by(at)
        return bool(strays)

    def report(
        self, group: str, offsets: Sequence[tuple[str, int, int]], done: Callable[[None | Failure], None] | None
    ) -> None:
        """MessageStore.report."""
        ledger = self._ledger
        plain: list[tuple[str, int, int]] = []
        failure = ledger.broken()
        now = self._clock.wall_ms()
        for topic, queue_id, offset in offsets:
            table = ledger.tables.get((group, topic, queue_id))
            if table is None or not table.shared:
                # Where somebody has received once, a report that goes back is of a message that came back, or of old.
                if table is None or not table.pop_ms or offset > table.floor:
                    plain.append((topic, queue_id, offset))
            elif failure is None:
                self._report(table, offset, now)
        if plain or failure is not None:
            ledger.commit(group, plain, done)
        elif done is not None:
            ledger.when_durable(offsets[-1][0] if offsets else "", done, None)

    def _report(self, table: LeaseTable, offset: int, now: int) -> None:
        table.report(offset)
        stray.handled(table, offset)
        quiet = now - table.heard_ms >= QUIET_MS and not len(table.settled) and not table.strays
        if quiet and all(lease.pulled for lease in table.leases.values()):
            place = (table.group, table.topic, table.queue_id)
            mark = Mark(table.puller, table.floor, table.head)
            table.forget()
            if mark.member:
                self._ledger.marks.put(place, mark)
        self._ledger.changed(table)

    def renew(self, group: str, member: str, anew: bool) -> None:
        """MessageStore.renew."""
        now = self._clock.wall_ms()
        for place in self._ledger.marks.held_by(group, member):
            table = self._ledger.tables.get(place)
            if table is None or not table.shared or table.puller != member:
                continue
            freed = anew and stray.take_back(table, now)
            due = now - table.renewed_ms >= RENEW_MS
            if due:
                table.renew(now, now + HOLD_MS)
            if due or freed:
                self._ledger.changed(table)
            if freed:
                self._source.freed(group, place[1])

    def release(self, group: str, member: str, kept: Collection[str]) -> None:
        """MessageStore.release."""
        ledger = self._ledger
        now = self._clock.wall_ms()
        for place in ledger.marks.held_by(group, member):
            if place[1] in kept:
                continue
            ledger.marks.let_go(member, place)
            table = ledger.tables.get(place)
            if table is not None and table.puller == member and table.let_go(now):
                ledger.changed(table)
                self._source.freed(group, place[1])


class _Pull:
    """One pull of a shared queue."""

    __slots__ = ("_index", "_now", "_pop_ms", "_queue", "_records", "_size", "_source", "_table", "changed")

    def __init__(self, index: QueueIndex, source: Source, table: LeaseTable, queue: Queue, now: int) -> None:
        self._index = index
        self._source = source
        self._table = table
        self._queue = queue
        self._now = now
        self._pop_ms = table.next_pop(now)
        self._records: list[bytes] = []
        self._size = 0
        self.changed = False

    def run(self, offset: int, limit: int, max_bytes: int, wanted: Filter | None, backward: bool) -> ReadResult:
        """Lease from `offset` on what nobody else has; `pop_ms` is that of these leases, 0 when there are none.

        `backward`: first, and on its own, what came back before it (stray.py).
        """
        table, queue = self._table, self._queue
        first, end = queue.first, queue.visible
        table.expire(self._now)
        if offset < first:
            return ReadResult("TOO_SMALL", [], first, first, end)
        if offset > end:
            return ReadResult("TOO_LARGE", [], end, first, end)
        at = max(offset, table.floor)
        if at - table.head + len(table.leases) > limits.LEASES_PER_QUEUE_MAX:
            return ReadResult("TOO_LARGE", [], table.head, first, end)
        if table.ordered and any(not (lease.free or lease.pulled) for lease in table.leases.values()):
            return ReadResult("EMPTY", [], offset, first, end)
        while table.head < at:
            # It was given out before anybody received here, or its reader says that it goes on behind it.
            self._hold(table.head, True)
        if backward:
            self._behind(offset, limit, max_bytes, wanted)
            if self._records:
                return ReadResult("FOUND", self._records, offset, first, end, self._pop_ms)
        following = self._again(at, limit, max_bytes, wanted)
        if following < 0:
            following = self._fresh(at, limit, max_bytes, wanted)
        blocked = following < end and not self._records and len(table.leases) >= limits.LEASES_PER_QUEUE_MAX
        if self._records:
            return ReadResult("FOUND", self._records, following, first, end, self._pop_ms)
        return ReadResult("EMPTY" if blocked or following == offset else "NO_MATCH", [], following, first, end)

    def _behind(self, offset: int, limit: int, max_bytes: int, wanted: Filter | None) -> None:
        """What is free before `offset`, under a pop time of its own."""
        table = self._table
        strays = stray.behind(table, offset, limit)
        if not strays:
            return
        self._pop_ms = table.next_pop(self._now)
        taken: list[int] = []
        for at in strays:
            found = self._source.records(self._index.rows(self._queue, at, 1))
            if not found or not (wanted is None or wanted.matches(Record(found[0]).properties)):
                table.pass_by(at)
                self.changed = True
            elif self._add(found[0], at, True, max_bytes):
                taken.append(at)
            else:
                break
        if taken:
            stray.given(table, taken)

    def _again(self, at: int, limit: int, max_bytes: int, wanted: Filter | None) -> int:
        """What is below the head, and free or the puller's own. Where to go on when that is enough, else -1."""
        table = self._table
        if at >= table.head:
            return -1
        for offset in sorted([each for each, lease in table.leases.items() if each >= at and (lease.free or lease.pulled)]):
            if len(self._records) >= limit:
                return offset
            found = self._source.records(self._index.rows(self._queue, offset, 1))
            if not found or not (wanted is None or wanted.matches(Record(found[0]).properties)):
                table.pass_by(offset)
                self.changed = True
            elif not self._add(found[0], offset, not table.leases[offset].pulled, max_bytes):
                return offset
        return -1

    def _fresh(self, at: int, limit: int, max_bytes: int, wanted: Filter | None) -> int:
        """From the head on; where to go on."""
        table, queue = self._table, self._queue
        began = table.head
        while len(self._records) < limit and table.head < queue.visible and table.head - began < limits.LEASES_PER_QUEUE_MAX:
            if len(table.leases) >= limits.LEASES_PER_QUEUE_MAX:
                break
            rows = self._index.rows(queue, table.head, min(_STEP, queue.visible - table.head))
            if not rows:
                break
            for record in self._source.records(within(rows, READ_BYTES_MAX)):
                if len(self._records) >= limit:
                    break
                if wanted is not None and not wanted.matches(Record(record).properties):
                    table.pass_by(table.head)
                    self.changed = True
                elif not self._add(record, table.head, True, max_bytes):
                    return table.head
        return max(table.head, at)

    def _add(self, record: bytes, offset: int, attempt: bool, max_bytes: int) -> bool:
        """Lease and return one message; False when there is no room for its bytes."""
        if self._records and self._size + len(record) > max_bytes:
            return False
        attempts = self._hold(offset, attempt)
        if attempts > 1:
            record = with_reconsume_times(record, Record(record).reconsume_times + attempts - 1)
        self._size += len(record)
        self._records.append(record)
        return True

    def _hold(self, offset: int, attempt: bool) -> int:
        lease = self._table.take(offset, self._pop_ms, self._now + HOLD_MS, attempt)
        lease.pulled = True
        self.changed = True
        return lease.attempts
