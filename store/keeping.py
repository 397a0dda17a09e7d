"""What must not go with its segment: live state, leases, the ends of emptied queues, the deletions of topics."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from domain.address import TIMER_TOPIC
from domain.message import Message
from domain.ports import StateChange
from store.append import Appender
from store.lease.ledger import Ledger
from store.log.commit import Done, GroupCommit
from store.queue.index import QueueIndex
from store.queue.queue import Queue
from store.state.anchors import Anchors
from store.state.view import DROPPED, EMPTY, StateView


@final
class Keeping:
    """Knows which segment holds the newest word on a thing. `queues`: the segments of the queues' newest messages."""

    def __init__(
        self, commit: GroupCommit, index: QueueIndex, state: StateView, ledger: Ledger, appender: Appender
    ) -> None:
        self._commit = commit
        self._index = index
        self._state = state
        self._ledger = ledger
        self._appender = appender
        self.queues: Anchors[Queue] = Anchors()

    def keep(self, messages: Sequence[Message], changes: Sequence[StateChange], done: Done) -> None:
        """Write what has to outlive its segment; durable before `done`."""
        self._appender.add(messages, changes, done, True)

    def needed_below(self, base: int) -> list[StateChange]:
        """Live state, and ends of queues that will be empty, of which the newest record stands before `base`.

        What has a newer change under way is left out: the log has that, behind.
        """
        self._ledger.anchored_below(base)
        self._ledger.journal(self._commit.base)
        unapplied = self._appender.unapplied
        needed = [item for item in self._state.anchored_below(base) if (item.space, item.key) not in unapplied]
        needed = [item for item in needed if not (item.space == DROPPED and self._is_stale(item, base))]
        for queue in self.queues.below(base):
            self.queues.forget(queue)
            if queue.entry.name != TIMER_TOPIC and queue.visible == queue.next and queue.entry.queues.get(queue.id) is queue:
                needed.append(StateChange(EMPTY, _empty_key(queue.entry.name, queue.id), b"%d" % queue.next))
        for key, value in self._state.scan(DROPPED, b""):
            item = StateChange(DROPPED, key, value)
            if self._is_stale(item, base):
                needed.append(StateChange(DROPPED, key, None))
        return needed

    def _is_stale(self, item: StateChange, base: int) -> bool:
        """True when neither the log from `base` on nor the index knows of the deleted topic any more."""
        if item.value is None:
            return False
        position, place = item.value.split(b" ")
        return int(position) <= base and int(place) <= self._index.first

    def drop_topic(self, topic: str) -> list[StateChange]:
        """Forget a topic's queues and leases; what the log has to know of it."""
        changes = self._ledger.drop_topic(topic)
        old = self._index.topics.get(topic)
        for queue in [] if old is None else old.queues.values():
            self.queues.forget(queue)
        for key, _ in self._state.scan(EMPTY, topic.encode() + b"\x00"):
            changes.append(StateChange(EMPTY, key, None))
            self._state.apply(changes[-1], 0)
        self._index.drop_topic(topic, self._commit.end)
        changes.append(StateChange(DROPPED, topic.encode(), b"%d %d" % (self._commit.end, self._index.end)))
        return changes


def empty_at(state: StateView, topic: str, queue_id: int) -> int:
    """Where a queue goes on whose messages are all gone; 0 when there never were any."""
    value = state.get(EMPTY, _empty_key(topic, queue_id))
    return 0 if value is None else int(value)


def _empty_key(topic: str, queue_id: int) -> bytes:
    return f"{topic}\x00{queue_id}".encode()
