"""Tailed topics: the start and the current offset of each queue, and the held pull at it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final, final

from domain.errors import Failure
from domain.limits import MILLISECOND_NS
from domain.ports import Clock
from gateway.brokers.broker_links import Brokers
from gateway.brokers.cluster_map import ClusterMap
from gateway.brokers.pull_reply import LATER_MS, ask_number, pull_request, pulled
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame

HOLD_MS: Final = 15_000
"""Time for which a broker holds a pull while there is nothing new."""
ANSWER_MS: Final = 25_000
PAUSE_NS: Final = 500 * MILLISECOND_NS
"""Pause after a pull that failed."""
RECORDS: Final = 256
BYTES: Final = 1024 * 1024
"""Records and bytes of one pull."""

log = logging.getLogger("headgate.rocketmq")

Arrived = Callable[[str, int, Sequence[bytes]], None]
Lost = Callable[[str, int, int], None]


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

    def release(self) -> None:
        """Call what waits for the start of its queues."""
        waiting, self.waiting = self.waiting, []
        for then in waiting:
            then()


@final
class TailPulls:
    """Held pulls at the queues of tailed topics.

    behind      queues whose last request failed -> time since which they may have unreported messages, monotonic
    """

    def __init__(self, servers: Brokers, cluster: ClusterMap, clock: Clock, arrived: Arrived) -> None:
        self.behind: dict[QueueTail, int] = {}
        self.delivered = 0
        self._lost_followers: list[Lost] = []
        self._servers = servers
        self._cluster = cluster
        self._clock = clock
        self._arrived = arrived

    def follow_lost(self, lost: Lost) -> None:
        """Call `lost` with topic, place and offset when a broker has lost its newest messages.

        Messages from that offset on are new, although listeners were notified of higher offsets before.
        """
        self._lost_followers.append(lost)

    def behind_ns(self) -> int:
        """Longest time for which a queue may have had unreported messages, in ns."""
        now = self._clock.monotonic_ns()
        return now - min(self.behind.values(), default=now)

    def forget(self, tail: TopicTail | None) -> None:
        """The queues of a tail that has ended are behind no more."""
        for queue in () if tail is None else tail.queues.values():
            self.behind.pop(queue, None)

    def find(self, name: str, tail: TopicTail, queue: QueueTail, first: bool) -> None:
        """Query the start offset of a queue for this tail. `first`: the watchers of the tail wait for this answer.

        A later start is not at the end of the queue, since messages were stored in between: the broker searches for the time of
        the tail's request minus LATER_MS, since clocks differ, so a message may be older than its subscription. A resumed tail
        starts where it ended, unless all messages are younger: then the topic may be another one.
        """
        code, more = codes.GET_MIN_OFFSET if queue.whole else codes.GET_MAX_OFFSET, {}
        if queue.since_ms:
            code, more = codes.SEARCH_OFFSET, {"timestamp": str(queue.since_ms - LATER_MS), "boundaryType": "LOWER"}
        asked_ms = self._clock.wall_ms()
        where = self._cluster.queues(name)[queue.place]
        queue.asking = True

        def found(offset: int | Failure) -> None:
            queue.asking = False
            if isinstance(offset, Failure):
                if not queue.whole:
                    queue.since_ms = queue.since_ms or asked_ms
                self._pause(name, tail, queue)
            else:
                queue.offset = queue.kept if offset and queue.kept >= 0 else offset
                queue.notified_ms = asked_ms
                if queue.lost:
                    queue.lost = False
                    for lost in self._lost_followers:
                        lost(name, queue.place, offset)
                self._pull(name, tail, queue)
            if first:
                tail.unknown -= 1
                if not tail.unknown:
                    tail.release()

        ask_number(self._servers, name, where, code, more, found)

    def _pull(self, name: str, tail: TopicTail, queue: QueueTail) -> None:
        if tail.ended or queue.asking:
            return
        if queue.place not in self._cluster.readable(name):
            self._pause(name, tail, queue)
            return
        where = self._cluster.queues(name)[queue.place]
        offset = queue.offset
        queue.asking = True

        def answered(answer: Frame | Failure) -> None:
            queue.asking = False
            if tail.ended:
                return
            result = answer if isinstance(answer, Failure) else pulled(where.broker, answer, queue.place, offset, True)
            if isinstance(result, Failure):
                self._pause(name, tail, queue)
                return
            self.behind.pop(queue, None)
            if result.status == "TOO_LARGE":
                self._begin_again(name, tail, queue)
                return
            queue.offset = result.next_offset
            queue.notified_ms = self._clock.wall_ms()
            if result.records:
                self.delivered += len(result.records)
                self._arrived(name, queue.place, result.records)
            elif result.status == "EMPTY" and result.next_offset != offset:
                queue.offset = offset
            self._pull(name, tail, queue)

        request = pull_request(name, where, offset, RECORDS, BYTES, HOLD_MS)
        self._servers.ask(where.broker, request, answered, ANSWER_MS)

    def _begin_again(self, name: str, tail: TopicTail, queue: QueueTail) -> None:
        """Restart the tail of a queue that ends before its offset: an incomplete replica became master, or the topic is new.

        Messages stored since the last answer of the broker are found by time.
        """
        where = self._cluster.queues(name)[queue.place]
        text = "broker %s has lost messages that it had told, or the topic was made anew: queue %s of %s ends before offset %s"
        log.warning(text, where.broker, where.queue_id, name, queue.offset)
        queue.offset = queue.kept = -1
        queue.since_ms, queue.whole, queue.lost = queue.notified_ms, False, True
        self.find(name, tail, queue, False)

    def _pause(self, name: str, tail: TopicTail, queue: QueueTail) -> None:
        """Continue after PAUSE_NS at the same offset."""
        if tail.ended:
            return
        queue.asking = True
        self.behind.setdefault(queue, self._clock.monotonic_ns())

        def again() -> None:
            queue.asking = False
            if tail.ended:
                return
            if queue.offset < 0:
                self.find(name, tail, queue, False)
            else:
                self._pull(name, tail, queue)

        self._clock.call_at(self._clock.monotonic_ns() + PAUSE_NS, again)
