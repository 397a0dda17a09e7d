"""The lag of groups: one walk over the rows of all lease tables, in steps, that skips unchanged rows of small lag.

    rows, by topic, group and queue  -->  pairs of a group and a topic, one after the other
                                          the pairs with the largest lag so far are kept, the lag of the others is added up
    512 neighbouring rows, unchanged -->  sums by queue; when no pair in them can be among the largest, the sums are added to
                                          the others, and the rows are not read

The lag of a group on a queue is the distance from its position to the end of the queue. Unchanged rows of a queue therefore
have one sum of positions, and a new end of the queue adds the number of rows: no work per message or position. Changed rows
lose their sums (idle_tables.py), and the next walk reads them.
"""

from __future__ import annotations

from heapq import heappush, heapreplace
from typing import Final, final

from domain.address import is_system_topic
from domain.errors import StoreError
from domain.store.outlook import GroupLag
from domain.topic import lite
from store.events import StoreEvents
from store.lease import journal
from store.lease.idle_tables import LIVE, Chunk
from store.lease.lag_sums import QueueSum, RowSums
from store.lease.tables import LeaseTables
from store.queue.index import QueueIndex
from store.queue.queue import Queue

SUMS_MAX: Final = 32
"""Most queues with sums in one chunk. With more queues there are few rows for each: sums would cost more than they save."""
CHUNK_COST: Final = 16
SUM_COST: Final = 4
"""Costs in rows: of one chunk, and of one of its sums."""
_TIMES_MAX: Final = 1_024
_LITE: Final = lite.PREFIX.encode()
_NO_SUMS: Final = RowSums([], [])


