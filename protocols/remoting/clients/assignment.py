"""Assignment of queues to members by the server (RocketMQ's QueryAssignmentProcessor, AllocateMessageQueueAveragely).

The queues are those of the topic's whole route, in the order of RocketMQ's MessageQueue: by broker, then by queue id. So all
brokers of the topic that know the same members and the same route give the same assignment.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from domain.limits import QUEUES_PER_TOPIC_MAX
from domain.nameserver.route import TopicQueues
from domain.topic.topic import PERM_READ

ANY_QUEUE: Final = -1
QUEUES_MAX: Final = QUEUES_PER_TOPIC_MAX
"""Queues of one route that are assigned: the reply for more queues would be longer than a frame may be."""

Queue = tuple[str, int]
"""(broker name, queue id); ANY_QUEUE stands for all queues of the broker. Also (broker name, number of its queues)."""


@dataclass(frozen=True, slots=True)
class AssignmentRequest:
    """A client's request for its queues.

    strategy      name of the strategy: AVG or AVG_BY_CIRCLE
    broadcasting  True: the client reads all queues
    """

    client_id: str
    topic: str
    strategy: str
    broadcasting: bool


def readable(route: Sequence[TopicQueues]) -> list[Queue]:
    """(broker name, number of read queues) of each broker that the topic can be read from, sorted by broker name."""
    return sorted((each.broker, each.read_queues) for each in route if each.perm & PERM_READ and each.read_queues > 0)


def size(brokers: Sequence[Queue]) -> int:
    """The number of queues of all brokers."""
    return sum(queues for _, queues in brokers)


def assign(
    asked: AssignmentRequest, mode: str, shared: int, members: Sequence[str], brokers: Sequence[Queue]
) -> list[Queue] | None:
    """The queues of the client; None when the client is not in `members`: it keeps the queues that it has.

    mode     PULL: each queue has one member. POP: each member gets ANY_QUEUE of each broker, or, when `shared` is greater
             than 0 and less than the number of other members, its own queues and those of the next `shared` members;
             with more members than queues, one queue each
    brokers  the result of readable(), at most QUEUES_MAX queues
    """
    total = size(brokers)
    if asked.broadcasting:
        return _places(brokers, range(total))
    if mode == "POP" and (shared <= 0 or shared >= len(members) - 1):
        return [(broker, ANY_QUEUE) for broker, _ in brokers]
    ids = sorted(members)
    if asked.client_id not in ids:
        return None
    at = ids.index(asked.client_id)
    circle = asked.strategy == "AVG_BY_CIRCLE"
    if mode != "POP":
        return _places(brokers, share(total, len(ids), at, circle=circle))
    if len(ids) > total:
        return _places(brokers, [at % total] if total else [])
    # `shared` is less than the number of other members, so the takers differ and no queue is listed twice.
    takers = [(at + step) % len(ids) for step in range(shared + 1)]
    return _places(brokers, [queue for taker in takers for queue in share(total, len(ids), taker, circle=circle)])


def _places(brokers: Sequence[Queue], numbers: Sequence[int]) -> list[Queue]:
    """Indexes into all queues of the route -> (broker name, queue id)."""
    ends = list(accumulate(queues for _, queues in brokers))
    out: list[Queue] = []
    for number in numbers:
        at = bisect_right(ends, number)
        broker, queues = brokers[at]
        out.append((broker, number - ends[at] + queues))
    return out


def share(queues: int, members: int, at: int, *, circle: bool) -> Sequence[int]:
    """Queue indexes of the member at index `at`: a contiguous range, or with `circle` every `members`-th queue."""
    if circle:
        return range(at, queues, members)
    rest = queues % members
    length = 1 if queues <= members else queues // members + (1 if rest > 0 and at < rest else 0)
    start = at * length if rest > 0 and at < rest else at * length + rest
    return range(start, max(start, min(start + length, queues)))
