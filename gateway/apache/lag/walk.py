"""The lag of groups, asked of the brokers a little at a time.

GET_CONSUME_STATS (208); where something waits, GET_SUBSCRIPTIONGROUP_CONFIG (352) and QUERY_CONSUME_TIME_SPAN (303) too, and
GET_CONSUMER_CONNECTION_LIST (203) of a group that has no position.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, final

from domain.address import RETRY_PREFIX
from domain.errors import Failure
from domain.limits import MILLISECOND_NS
from domain.ports import Clock
from domain.store.outlook import GroupLag, LagWalk
from gateway.apache.lag.group_topics import GroupTopics, Pair
from gateway.apache.topics.groups import lacks_group
from gateway.brokers.broker_links import Brokers
from gateway.brokers.cluster_map import ClusterMap
from gateway.brokers.document import value_in
from gateway.link.request import Request
from protocols.remoting import codes
from protocols.remoting.wire.frame import Frame

PAUSE_NS: Final = 100 * MILLISECOND_NS
"""Time between two questions to one broker, which gets the next one when it has answered."""
PASSED_MAX: Final = 64
"""Pairs that a broker does not have, and that are passed in one step."""

BROADCASTING: Final = "BROADCASTING"
"""The message model of groups whose members keep positions themselves: brokers know none."""

Told = Callable[[Frame], None]


@final
class RocketmqReceivable:
    """`Outlook`. Tools query the positions of groups from the brokers, through the remoting port."""

    def __init__(self, servers: Brokers, cluster: ClusterMap, clock: Clock, pairs: GroupTopics) -> None:
        """`pairs`: pairs of group and topic whose lag is reported."""
        self._servers = servers
        self._cluster = cluster
        self._clock = clock
        self._pairs = pairs

    def places(self) -> Sequence[tuple[str, str, int]]:
        """Outlook.places: none."""
        return ()

    def places_after(self, place: tuple[str, str, int] | None, limit: int) -> Sequence[tuple[str, str, int]]:
        """Outlook.places_after: none."""
        return ()

    def lags(self, most: int) -> LagWalk:
        """Outlook.lags: from the brokers, for the groups that have received here, and for the others in turn."""
        return ClusterLagWalk(self._servers, self._cluster, self._clock, self._pairs, most)

    def can_lease(self, group: str, topic: str, queue_id: int, ordered: bool, attempt_id: str) -> bool:
        """Outlook.can_lease: True, a Receive finds out."""
        return True

    def delivered_below(self, group: str, topic: str, queue_id: int) -> int:
        """Outlook.delivered_below: 0."""
        return 0


@final
class ClusterLagWalk:
    """`LagWalk` over pairs of a group and a topic at the brokers of a cluster.

    A broker that does not answer is skipped, and its messages do not count. Messages in the retry topic of a group count for
    the origin topic, at brokers that accept a list of topics; older brokers do not report them.

    oldest_ns   LagWalk.oldest_ns, from `result` on
    _known      all pairs, with the results of earlier walks
    _found      number of messages, and the store time of the oldest in epoch ms, 0: unknown
    """

    def __init__(self, servers: Brokers, cluster: ClusterMap, clock: Clock, known: GroupTopics, most: int) -> None:
        """A walk over the pairs whose turn it is. `most` pairs get rows."""
        self._servers = servers
        self._cluster = cluster
        self._clock = clock
        self._known = known
        self._pairs = known.next_walk()
        self._most = most
        self._found: dict[Pair, list[int]] = {}
        self.oldest_ns = 0
        # The walk before this one may have ended a moment ago.
        self._sides = [_Side(broker, clock.monotonic_ns() + PAUSE_NS) for broker in cluster.brokers]

    @property
    def passed(self) -> int:
        """LagWalk.passed: pairs, at each broker."""
        return sum([side.at for side in self._sides])

    @property
    def total(self) -> int:
        """LagWalk.total."""
        return len(self._pairs) * len(self._sides)

    def step(self, cost: int) -> bool:
        """LagWalk.step. One question to each broker at most, whatever `cost`."""
        now = self._clock.monotonic_ns()
        for side in self._sides:
            if not side.asked and now >= side.due_ns:
                self._ask_next(side)
        return all(not side.asked and not side.more and side.at == len(self._pairs) for side in self._sides)

    def result(self) -> tuple[list[GroupLag], GroupLag | None]:
        """LagWalk.result. Pairs that this walk has not asked for have the lag that an earlier walk found."""
        self._known.read(self._found, self._pairs, self._clock.monotonic_ns())
        rows = [GroupLag(*pair, *found) for pair, found in self._found.items()]
        earlier = self._known.earlier(set(self._pairs))
        self.oldest_ns = min([last.read_ns for last in earlier.values()], default=0)
        rows += [GroupLag(*pair, last.messages, last.oldest_ms) for pair, last in earlier.items()]
        rows.sort(key=lambda row: (-row.messages, row.group, row.topic))
        rest = rows[self._most :]
        if not rest:
            return rows, None
        oldest_ms = min([row.oldest_ms for row in rest if row.oldest_ms], default=0)
        return rows[: self._most], GroupLag("", "", sum([row.messages for row in rest]), oldest_ms)

    def _holds(self, broker: str, topic: str) -> bool:
        return broker in (self._known.holders(topic) or self._cluster.holders(topic))

    def _ask_next(self, side: _Side) -> None:
        if self._servers.waits(side.broker):
            side.at = len(self._pairs)
            side.more.clear()
            return
        if side.more:
            self._ask(side, *side.more.popleft())
            return
        for _ in range(PASSED_MAX):
            if side.at == len(self._pairs):
                return
            pair = group, topic = self._pairs[side.at]
            side.at += 1
            topics = [name for name in _with_retries(group, topic) if self._holds(side.broker, name)]
            if topics and topics[0] == topic:
                # Brokers that know no list are asked for the topic alone.
                fields = {"consumerGroup": group, "topic": topic, "topicList": ";".join(topics), "bname": side.broker}
                self._ask(side, Request(codes.GET_PROGRESS, fields), partial(self._counted, side, pair))
                return

    def _ask(self, side: _Side, request: Request, then: Told) -> None:
        side.asked = True

        def answered(answer: Frame | Failure) -> None:
            side.asked = False
            side.due_ns = self._clock.monotonic_ns() + PAUSE_NS
            if isinstance(answer, Frame):
                then(answer)

        self._servers.ask(side.broker, request, answered)

    def _counted(self, side: _Side, pair: Pair, answer: Frame) -> None:
        self._found.setdefault(pair, [0, 0])
        body = _body(answer)
        waiting = {topic: messages for topic, messages in waiting_in(body).items() if messages}
        if waiting:
            request = Request(codes.GET_GROUP, {"group": pair[0], "bname": side.broker})
            side.more.append((request, partial(self._confirmed, side, pair, waiting, has_position(body))))

    def _confirmed(self, side: _Side, pair: Pair, waiting: Mapping[str, int], positioned: bool, answer: Frame) -> None:
        """Count the lag only of a group that exists: of a deleted group, a broker reports all messages as waiting. Brokers
        before 5.0 do not report groups."""
        if lacks_group(answer):
            return
        if positioned:
            self._waits(side, pair, waiting)
        else:
            request = Request(codes.GET_CONSUMER_CONNECTIONS, {"consumerGroup": pair[0], "bname": side.broker})
            side.more.append((request, partial(self._modelled, side, pair, waiting)))

    def _modelled(self, side: _Side, pair: Pair, waiting: Mapping[str, int], answer: Frame) -> None:
        """Members of a group that broadcasts keep their positions, and the broker says that all is still to be received."""
        body = _body(answer)
        if not (isinstance(body, dict) and body.get("messageModel") == BROADCASTING):
            self._waits(side, pair, waiting)

    def _waits(self, side: _Side, pair: Pair, waiting: Mapping[str, int]) -> None:
        self._found[pair][0] += sum(waiting.values())
        for topic in waiting:
            fields = {"topic": topic, "group": pair[0], "bname": side.broker}
            side.more.append((Request(codes.GET_TIME_SPANS, fields), partial(self._aged, pair)))

    def _aged(self, pair: Pair, answer: Frame) -> None:
        oldest_ms = oldest_in(_body(answer), self._clock.wall_ms())
        found = self._found[pair]
        if oldest_ms and (not found[1] or oldest_ms < found[1]):
            found[1] = oldest_ms


@final
class _Side:
    """One broker in a walk.

    at       pairs that have been passed
    asked    True while a question is not answered
    due_ns   when the next one may be asked, monotonic
    more     what is to be asked about pairs of which messages wait, and what takes the answers
    """

    __slots__ = ("asked", "at", "broker", "due_ns", "more")

    def __init__(self, broker: str, due_ns: int) -> None:
        self.broker = broker
        self.at = 0
        self.asked = False
        self.due_ns = due_ns
        self.more: deque[tuple[Request, Told]] = deque()


def _with_retries(group: str, topic: str) -> tuple[str, str, str]:
    """A topic, and the two names that brokers may give to what is delivered again of it."""
    return topic, f"{RETRY_PREFIX}{group}_{topic}", f"{RETRY_PREFIX}{group}+{topic}"


def _body(answer: Frame) -> object:
    """The value in an answer; None when the broker refuses, or the body is too large to read at once: thousands of queues."""
    return value_in(answer.body) if answer.code == codes.SUCCESS else None


def has_position(answer: object) -> bool:
    """RocketMQ's ConsumeStats -> True when the group has received from a queue."""
    return any(_number(row, "consumerOffset") > 0 for row in _table(answer).values())