@final
class LagReader:
    """`domain.store.outlook.LagWalk` over the lease tables.

    passed           rows read or skipped so far
    visited          rows read or summed so far
    _most            number of pairs to keep
    _kept            heap of (messages, `topic NUL group`, store ms of the oldest) of the pairs with the largest lag
    _others          True when a pair was not kept
    _other_messages  messages of the pairs that are not kept
    _other_ms        store ms of the oldest of these messages, 0 for none
    _pair            `topic NUL group` of the current pair, b"" before the first
    _oldest_ms       store ms of the oldest of these, 0 for none
    _counted         True when groups of `_topic` have a lag
    _queues          queue id, as bytes -> queue of `_topic`, None for a missing one
    _times           (queue id, offset) -> store ms, of `_topic`
    """

    def __init__(self, tables: LeaseTables, index: QueueIndex, events: StoreEvents, most: int) -> None:
        self._tables = tables
        self._index = index
        self._events = events
        self._most = most
        self.passed = 0
        self.visited = 0
        self._kept: list[tuple[int, bytes, int]] = []
        self._others = False
        self._other_messages = 0
        self._other_ms = 0
        self._after = b""
        self._pair = b""
        self._messages = 0
        self._oldest_ms = 0
        self._topic = b""
        self._counted = False
        self._queues: dict[bytes, Queue | None] = {}
        self._times: dict[tuple[int, int], int] = {}

    @property
    def total(self) -> int:
        """LagWalk.total."""
        return self._tables.rows.count

    @property
    def oldest_ns(self) -> int:
        """LagWalk.oldest_ns: always 0, since all rows are of this walk."""
        return 0

    def step(self, cost: int) -> bool:
        """LagWalk.step."""
        self._topic = b""  # the queues may have changed since the last step
        while cost > 0:
            chunk, begin = self._tables.rows.behind(self._after)
            if chunk is None:
                self._close_pair()
                self._pair = b""
                return True
            end = len(chunk.keys)
            if begin == 0:
                cost -= self._pass(chunk)
            else:
                self._read(chunk, begin, end)
                cost -= end - begin
            self._after = chunk.keys[end - 1]
            self.passed += end - begin
        return False

    def result(self) -> tuple[list[GroupLag], GroupLag | None]:
        """LagWalk.result."""
        rows: list[GroupLag] = []
        for messages, pair, oldest_ms in sorted(self._kept, key=_order):
            topic, group = pair.decode().split("\x00")
            rows.append(GroupLag(group, topic, messages, oldest_ms))
        return rows, GroupLag("", "", self._other_messages, self._other_ms) if self._others else None

    def _pass(self, chunk: Chunk) -> int:
        """Add up the rows of a chunk; returns the cost, in rows."""
        keys = chunk.keys
        end = len(keys)
        if keys[0].startswith(_LITE) and keys[end - 1].startswith(_LITE):
            return CHUNK_COST
        cost = CHUNK_COST
        sums = chunk.sums
        if sums is not None and not self._holds(sums):
            sums = None
        if sums is None:
            cost += end
            self.visited += end
            sums = chunk.sums = self._summed(chunk)
        if sums is _NO_SUMS or not self._add_sums(sums):
            self._read(chunk, 0, end)
            return cost + end
        for begin, after in sums.others:
            self._read(chunk, begin, after)
            cost += after - begin
        return cost + SUM_COST * len(sums.queues)

    def _holds(self, sums: RowSums) -> bool:
        """False when a queue no longer has the offsets from the lowest to the highest position of its rows."""
        for found in sums.queues:
            queue = self._queue(found.topic, found.queue_id)
            if queue is not None and (queue.first > found.low or queue.visible < found.high):
                return False
        return True

    def _add_sums(self, sums: RowSums) -> bool:
        """Add the pairs of `sums` to the others. False when one of them may be among the pairs with the largest lag."""
        if len(self._kept) < self._most:
            return False
        least = self._kept[0][0]
        topic = ""
        bound = messages = oldest_ms = 0
        for found in sums.queues:
            if found.topic != topic:
                topic, bound = found.topic, 0
            queue = self._queue(topic, found.queue_id)
            if queue is None or found.low >= queue.visible:
                continue
            # Upper bound of a pair: all messages from the lowest position on, in each queue of the topic.
            bound += queue.visible - found.low
            if bound > least:
                return False
            messages += found.count * queue.visible - found.total
            if not found.oldest_ms:
                found.oldest_ms = self._store_ms(queue, found.low)
            if found.oldest_ms and (not oldest_ms or found.oldest_ms < oldest_ms):
                oldest_ms = found.oldest_ms
        if sums.queues:
            self._add_other(messages, oldest_ms)
        return True

    def _summed(self, chunk: Chunk) -> RowSums:
        """Sums of a chunk; _NO_SUMS beyond SUMS_MAX queues."""
        keys, floors = chunk.keys, chunk.floors
        end = len(keys)
        queues: list[QueueSum] = []
        others: list[tuple[int, int]] = []
        by_id: dict[bytes, QueueSum] = {}
        topic = b""
        begin = 0
        while begin < end:
            pair = keys[begin][: keys[begin].rindex(b"\x00") + 1]
            after = begin + 1
            while after < end and keys[after].startswith(pair):
                after += 1
            if not topic or not pair.startswith(topic):
                topic = pair[: pair.index(b"\x00") + 1]
                by_id = {}
                self._enter(topic[:-1])
            if begin == 0 or after == end or not self._has_sum(chunk, begin, after, len(pair)):
                if others and others[-1][1] == begin:
                    others[-1] = (others[-1][0], after)
                else:
                    others.append((begin, after))
                begin = after
                continue
            for row in range(begin, after):
                queue_id = keys[row][len(pair) :]
                queue = self._queue_of(queue_id)
                position = floors[row]
                if queue is not None and position < queue.first:
                    position = queue.first
                known = by_id.get(queue_id)
                if known is not None:
                    known.add(position)
                    continue
                if len(queues) == SUMS_MAX:
                    return _NO_SUMS
                by_id[queue_id] = QueueSum(topic[:-1].decode(), int(queue_id), position)
                queues.append(by_id[queue_id])
            begin = after
        return RowSums(queues, others)

    def _has_sum(self, chunk: Chunk, begin: int, end: int, size: int) -> bool:
        """True when all rows of a pair are idle, with positions not beyond the ends of their queues (0 for a missing queue)."""
        if not self._counted:
            return False
        for row in range(begin, end):
            floor = chunk.floors[row]
            if floor == LIVE:
                return False
            queue = self._queue_of(chunk.keys[row][size:])
            if floor > (0 if queue is None else queue.visible):
                return False
        return True

    def _read(self, chunk: Chunk, begin: int, end: int) -> None:
        """Add up the rows [`begin`, `end`) one by one."""
        self.visited += end - begin
        keys, floors = chunk.keys, chunk.floors
        for row in range(begin, end):
            key = keys[row]
            size = key.rindex(b"\x00")
            pair = key[:size]
            if pair != self._pair:
                self._close_pair()
                self._pair = pair
                self._messages = self._oldest_ms = 0
                self._enter_of(pair)
            elif row == begin:
                self._enter_of(pair)
            if not self._counted:
                continue
            queue = self._queue_of(key[size + 1 :])
            if queue is None:
                continue
            first = floors[row]
            settled = 0
            if first == LIVE:
                table = self._tables.awake(journal.parse_key(key))
                if table is None:
                    continue
                first = max(table.floor, queue.first)
                settled = table.settled.count_from(first)
            elif first < queue.first:
                first = queue.first
            messages = queue.visible - first - settled
            if messages > 0:
                self._messages += messages
                at_ms = self._time(queue, first)
                if at_ms and (not self._oldest_ms or at_ms < self._oldest_ms):
                    self._oldest_ms = at_ms

    def _close_pair(self) -> None:
        """Finish the current pair: of it and the kept pairs, the one with the smallest lag goes to the others."""
        pair = self._pair
        if not pair:
            return
        self._enter_of(pair)
        if not self._counted:
            return
        kept = self._kept
        if len(kept) < self._most:
            heappush(kept, (self._messages, pair, self._oldest_ms))
            return
        messages, oldest_ms = self._messages, self._oldest_ms
        if messages > kept[0][0]:
            messages, _, oldest_ms = heapreplace(kept, (messages, pair, oldest_ms))
        self._add_other(messages, oldest_ms)

    def _add_other(self, messages: int, oldest_ms: int) -> None:
        self._others = True
        self._other_messages += messages
        if oldest_ms and (not self._other_ms or oldest_ms < self._other_ms):
            self._other_ms = oldest_ms

    def _enter_of(self, pair: bytes) -> None:
        """Enter the topic of `pair`, unless it is the current one."""
        topic = pair[: pair.index(b"\x00")]
        if topic != self._topic:
            self._enter(topic)

    def _enter(self, topic: bytes) -> None:
        """Begin the rows of a topic. Lite queues, system topics and topics without a configuration have no lag."""
        self._topic = topic
        self._queues = {}
        self._times = {}
        name = topic.decode()
        entry = self._index.topics.get(name)
        self._counted = entry is not None and entry.settings is not None and not is_system_topic(name)

    def _queue_of(self, queue_id: bytes) -> Queue | None:
        """Queue of the current topic, with its first offset up to date."""
        if queue_id in self._queues:
            return self._queues[queue_id]
        queue = self._queue(self._topic.decode(), int(queue_id))
        self._queues[queue_id] = queue
        return queue

    def _queue(self, topic: str, queue_id: int) -> Queue | None:
        entry = self._index.topics.get(topic)
        if entry is None or entry.settings is None:
            return None
        queue = entry.queues.get(queue_id)
        if queue is not None:
            self._index.refresh(queue)
        return queue

    def _time(self, queue: Queue, offset: int) -> int:
        """Store time of a message of the current topic, epoch ms; 0 when it cannot be read."""
        place = (queue.id, offset)
        known = self._times.get(place)
        if known is None:
            if len(self._times) >= _TIMES_MAX:
                self._times.clear()
            known = self._times[place] = self._store_ms(queue, offset)
        return known

    def _store_ms(self, queue: Queue, offset: int) -> int:
        try:
            rows = self._index.rows(queue, offset, 1)
        except (OSError, StoreError) as error:
            self._events.unreadable(error)
            return 0
        return rows[0][3] if rows else 0


def _order(row: tuple[int, bytes, int]) -> tuple[int, bytes]:
    """Sort key: largest lag first, then by name."""
    return -row[0], row[1]
