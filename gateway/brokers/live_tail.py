"""Tails of watched topics: new messages, by a held pull at each of their queues.

A tail starts at the end of each queue. A watcher is answered when the brokers have reported the ends, or when one of them has
failed to. The tail at such a broker starts later, as soon as it answers, at the time of the watcher's request, so that messages
sent in between are not skipped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, final

from domain.address import is_derived_topic, is_system_topic, topic_of_path
from domain.errors import ErrorCode, Failure
from domain.limits import MILLISECOND_NS, SECOND_NS
from domain.ports import Clock
from gateway.brokers.broker_links import Brokers
from gateway.brokers.cluster_map import ClusterMap
from gateway.brokers.pull_reply import LATER_MS
from gateway.brokers.topic_tail import ANSWER_MS, Arrived, QueueTail, TailPulls, TopicTail
from gateway.usecase.waiting.fan_in import FanIn

KEPT_NS: Final = 10 * SECOND_NS
"""Time for which a topic is tailed after the last interest in it, and after the tail was asked for."""
QUEUES_MAX: Final = 8_192
"""Queues that are tailed at once."""

LEFT_NS: Final = 3_600 * SECOND_NS
"""Time for which it is remembered where the tail of a topic without a route has ended."""

log = logging.getLogger("headgate.rocketmq")

Ready = Callable[[Failure | None], None]


@final
class Tail:
    """The tails of all topics.

    Interests are counted by topic: `watch` adds or removes the interest of a filter. `ready` starts a tail before that, so that
    no message is missed between the answer to a subscription and its interest.

    all       interests in every topic: filters that begin with a wildcard
    _left     tails of watched topics that ended for lack of a route
    """

    def __init__(self, servers: Brokers, cluster: ClusterMap, clock: Clock, arrived: Arrived) -> None:
        self.all = 0
        self._cluster = cluster
        self._clock = clock
        self.pulls = TailPulls(servers, cluster, clock, arrived)
        self._interests: dict[str, int] = {}
        self._tails: dict[str, TopicTail] = {}
        self._left: dict[str, TopicTail] = {}
        self._stopped = False
        cluster.follow(self._changed)
        clock.call_at(clock.monotonic_ns() + KEPT_NS, self._prune)

    def stop(self) -> None:
        """Stop all tails."""
        self._stopped = True
        for name in list(self._tails):
            self._drop(name)

    def figures(self) -> dict[str, float]:
        """Metrics, by name."""
        return {
            "rocketmq_tailed_topics": len(self._tails),
            "rocketmq_tailed_queues": self._have(),
            "rocketmq_tailed_messages_total": self.pulls.delivered,
        }

    def watch(self, pattern: str, begins: bool) -> None:
        """Add or remove the interest of a filter of a connected client."""
        name = topic_of_pattern(pattern)
        if not name:
            self.all += 1 if begins else -1
            if begins and self.all == 1:
                self._follow_all()
            return
        count = self._interests.get(name, 0) + (1 if begins else -1)
        if count > 0:
            self._interests[name] = count
            if begins and name not in self._tails:
                self._follow(name)
        else:
            self._interests.pop(name, None)
            self.pulls.forget(self._left.pop(name, None))
            tail = self._tails.get(name)
            if tail is not None:
                tail.until_ns = self._clock.monotonic_ns() + KEPT_NS

    def wait(self, topic: str) -> bool:
        """Watch `topic` for a pull that waits at the end of one of its queues. False: there are too many queues."""
        if topic not in self._tails and self._have() + len(self._cluster.readable(topic)) > QUEUES_MAX:
            return False
        self.watch(topic, True)
        return True

    def ready(self, pattern: str, done: Ready) -> None:
        """Start the tails of the topics that `pattern` can match, then call `done`. QUOTA: there are too many queues."""
        name = topic_of_pattern(pattern)
        names = [name] if name else self._all_names()
        more = sum(len(self._cluster.readable(each)) for each in names if each not in self._tails)
        have = self._have()
        if have + more > QUEUES_MAX:
            text = f"the filter needs {more} queues to be followed beside {have}: at most {QUEUES_MAX} are"
            done(Failure(ErrorCode.QUOTA, text))
            return

        def begin(topic: str, begun: Callable[[None], None]) -> None:
            self._begin(topic)
            self.started(topic, lambda: begun(None))

        ask: FanIn[None, str] = FanIn(begin, lambda *_: done(None))
        ask.start((each,) for each in names)

    def started(self, topic: str, then: Callable[[], None]) -> None:
        """Call `then` when it is known where the topic's tail begins; at once when it has no tail."""
        tail = self._tails.get(topic)
        if tail is None or not tail.unknown:
            then()
        else:
            tail.waiting.append(then)

    def notified(self, topic: str, place: int) -> int:
        """Offset after the last record of a queue that listeners were notified of; -1: no tail, or its start is unknown."""
        tail = self._tails.get(topic)
        queue = None if tail is None else tail.queues.get(place)
        return -1 if queue is None else queue.offset

    def late_ms(self) -> int:
        """Current upper limit of the time from the storing of a message, by its broker's clock, to its notification, in ms."""
        return LATER_MS + ANSWER_MS + self.pulls.behind_ns() // MILLISECOND_NS

    def _have(self) -> int:
        return sum(len(tail.queues) for tail in self._tails.values())

    def _all_names(self) -> list[str]:
        return [each for each in self._cluster.topics() if is_tailed(each)]

    def _follow_all(self) -> None:
        """Begin the tails of all topics. `ready` does so for a new filter; a session that is resumed does not ask it."""
        have = self._have()
        names = [name for name in self._all_names() if name not in self._tails]
        for at, name in enumerate(names):
            have += len(self._cluster.readable(name))
            if have > QUEUES_MAX:
                log.warning("%s topics are not followed, for want of room: %s queues are at most", len(names) - at, QUEUES_MAX)
                break
            self._begin_at_end(name)

    def _follow(self, name: str) -> None:
        """Begin the tail of a topic that a client watches.

        One that has to be asked for is new to this node, and whoever watched it before has read nothing of it yet.
        """
        begin = self._begin_at_end if self._cluster.route(name) is not None else self._begin_new
        self._cluster.ensure(name, lambda failure: begin(name) if failure is None else None)

    def _begin(self, name: str) -> None:
        if name not in self._tails and ((self.all and is_tailed(name)) or name in self._interests):
            # It was watched before this node knew it, or while it had no route.
            self._begin_new(name)
        self._begin_at_end(name)

    def _begin_at_end(self, name: str) -> None:
        tail = self._tails.get(name)
        if tail is None and not self._stopped and self._cluster.route(name) is not None:
            tail = self._tails[name] = TopicTail(self._clock.wall_ms())
            for place in self._cluster.readable(name):
                self._add(name, tail, QueueTail(place, False, 0))
        if tail is not None:
            tail.until_ns = self._clock.monotonic_ns() + KEPT_NS

    def _add(self, name: str, tail: TopicTail, queue: QueueTail) -> None:
        tail.queues[queue.place] = queue
        tail.unknown += 1
        self.pulls.find(name, tail, queue, True)

    def _changed(self, name: str) -> None:
        """Follower of the cluster map: the route of the topic `name` has changed or gone. "" (brokers have) changes no tail."""
        if self._stopped:
            return
        tail = self._tails.get(name)
        if tail is None:
            if name and ((self.all and is_tailed(name)) or name in self._interests):
                self._begin_new(name)
            return
        if self._cluster.route(name) is None:
            self._drop(name)
            if self.all or name in self._interests:
                self._leave(name, tail)
            return
        for place in self._cluster.readable(name):
            if place not in tail.queues:
                # A new queue, or one of a broker that was away when the tail began.
                self._add(name, tail, QueueTail(place, False, tail.since_ms))

    def _begin_new(self, name: str) -> None:
        """Start the tail of a watched topic that now has a route: at its first message, or where an earlier tail ended."""
        if name in self._tails or self._stopped or self._cluster.route(name) is None:
            return
        left = self._left.pop(name, None)
        tail = self._tails[name] = TopicTail(self._clock.wall_ms() if left is None else left.since_ms)
        for place in self._cluster.readable(name):
            old = None if left is None else left.queues.get(place)
            if old is not None:
                queue = QueueTail(place, old.whole, old.since_ms, old.kept)
                self.pulls.behind[queue] = self.pulls.behind[old]
            else:
                queue = QueueTail(place, left is None, 0 if left is None else tail.since_ms)
            self._add(name, tail, queue)
        self.pulls.forget(left)

    def _leave(self, name: str, tail: TopicTail) -> None:
        """Store the end of a tail, which continues when its topic has a route again."""
        now = self._clock.monotonic_ns()
        self._left[name] = tail
        tail.until_ns = now + LEFT_NS
        for queue in tail.queues.values():
            self.pulls.behind.setdefault(queue, now)
            if queue.offset >= 0:
                queue.kept, queue.since_ms, queue.whole = queue.offset, self._clock.wall_ms(), False
            elif not queue.whole:
                queue.since_ms = queue.since_ms or tail.since_ms

    def _prune(self) -> None:
        if self._stopped:
            return
        now = self._clock.monotonic_ns()
        self._clock.call_at(now + KEPT_NS, self._prune)
        for name, tail in list(self._tails.items()):
            if name not in self._interests and not self.all and now > tail.until_ns:
                self._drop(name)
        for name, tail in list(self._left.items()):
            if (name not in self._interests and not self.all) or now > tail.until_ns:
                self.pulls.forget(self._left.pop(name))

    def _drop(self, name: str) -> None:
        tail = self._tails.pop(name)
        tail.ended = True
        self.pulls.forget(tail)
        tail.release()


def topic_of_pattern(pattern: str) -> str:
    """The topic that stores every path that `pattern` can match; "": the first level is a wildcard."""
    return "" if pattern[:1] in ("+", "#") else topic_of_path(pattern)


def is_tailed(topic: str) -> bool:
    """True for topics whose records are delivered by path: not retry, dead-letter and system topics."""
    return not is_derived_topic(topic) and not is_system_topic(topic)
