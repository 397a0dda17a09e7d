"""What is written again before its segment is deleted: live state, leases, next offsets of emptied queues, deleted topics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, final

from domain import lite
from domain.address import TIMER_TOPIC
from domain.message import Message
from domain.store_ports import StateChange
from store.append import Appender
from store.lease.ledger import LeaseLedger
from store.log.commit import GroupCommit
from store.log.open_batch import Done
from store.log.segment import Segments
from store.queue.index import QueueIndex
from store.queue.queue import Queue
from store.state.anchors import Anchors
from store.state.view import DROPPED, EMPTY, StateView

SLICE_TABLES: Final = 256
SLICE_CHANGES: Final = 512
SLICE_BYTES: Final = 256 * 1024
SLICE_LOOKS: Final = 4_096
"""Live lease tables, changes, their bytes, and items looked at in vain, in one turn of what is carried forward."""


@final
class Compaction:
    """Finds the state that retention has to write again, and removes topics and lite queues.

    queues   queues by the segment that holds their newest message
    """

    def __init__(
        self, commit: GroupCommit, index: QueueIndex, state: StateView, ledger: LeaseLedger, appender: Appender
    ) -> None:
        self._commit = commit
        self._index = index
        self._state = state
        self._ledger = ledger
        self._appender = appender
        self.queues: Anchors[Queue] = Anchors()

    def load(self, segments: Segments) -> None:
        """Find the segment of each queue's newest message, after recovery."""
        for base, queue in self._index.newest(segments):
            self.queues.touch(queue, base)

    def keep(self, messages: Sequence[Message], changes: Sequence[StateChange], done: Done) -> None:
        """Write again what is still needed of a segment; durable before `done`."""
        self._appender.add(messages, changes, done, True)

    def carry(self, base: int) -> Iterator[list[StateChange] | None]:
        """Slices of what has to be written again before the segments before `base` may be deleted: leases, state, queues.

        These are values whose newest record stands before `base`, and the next offsets of queues that become empty. The caller
        writes each slice, in order, before it takes the next; None is a slice in which nothing was found. Live lease tables
        are journaled here: the first write after that covers them. Other changes may be made between two slices: nothing
        becomes older by them. Raises StoreError, OSError.
        """
        turn = self._ledger.turn
        tables = turn.anchors.below(base)
        for at in range(0, len(tables), SLICE_TABLES):
            turn.renew(tables[at : at + SLICE_TABLES], base)
            turn.write(self._commit.base)
            yield []
        yield from _slices(self._idle_below(base))
        yield from _slices(self._state_below(base))
        yield from _slices(self._queues_below(base))
        yield from _slices(self._stale(base))

    def _idle_below(self, base: int) -> Iterator[StateChange | None]:
        tables = self._ledger.tables
        for key in tables.state_keys():
            yield tables.rewrite_idle(key, base, self._commit.base)

    def _state_below(self, base: int) -> Iterator[StateChange | None]:
        """Leaves out keys with a newer change that is accepted and not durable yet: the log holds it after `base`."""
        unapplied = self._appender.unapplied
        for item in self._state.anchored_below(base):
            skipped = item is None or (item.space, item.key) in unapplied or self._is_stale(item, base)
            yield None if skipped else item

    def _queues_below(self, base: int) -> Iterator[StateChange | None]:
        for queue in self.queues.below(base):
            if not 0 <= self.queues.base_of(queue) < base:
                yield None  # it has got messages meanwhile
                continue
            self.queues.forget(queue)
            ended = queue.entry.name != TIMER_TOPIC and queue.visible == queue.next
            if ended and self._index.queue(queue.name, queue.id) is queue:
                yield StateChange(EMPTY, _empty_key(queue.name, queue.id), b"%d" % queue.next)
            else:
                yield None

    def _stale(self, base: int) -> Iterator[StateChange | None]:
        for space, prefix in ((DROPPED, b""), (EMPTY, lite.PREFIX.encode())):
            for key, value in list(self._state.scan(space, prefix)):
                stale = self._state.get(space, key) == value and self._is_stale(StateChange(space, key, value), base)
                yield StateChange(space, key, None) if stale else None

    def _is_stale(self, item: StateChange, base: int) -> bool:
        """True when neither the log from `base` on nor the index holds anything of a deleted topic or lite topic."""
        if item.value is None or item.space not in (DROPPED, EMPTY):
            return False
        facts = item.value.split(b" ")
        return len(facts) > 1 and int(facts[-2]) <= base and int(facts[-1]) <= self._index.first

    def snapshot(self) -> Iterator[tuple[int, StateChange, bool] | None]:
        """CheckpointSource.snapshot."""
        yield from self._state.snapshot()
        for found in self._ledger.turn.snapshot():
            yield None if found is None else (*found, False)

    def drop_topic(self, topic: str) -> list[StateChange]:
        """Remove a topic's queues and leases; the changes for the log."""
        changes = self._ledger.drop_topic(topic)
        old = self._index.topics.get(topic)
        for queue in [] if old is None else old.all_queues():
            self.queues.forget(queue)
        for prefix in (f"{topic}\x00", lite.queue_name(topic, "")):
            for key, _ in self._state.scan(EMPTY, prefix.encode()):
                changes.append(StateChange(EMPTY, key, None))
                self._state.apply(changes[-1], 0)
        self._index.drop_topic(topic, self._commit.end)
        changes.append(StateChange(DROPPED, topic.encode(), b"%d %d" % (self._commit.end, self._index.end)))
        return changes

    def drop_lite_queue(self, queue: Queue) -> StateChange:
        """Remove a lite queue; the change for the log, which is kept while the log holds earlier messages of the lite topic."""
        key = _empty_key(queue.name, 0)
        item = StateChange(EMPTY, key, b"%d %d %d" % (queue.next, self._commit.end, self._index.end))
        self.queues.forget(queue)
        self._index.drop(queue)
        self._state.apply(item, self._commit.base)
        return item


def _slices(found: Iterable[StateChange | None]) -> Iterator[list[StateChange] | None]:
    """Lists of changes, bounded by SLICE_CHANGES and SLICE_BYTES; None after SLICE_LOOKS items that are None."""
    slice_: list[StateChange] = []
    size = looks = 0
    for item in found:
        looks += 1
        if item is not None:
            slice_.append(item)
            size += len(item.key) + len(item.value or b"")
        if len(slice_) >= SLICE_CHANGES or size >= SLICE_BYTES:
            yield slice_
            slice_, size, looks = [], 0, 0
        elif looks >= SLICE_LOOKS:
            yield slice_ or None
            slice_, size, looks = [], 0, 0
    if slice_:
        yield slice_


def empty_at(state: StateView, topic: str, queue_id: int) -> int:
    """The next offset of a queue whose messages are all deleted; 0 when it never had one."""
    value = state.get(EMPTY, _empty_key(topic, queue_id))
    return 0 if value is None else int(value.split(b" ")[0])


def _empty_key(topic: str, queue_id: int) -> bytes:
    return f"{topic}\x00{queue_id}".encode()
