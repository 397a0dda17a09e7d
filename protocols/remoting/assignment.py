"""Who consumes which queues, when the server decides (RocketMQ's QueryAssignmentProcessor, AllocateMessageQueueAveragely).

The queues are those of the topic's whole route, in the order of RocketMQ's MessageQueue: by broker, then by number. So every
broker of the topic that knows the same members and the same route answers alike.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from domain.limits import QUEUES_PER_TOPIC_MAX
from domain.nameserver.route import TopicQueues
from domain.topic import PERM_READ

ANY_QUEUE: Final = -1
QUEUES_MAX: Final = QUEUES_PER_TOPIC_MAX
"""Queues of one route that are shared out: a longer answer would be no frame any more."""

Queue = tuple[str, int]
"""Broker and number, ANY_QUEUE for all of the broker's."""


@dataclass(frozen=True, slots=True)
class AssignmentRequest:
    """What a client asks: its id, the topic, the strategy by name, and whether it broadcasts."""

    client_id: str
    topic: str
    strategy: str
    broadcasting: bool


def readable(route: Sequence[TopicQueues]) -> list[Queue]:
    """Brokers that a topic can be read from and how many queues each has, by broker."""
    return sorted((each.broker, each.read_queues) for each in route if each.perm & PERM_READ and each.read_queues > 0)


def size(brokers: Sequence[Queue]) -> int:
    """Queues of all brokers together."""
    return sum(queues for _, queues in brokers)


def assign(
    asked: AssignmentRequest, mode: str, shared: int, members: Sequence[str], brokers: Sequence[Queue]
) -> list[Queue] | None:
    """Queues for the client; None when nothing can be said and it should keep what it has (it is no member).

    `brokers` as readable() has them, QUEUES_MAX queues at most. POP: any queue (-1) of each broker for everybody, or with
    `shared` neighbours the client's own share and theirs; where members outnumber queues, one each.
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
    # With `shared` below the number of members these are different ones, and no queue has two.
    takers = [(at + step) % len(ids) for step in range(shared + 1)]
    return _places(brokers, [queue for taker in takers for queue in share(total, len(ids), taker, circle=circle)])


def _places(brokers: Sequence[Queue], numbers: Sequence[int]) -> list[Queue]:
    """Queues by their number in the whole route."""
    ends = list(accumulate(queues for _, queues in brokers))
    out: list[Queue] = []
    for number in numbers:
        at = bisect_right(ends, number)
        broker, queues = brokers[at]
        out.append((broker, number - ends[at] + queues))
    return out


def share(queues: int, members: int, at: int, *, circle: bool) -> Sequence[int]:
    """The part of member `at`: a run of neighbouring queues, or every members-th one."""
    if circle:
        return range(at, queues, members)
    rest = queues % members
    length = 1 if queues <= members else queues // members + (1 if rest > 0 and at < rest else 0)
    start = at * length if rest > 0 and at < rest else at * length + rest
    return range(start, max(start, min(start + length, queues)))
