"""An index over the log for disconnected sessions: for each topic filter, the queue offsets of the messages that match it.

A session that reconnects reads only matching messages from the log instead of all. Sessions with the same filter share one
entry. The index is in memory only: after a start `replay` rebuilds it from the log in the background. Where it is incomplete,
sessions read the log itself, so that delivery never depends on it. See docs/decisions/0018-filter-index.md.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, final

from domain.client.mqtt_session import AT_MOST_ONCE, MqttSubscription
from domain.limits import SECOND_NS
from domain.message import property as properties
from domain.message.record import Record
from domain.ports import Clock, Timer
from gateway.routing.routes import SubscriberRoutes, topic_of_filter
from gateway.usecase.sessions.in_flight import QueueKey

ENTRIES_MAX: Final = 16 * 1024 * 1024
"""Offsets in the whole index, 8 bytes each; beyond that the filter with the most offsets is dropped from the index."""
DENSE_MIN: Final = 4_096
"""Offsets of a filter from which on it is dropped from the index when it matches more than a quarter of its topic."""
GRACE_NS: Final = 600 * SECOND_NS
"""Time for which a filter stays in the index after its last session has reconnected or ended."""
RUN_GAP: Final = 32
"""Largest distance, in offsets, of matches that are read together, with the messages between them."""


@final
class FilterMatches:
    """The offsets of the messages that one filter matches.

    users         number of disconnected sessions with the filter
    since         first offset from which the offsets of a queue are complete; queues not in it: from their first message
    seen_before   messages of the topic that the index had seen when the filter was added
    entries       ascending offsets, by queue
    dense         True: the filter matches so much that reading the log is as good; `entries` stays empty
    """

    __slots__ = ("count", "dense", "entries", "pattern", "seen_before", "since", "users")

    def __init__(self, pattern: str, since: dict[QueueKey, int], seen_before: int) -> None:
        self.pattern = pattern
        self.users = 0
        self.since = since
        self.seen_before = seen_before
        self.entries: dict[QueueKey, array[int]] = {}
        self.count = 0
        self.dense = False


@final
class FilterIndex:
    """The matches of all filters. Filters that begin with a wildcard are not indexed.

    firsts        first indexed offset, by queue
    ends          offset behind the last indexed message, by queue
    entries       number of offsets in the whole index
    _queues       topic -> its queues in `ends`
    """

    __slots__ = (
        "_begin", "_by_pattern", "_clock", "_queues", "_releases", "_routes", "_seen", "_timer", "_topics", "dense_min", "ends",
        "entries", "entries_max", "firsts",
    )  # fmt: skip

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_pattern: dict[str, FilterMatches] = {}
        self._routes: SubscriberRoutes[FilterMatches, list[FilterMatches]] = SubscriberRoutes(list)
        self._topics: dict[str, dict[FilterMatches, None]] = {}
        self._seen: dict[str, int] = {}
        self._begin: dict[str, dict[QueueKey, int]] = {}
        self._releases: deque[tuple[int, list[str]]] = deque()
        self._timer: Timer | None = None
        self.firsts: dict[QueueKey, int] = {}
        self.ends: dict[QueueKey, int] = {}
        self._queues: dict[str, dict[QueueKey, None]] = {}
        self.entries = 0
        self.entries_max: int = ENTRIES_MAX
        self.dense_min: int = DENSE_MIN

    def __len__(self) -> int:
        return len(self._by_pattern)

    # Filters

    def acquire(self, subscriptions: Iterable[MqttSubscription]) -> None:
        """A session with these subscriptions has disconnected: index their filters."""
        for pattern in _patterns(subscriptions):
            matches = self._by_pattern.get(pattern)
            if matches is None:
                name = topic_of_filter(pattern)
                matches = FilterMatches(pattern, self._ends_of(name), self._seen.get(name, 0))
                self._by_pattern[pattern] = matches
                self._topics.setdefault(name, {})[matches] = None
                self._routes.insert(pattern, matches)
            matches.users += 1

    def _ends_of(self, name: str) -> dict[QueueKey, int]:
        """Ends of a topic's queues. Callers share one dictionary until the next message arrives."""
        found = self._begin.get(name)
        if found is None:
            found = self._begin[name] = {queue: self.ends[queue] for queue in self._queues.get(name, ())}
        return found

    def release(self, subscriptions: Iterable[MqttSubscription]) -> None:
        """The session has reconnected or ended: drop its filters after GRACE_NS unless other sessions have them."""
        patterns = _patterns(subscriptions)
        if patterns:
            self._releases.append((self._clock.monotonic_ns() + GRACE_NS, patterns))
            if self._timer is None:
                self._timer = self._clock.call_at(self._releases[0][0], self._release_due)

    def _release_due(self) -> None:
        now = self._clock.monotonic_ns()
        while self._releases and self._releases[0][0] <= now:
            for pattern in self._releases.popleft()[1]:
                matches = self._by_pattern[pattern]
                matches.users -= 1
                if matches.users == 0:
                    self._drop(matches)
        self._timer = self._clock.call_at(self._releases[0][0], self._release_due) if self._releases else None

    def _drop(self, matches: FilterMatches) -> None:
        self._give_up(matches)
        del self._by_pattern[matches.pattern]
        self._routes.remove(matches.pattern, matches)
        name = topic_of_filter(matches.pattern)
        del self._topics[name][matches]
        if not self._topics[name]:
            del self._topics[name]
            self._seen.pop(name, None)
            self._begin.pop(name, None)
            for queue in self._queues.pop(name, ()):
                del self.ends[queue]
                self.firsts.pop(queue, None)

    def _give_up(self, matches: FilterMatches) -> None:
        self.entries -= matches.count
        matches.entries.clear()
        matches.count = 0
        matches.dense = True

    # New messages

    def follows(self, topic: str) -> bool:
        """True when a filter for `topic` is indexed."""
        return topic in self._topics

    def arrived(self, topic: str, queue_id: int, records: Sequence[bytes]) -> None:
        """Index records of one queue that have become readable, in the order of their offsets."""
        if not records or topic not in self._topics:
            return
        queue = (topic, queue_id)
        first = int.from_bytes(records[0][20:28], "big")
        end = self.ends.get(queue)
        if end != first:
            if end is not None:
                # The topic was created again, or records were skipped: forget the offsets before.
                self._forget(queue)
            else:
                self._queues.setdefault(topic, {})[queue] = None
            self.firsts[queue] = first
        self._begin.pop(topic, None)
        self.ends[queue] = first + len(records)
        self._seen[topic] = self._seen.get(topic, 0) + len(records)
        for offset, data in enumerate(records, first):
            for matches in self.wanting(topic, data):
                if not matches.dense:
                    self._add(matches, queue, offset)

    def forget(self, queue: QueueKey) -> None:
        """The queue ends before the indexed offsets: the topic is gone, or a broker has lost its newest messages."""
        if self.ends.pop(queue, None) is not None:
            queues = self._queues[queue[0]]
            del queues[queue]
            if not queues:
                del self._queues[queue[0]]
            self.firsts.pop(queue, None)
            self._begin.pop(queue[0], None)
            self._forget(queue)

    def forget_topic(self, topic: str) -> None:
        """The topic is gone."""
        if topic in self._topics:
            for queue in list(self._queues.get(topic, ())):
                self.forget(queue)

    def wanting(self, topic: str, data: bytes) -> list[FilterMatches]:
        """The filters that match a record of `topic`."""
        return self._routes.of(topic, properties.find(Record(data).properties, properties.ORIGIN_MQTT_TOPIC_START))[1]

    def _forget(self, queue: QueueKey) -> None:
        for matches in self.of(queue[0]):
            matches.since.pop(queue, None)
            self._shrink(matches, queue, len(matches.entries.get(queue, ())))

    def _shrink(self, matches: FilterMatches, queue: QueueKey, count: int) -> None:
        if count:
            offsets = matches.entries[queue]
            del offsets[:count]
            matches.count -= count
            self.entries -= count

    def _add(self, matches: FilterMatches, queue: QueueKey, offset: int) -> None:
        offsets = matches.entries.get(queue)
        if offsets is None:
            offsets = matches.entries[queue] = array("Q")
        offsets.append(offset)
        matches.count += 1
        self.entries += 1
        if matches.count & (matches.count - 1) == 0:
            self._check_size(matches, queue[0])

    def _check_size(self, matches: FilterMatches, topic: str) -> None:
        """Drop the offsets of a filter that matches too much of its topic, and of the largest filter when the index is full."""
        if matches.count >= self.dense_min and 4 * matches.count > self._seen.get(topic, 0) - matches.seen_before:
            self._give_up(matches)
        if self.entries > self.entries_max:
            self._give_up(max(self._by_pattern.values(), key=lambda each: each.count))

    # Older messages, read by `replay`

    def of(self, topic: str) -> list[FilterMatches]:
        """The indexed filters for `topic`."""
        return list(self._topics.get(topic, ()))

    def begin_here(self, topic: str) -> None:
        """Restart the index of `topic` at the present ends: the replay reads everything before them from the log."""
        begun = [(queue, end) for queue, end in self.ends.items() if queue[0] == topic]
        if not begun:
            return
        for queue, end in begun:
            self._seen[topic] = self._seen.get(topic, 0) - end + self.firsts.get(queue, end)
            self.firsts[queue] = end
        self._begin.pop(topic, None)
        nothing: dict[QueueKey, int] = {}
        for matches in self.of(topic):
            if not matches.dense:
                self.entries -= matches.count
                matches.entries.clear()
                matches.count = 0
            matches.since = nothing
            matches.seen_before = 0

    def complete(
        self, queue: QueueKey, begin: int, end: int, wanted: dict[FilterMatches, None], found: dict[FilterMatches, array[int]]
    ) -> None:
        """Add the matches of a replay of `queue` from `begin` to `end`.

        wanted   the filters that the replay looked for
        found    ascending offsets, by filter
        """
        first = self.firsts.get(queue)
        if first is None:
            self.ends[queue] = end
        elif first != end:
            return
        self.firsts[queue] = begin
        topic = queue[0]
        self._begin.pop(topic, None)
        self._seen[topic] = self._seen.get(topic, 0) + end - begin
        for matches in reversed(self._topics.get(topic, {})):
            # Filters that were added after the replay had started stand last.
            if matches in wanted:
                break
            if queue not in matches.since:
                matches.since = {**matches.since, queue: end}
        for matches, offsets in found.items():
            if not matches.dense:
                matches.entries[queue] = offsets + matches.entries.get(queue, array("Q"))
                matches.count += len(offsets)
                self.entries += len(offsets)
                self._check_size(matches, topic)

    def trim(self, subscriptions: Iterable[MqttSubscription], queue: QueueKey, first: int) -> None:
        """Drop offsets of `queue` below `first`: the log has deleted their messages."""
        for subscription in subscriptions:
            matches = self._by_pattern.get(subscription.pattern)
            if matches is not None and queue in matches.entries and matches.entries[queue][:1] < array("Q", (first,)):
                self._shrink(matches, queue, bisect_left(matches.entries[queue], first))

    # Queries

    def following(self, subscriptions: Iterable[MqttSubscription], queue: QueueKey, offset: int, most: int) -> tuple[int, int]:
        """(offset of the next match of any subscription from `offset` on, number of messages to read from there).

        (offset, 0): the index is incomplete there, and the caller reads the log.
        """
        end = self.ends.get(queue)
        if end is None or offset >= end:
            return offset, 0
        near: list[int] = []
        for subscription in subscriptions:
            name = topic_of_filter(subscription.pattern)
            if subscription.level == AT_MOST_ONCE or (name and name != queue[0]):
                continue
            matches = self._by_pattern.get(subscription.pattern)
            if matches is None or matches.dense or matches.since.get(queue, self.firsts.get(queue, end)) > offset:
                return offset, 0
            offsets = matches.entries.get(queue)
            if offsets is not None:
                at = bisect_left(offsets, offset)
                near += offsets[at : at + most]
        if not near:
            return end, 1
        near.sort()
        last = near[0]
        for each in near[1:most]:
            if each - last > RUN_GAP:
                break
            last = each
        return near[0], last - near[0] + 1


def _patterns(subscriptions: Iterable[MqttSubscription]) -> list[str]:
    """The filters that are indexed: above AT_MOST_ONCE, without a wildcard at the first level."""
    return [each.pattern for each in subscriptions if each.level > AT_MOST_ONCE and topic_of_filter(each.pattern)]
