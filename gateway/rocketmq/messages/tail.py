"""New messages of the topics that somebody watches: a held pull at each of their queues."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, final

from domain.address import is_derived_topic, is_system_topic, topic_of_path
from domain.errors import ErrorCode, Failure
from domain.limits import MILLISECOND_NS, SECOND_NS
from domain.ports import Clock
from gateway.rocketmq.brokers import Brokers
from gateway.rocketmq.cluster_map import ClusterMap
from gateway.rocketmq.messages.log import ask_number
from gateway.rocketmq.messages.pull_reply import pull_request, pulled
from protocols.remoting import codes
from protocols.remoting.frame import Frame

HOLD_MS: Final = 15_000
"""Time for which a broker holds a pull while there is nothing new."""
ANSWER_MS: Final = 25_000
PAUSE_NS: Final = 500 * MILLISECOND_NS
"""Pause after a pull that failed."""
RECORDS: Final = 256
BYTES: Final = 1024 * 1024
"""Records and bytes of one pull."""
KEPT_NS: Final = 10 * SECOND_NS
"""Time for which a topic is tailed after the last interest in it, and after the tail was asked for."""
QUEUES_MAX: Final = 8_192
"""Queues that are tailed at once."""

Arrived = Callable[[str, int, Sequence[bytes]], None]
Ready = Callable[[Failure | None], None]


@final
class QueueTail:
    """One queue of a tailed topic.

    offset   of the next message, -1: not known yet
    new      True: the queue came when the topic was tailed already, so all that it has is new
    asking   True while a request is under way, or a pause
    """

    __slots__ = ("asking", "new", "offset", "place")

    def __init__(self, place: int, new: bool) -> None:
        self.place = place
        self.new = new
        self.offset = -1
        self.asking = False


@final
class TopicTail:
    """A tailed topic.

    queues    by place
    waiting   called once each queue has been asked where its tail begins
    unknown   queues whose first such answer has not come
    until_ns  kept until then without an interest
    ended     True: nothing is delivered any more
    """

    __slots__ = ("ended", "queues", "unknown", "until_ns", "waiting")

    def __init__(self) -> None:
        self.queues: dict[int, QueueTail] = {}
        self.waiting: list[Callable[[], None]] = []
        self.unknown = 0
        self.until_ns = 0
        self.ended = False


@final
class Tail:
    """The tails of all topics.

    Interests are counted by topic: `watch` says that a filter is there or gone. `ready` begins a tail before its interest is
    there, so that nothing is missed between the answer to a subscription and the first message after it.

    all   interests in every topic: filters that begin with a wildcard
    """

    def __init__(self, servers: Brokers, cluster: ClusterMap, clock: Clock, arrived: Arrived) -> None:
        self.all = 0
        self._servers = servers
        self._cluster = cluster
        self._clock = clock
        self._arrived = arrived
        self._interests: dict[str, int] = {}
        self._tails: dict[str, TopicTail] = {}
        self._stopped = False
        self.delivered = 0
        cluster.follow(self._changed)
        clock.call_at(clock.monotonic_ns() + KEPT_NS, self._prune)

    def stop(self) -> None:
        """Deliver nothing more."""
        self._stopped = True
        for name in list(self._tails):
            self._drop(name)

    def figures(self) -> dict[str, float]:
        """Numbers for the metrics page."""
        return {
            "rocketmq_tailed_topics": len(self._tails),
            "rocketmq_tailed_queues": sum(len(tail.queues) for tail in self._tails.values()),
            "rocketmq_tailed_messages_total": self.delivered,
        }

    def watch(self, pattern: str, begins: bool) -> None:
        """A filter of a connected client begins or ends."""
        name = topic_of_pattern(pattern)
        if not name:
            self.all += 1 if begins else -1
            return
        count = self._interests.get(name, 0) + (1 if begins else -1)
        if count > 0:
            self._interests[name] = count
            if begins and name not in self._tails:
                self._cluster.ensure(name, lambda failure: self._begin(name) if failure is None else None)
        else:
            self._interests.pop(name, None)
            tail = self._tails.get(name)
            if tail is not None:
                tail.until_ns = self._clock.monotonic_ns() + KEPT_NS

    def ready(self, pattern: str, done: Ready) -> None:
        """Begin the tail of the topics that `pattern` can match; `done` when it has begun. QUOTA: there are too many queues."""
        name = topic_of_pattern(pattern)
        names = [name] if name else [each for each in self._cluster.topics() if is_tailed(each)]
        more = sum(len(self._cluster.readable(each)) for each in names if each not in self._tails)
        have = sum(len(tail.queues) for tail in self._tails.values())
        if have + more > QUEUES_MAX:
            text = f"the filter needs {more} queues to be followed beside {have}: at most {QUEUES_MAX} are"
            done(Failure(ErrorCode.QUOTA, text))
            return
        left = 1

        def begun() -> None:
            nonlocal left
            left -= 1
            if not left:
                done(None)

        for each in names:
            left += 1
            self._begin(each)
            self.started(each, begun)
        begun()

    def started(self, topic: str, then: Callable[[], None]) -> None:
        """Call `then` when it is known where the topic's tail begins; at once when it has no tail."""
        tail = self._tails.get(topic)
        if tail is None or not tail.unknown:
            then()
        else:
            tail.waiting.append(then)

    def _begin(self, name: str) -> None:
        tail = self._tails.get(name)
        if tail is None and not self._stopped and self._cluster.route(name) is not None:
            tail = self._tails[name] = TopicTail()
            for place in self._cluster.readable(name):
                self._add(name, tail, place, False)
        if tail is not None:
            tail.until_ns = self._clock.monotonic_ns() + KEPT_NS

    def _add(self, name: str, tail: TopicTail, place: int, new: bool) -> None:
        queue = tail.queues[place] = QueueTail(place, new)
        tail.unknown += 1
        self._find(name, tail, queue, True)

    def _find(self, name: str, tail: TopicTail, queue: QueueTail, first: bool) -> None:
        """Ask where a queue begins for this tail. `first`: who waits for the tail waits for this answer."""
        code = codes.GET_MIN_OFFSET if queue.new else codes.GET_MAX_OFFSET
        where = self._cluster.queues(name)[queue.place]
        queue.asking = True

        def found(offset: int | Failure) -> None:
            queue.asking = False
            if isinstance(offset, Failure):
                self._pause(name, tail, queue)
            else:
                queue.offset = offset
                self._pull(name, tail, queue)
            if first:
                tail.unknown -= 1
                self._tell(tail)

        ask_number(self._servers, name, where, code, {}, found)

    def _tell(self, tail: TopicTail) -> None:
        if not tail.unknown:
            waiting, tail.waiting = tail.waiting, []
            for then in waiting:
                then()

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
            queue.offset = result.next_offset
            if result.records:
                self.delivered += len(result.records)
                self._arrived(name, queue.place, result.records)
            elif result.status == "EMPTY" and result.next_offset != offset:
                queue.offset = offset
            self._pull(name, tail, queue)

        request = pull_request(name, where, offset, RECORDS, BYTES, HOLD_MS)
        self._servers.ask(where.broker, request, answered, ANSWER_MS)

    def _pause(self, name: str, tail: TopicTail, queue: QueueTail) -> None:
        """Go on a moment later, at the same place."""
        queue.asking = True

        def again() -> None:
            queue.asking = False
            if tail.ended:
                return
            if queue.offset < 0:
                self._find(name, tail, queue, False)
            else:
                self._pull(name, tail, queue)

        self._clock.call_at(self._clock.monotonic_ns() + PAUSE_NS, again)

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
            return
        for place in self._cluster.readable(name):
            if place not in tail.queues:
                self._add(name, tail, place, True)

    def _begin_new(self, name: str) -> None:
        """A topic that is watched has come: all that it has is new."""
        if self._cluster.route(name) is None:
            return
        tail = self._tails[name] = TopicTail()
        for place in self._cluster.readable(name):
            self._add(name, tail, place, True)

    def _prune(self) -> None:
        if self._stopped:
            return
        now = self._clock.monotonic_ns()
        self._clock.call_at(now + KEPT_NS, self._prune)
        for name, tail in list(self._tails.items()):
            if name not in self._interests and not self.all and now > tail.until_ns:
                self._drop(name)

    def _drop(self, name: str) -> None:
        tail = self._tails.pop(name)
        tail.ended = True
        waiting, tail.waiting = tail.waiting, []
        for then in waiting:
            then()


def topic_of_pattern(pattern: str) -> str:
    """The topic that stores every path that `pattern` can match; "": the first level is a wildcard."""
    return "" if pattern[:1] in ("+", "#") else topic_of_path(pattern)


def is_tailed(topic: str) -> bool:
    """True for topics whose records are delivered by path: not retry, dead-letter and system topics."""
    return not is_derived_topic(topic) and not is_system_topic(topic)
