"""What must not go with its segment: live state, leases, the ends of emptied queues, the deletions of topics."""

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
    """Knows which segment holds the newest word on a thing. `queues`: the segments of the queues' newest messages."""

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
        """Note the segments of the queues' newest messages, after recovery."""
        for base, queue in self._index.newest(segments):
            self.queues.touch(queue, base)

    def keep(self, messages: Sequence[Message], changes: Sequence[StateChange], done: Done) -> None:
        """Write what has to outlive its segment; durable before `done`."""
        self._appender.add(messages, changes, done, True)

    def needed_below(self, base: int) -> list[StateChange]:
        """Live state, and ends of queues that will be empty, of which the newest record stands before `base`.

        What has a newer change under way is left out: the log has that, behind.
        """
        resting = self._ledger.turn.needed_below(base, self._commit.base)
        self._ledger.turn.write(self._commit.base)
        unapplied = self._appender.unapplied
        needed = [item for item in self._state.anchored_below(base) if (item.space, item.key) not in unapplied]
        needed = [item for item in needed if not self._is_stale(item, base)]
        needed += resting
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
        """True when neither the log from `base` on nor the index knows of the deleted topic or lite topic any more."""
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
        """Forget a topic's queues and leases; what the log has to know of it."""
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
        """Forget a lite queue; what the log has to know of it, for as long as it has messages of before."""
        key = _empty_key(queue.name, 0)
        item = StateChange(EMPTY, key, b"%d %d %d" % (queue.next, self._commit.end, self._index.end))
        self.queues.forget(queue)
        self._index.drop(queue)
        self._state.apply(item, self._commit.base)
        return item


def empty_at(state: StateView, topic: str, queue_id: int) -> int:
    """Where a queue goes on whose messages are all gone; 0 when there never were any."""
    value = state.get(EMPTY, _empty_key(topic, queue_id))
    return 0 if value is None else int(value.split(b" ")[0])


def _empty_key(topic: str, queue_id: int) -> bytes:
    return f"{topic}\x00{queue_id}".encode()
