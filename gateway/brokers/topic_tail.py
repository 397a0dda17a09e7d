"""State of a tailed topic and of its queues: the start and the current offset of each."""

from __future__ import annotations

from collections.abc import Callable
from typing import final


@final
class QueueTail:
    """One queue of a tailed topic.

    offset       offset of the next message; -1: unknown yet
    whole        True: it starts with the first message of the queue
    since_ms     it starts with messages stored since then, epoch ms by the clock of this node; 0: at the end of the queue
    kept         offset at which an earlier tail ended at `since_ms`; -1: there was none
    notified_ms  time of the broker's last answer, epoch ms by the clock of this node
    lost         True: the broker has lost its newest messages, and the queue ends before `offset`
    asking       True while a request or a pause is in progress
    """

    __slots__ = ("asking", "kept", "lost", "notified_ms", "offset", "place", "since_ms", "whole")

    def __init__(self, place: int, whole: bool, since_ms: int, kept: int = -1) -> None:
        self.place = place
        self.whole = whole
        self.since_ms = since_ms
        self.kept = kept
        self.offset = -1
        self.notified_ms = since_ms
        self.lost = False
        self.asking = False


@final
class TopicTail:
    """A tailed topic.

    queues    place -> queue
    waiting   callbacks that wait until the start of every queue was queried
    unknown   number of queues without the first answer to that query
    since_ms  start of the tail, epoch ms
    until_ns  time until which it is kept without an interest, monotonic
    ended     True: it delivers nothing any more
    """

    __slots__ = ("ended", "queues", "since_ms", "unknown", "until_ns", "waiting")

    def __init__(self, since_ms: int) -> None:
        self.since_ms = since_ms
        self.queues: dict[int, QueueTail] = {}
        self.waiting: list[Callable[[], None]] = []
        self.unknown = 0
        self.until_ns = 0
        self.ended = False
