"""The queues of a topic under one number each: the domain's queue ids, for queues that are on several brokers.

The place of a queue in the list is its number, for ever: new queues are added at the end, and those of a broker that has gone
keep their places, since positions of sessions and watches are kept by number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, final

import orjson

from domain.limits import QUEUES_PER_TOPIC_MAX
from domain.nameserver.route import TopicQueues
from domain.topic.topic import PERM_READ, PERM_WRITE

SPACE = "rocketmq_queues"
"""State space of the places: topic -> what `Places.stored` returns."""


class BrokerQueue(NamedTuple):
    """One queue of a topic."""

    broker: str
    queue_id: int


@final
class Places:
    """The queues of one topic in order of their places.

    queues     all that there have been
    readable   places that can be read now, ascending
    writable   places that can be written now, ascending
    """

    __slots__ = ("_numbers", "queues", "readable", "writable")

    def __init__(self, queues: Sequence[BrokerQueue] = ()) -> None:
        self.queues: list[BrokerQueue] = list(queues)
        self.readable: list[int] = []
        self.writable: list[int] = []
        self._numbers = {queue: at for at, queue in enumerate(self.queues)}

    def place(self, broker: str, queue_id: int) -> int:
        """The domain's queue id of queue `queue_id` of `broker`; -1: the topic has never had that queue."""
        return self._numbers.get(BrokerQueue(broker, queue_id), -1)

    def add(self, route: Sequence[TopicQueues]) -> bool:
        """Give the queues of a route places. True when there were new ones, which have to be kept."""
        before = len(self.queues)
        readable: list[int] = []
        writable: list[int] = []
        for each in route:
            for queue_id in range(max(each.read_queues, each.write_queues)):
                queue = BrokerQueue(each.broker, queue_id)
                at = self._numbers.get(queue, -1)
                if at < 0:
                    if len(self.queues) >= QUEUES_PER_TOPIC_MAX:
                        continue
                    at = self._numbers[queue] = len(self.queues)
                    self.queues.append(queue)
                if queue_id < each.read_queues and each.perm & PERM_READ:
                    readable.append(at)
                if queue_id < each.write_queues and each.perm & PERM_WRITE:
                    writable.append(at)
        self.readable, self.writable = sorted(readable), sorted(writable)
        return len(self.queues) > before

    def close(self) -> None:
        """There is no route any more: no queue can be read or written."""
        self.readable, self.writable = [], []

    def stored(self) -> bytes:
        """The value in the space: runs of [broker, first queue id, count]."""
        runs: list[list[object]] = []
        broker, first, count = "", 0, 0
        for queue in self.queues:
            if count and queue.broker == broker and queue.queue_id == first + count:
                count += 1
                continue
            if count:
                runs.append([broker, first, count])
            broker, first, count = queue.broker, queue.queue_id, 1
        if count:
            runs.append([broker, first, count])
        return orjson.dumps(runs)


def places_from(stored: bytes | None) -> Places:
    """The value in the space -> places. Raises ValueError for a value that this node has not written."""
    queues: list[BrokerQueue] = []
    for run in orjson.loads(stored) if stored else []:
        broker, first, count = run
        queues += [BrokerQueue(broker, number) for number in range(first, first + count)]
    return Places(queues)
