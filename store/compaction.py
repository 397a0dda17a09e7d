"""What is written again before its segment is deleted: live state, leases, next offsets of emptied queues, deleted topics."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import final

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

    def needed_below(self, base: int) -> list[StateChange]:
        """Changes of live state, and next offsets of queues that become empty, whose newest record stands before `base`.

        A key with a newer change that is accepted and not durable yet is left out: the log holds that change after `base`.
        """
        idle = self._ledger.turn.needed_below(base, self._commit.base)
        self._ledger.turn.write(self._commit.base)
        unapplied = self._appender.unapplied
        needed = [item for item in self._state.anchored_below(base) if (item.space, item.key) not in unapplied]
        needed = [item for item in needed if not self._is_stale(item, base)]
        needed += idle
        for queue in self.queues.below(base):
            self.queues.forget(queue)
            if queue.entry.name == TIMER_TOPIC or queue.visible != queue.next:
                continue
            if self._index.queue(queue.name, queue.id) is queue:
                needed.append(StateChange(EMPTY, _empty_key(queue.name, queue.id), b"%d" % queue.next))
        for space, prefix in ((DROPPED, b""), (EMPTY, lite.PREFIX.encode())):
            for key, value in self._state.scan(space, prefix):
                if self._is_stale(StateChange(space, key, value), base):
                    needed.append(StateChange(space, key, None))
        return needed

    def _is_stale(self, item: StateChange, base: int) -> bool:
        """True when neither the log from `base` on nor the index holds anything of a deleted topic or lite topic."""
        if item.value is None or item.space not in (DROPPED, EMPTY):
            return False
        facts = item.value.split(b" ")
        return len(facts) > 1 and int(facts[-2]) <= base and int(facts[-1]) <= self._index.first

    def snapshot(self) -> Iterator[tuple[int, StateChange, bool]]:
        """CheckpointSource.snapshot."""
        yield from self._state.snapshot()
        for base, change in self._ledger.turn.snapshot():
            yield base, change, False

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


def empty_at(state: StateView, topic: str, queue_id: int) -> int:
    """The next offset of a queue whose messages are all deleted; 0 when it never had one."""
    value = state.get(EMPTY, _empty_key(topic, queue_id))
    return 0 if value is None else int(value.split(b" ")[0])


def _empty_key(topic: str, queue_id: int) -> bytes:
    return f"{topic}\x00{queue_id}".encode()
