"""Who consumes which queues, when the server decides (RocketMQ's QueryAssignmentProcessor, AllocateMessageQueueAveragely)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ANY_QUEUE = -1


@dataclass(frozen=True, slots=True)
class Question:
    """What a client asks: its id, the topic, the strategy by name, and whether it broadcasts."""

    client_id: str
    topic: str
    strategy: str
    broadcasting: bool


def assign(asked: Question, mode: str, shared: int, members: Sequence[str], queues: int) -> list[int] | None:
    """Queue ids for the client; None when nothing can be said and it should keep what it has (it is no member).

    POP: any queue (-1) for everybody, or with `shared` neighbours the client's own average share and theirs.
    """
    if asked.broadcasting:
        return list(range(queues))
    if mode == "POP" and (shared <= 0 or shared >= len(members) - 1):
        return [ANY_QUEUE]
    ids = sorted(members)
    if asked.client_id not in ids:
        return None
    at = ids.index(asked.client_id)
    if mode != "POP":
        return share(queues, len(ids), at, circle=asked.strategy == "AVG_BY_CIRCLE")
    out: list[int] = []
    for step in range(shared + 1):
        for queue_id in share(queues, len(ids), (at + step) % len(ids), circle=False):
            if queue_id not in out:
                out.append(queue_id)
    return out


def share(queues: int, members: int, at: int, *, circle: bool) -> list[int]:
    """The part of member `at`: a run of neighbouring queues, or every members-th one."""
    if circle:
        return list(range(at, queues, members))
    rest = queues % members
    size = 1 if queues <= members else queues // members + (1 if rest > 0 and at < rest else 0)
    start = at * size if rest > 0 and at < rest else at * size + rest
    return list(range(start, max(start, min(start + size, queues))))