def waiting_in(answer: object) -> dict[str, int]:
    """RocketMQ's ConsumeStats -> messages behind the positions, by topic."""
    found: dict[str, int] = {}
    for queue, row in _table(answer).items():
        key = value_in(queue.encode())
        topic = key.get("topic") if isinstance(key, dict) else None
        if isinstance(topic, str):
            found[topic] = found.get(topic, 0) + max(0, _number(row, "brokerOffset") - _number(row, "consumerOffset"))
    return found


def _table(answer: object) -> dict[str, object]:
    table = answer.get("offsetTable") if isinstance(answer, dict) else None
    return table if isinstance(table, dict) else {}


def oldest_in(answer: object, now_ms: int) -> int:
    """RocketMQ's QueryConsumeTimeSpanBody -> store time of the oldest message that waits, epoch ms; 0: not reported."""
    return min(_oldest_of(answer, now_ms), default=0)


def _oldest_of(answer: object, now_ms: int) -> Iterator[int]:
    """For each queue in which messages wait. A delay since 1970 stands for a position below all messages that are kept."""
    rows = answer.get("consumeTimeSpanSet") if isinstance(answer, dict) else None
    for row in rows if isinstance(rows, list) else ():
        delay_ms, first_ms = _number(row, "delayTime"), _number(row, "minTimeStamp")
        if 0 < delay_ms < now_ms // 2:
            yield now_ms - delay_ms
        elif delay_ms > 0 and first_ms > 0:
            yield first_ms


def _number(row: object, name: str) -> int:
    value = row.get(name) if isinstance(row, Mapping) else None
    return value if isinstance(value, int) else 0
