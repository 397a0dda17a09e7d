"""Light queues: for every filter of a session that is away, where in the queues of its topic the matching messages are.

All sessions with one filter share one light queue. Entries are offsets, derived from what becomes readable: they are on no
disk, and a start reads the log once, behind what else it does, to have them again (`replay`). Whoever finds no complete
light queue for a filter reads the log itself: they make returning cheap, and nothing depends on them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, final

from domain import property as properties
from domain.limits import SECOND_NS
from domain.mqtt_session import AT_MOST_ONCE, Interest
from domain.ports import Clock, Timer
from domain.record import Record
from gateway.routing.routes import SubscriberRoutes, topic_of_filter
from gateway.usecase.sessions.mqtt_session import Place

ENTRIES_MAX: Final = 16 * 1024 * 1024
"""Entries in all, 8 bytes each; beyond that the fullest light queues are given up."""
DENSE_MIN: Final = 4_096
"""From so many entries on a light queue is looked at: one that has a quarter of its topic is worth nothing."""
GRACE_NS: Final = 600 * SECOND_NS
"""How long a light queue stays after the last session that it was for has returned or ended."""
RUN_GAP: Final = 32
"""Matches as near as this are read in one go, with what is between them."""


@final
class FilterMatches:
    """The matches of one filter.

    users    sessions away that have it
    since    where it is complete from, in queues that had messages before it; others: from their first message on
    dense    given up: reading the log is as good
    """

    __slots__ = ("count", "dense", "entries", "pattern", "seen_before", "since", "users")

    def __init__(self, pattern: str, since: dict[Place, int], seen_before: int) -> None:
        self.pattern = pattern
        self.users = 0
        self.since = since
        self.seen_before = seen_before
        self.entries: dict[Place, array[int]] = {}
        self.count = 0
        self.dense = False


@final
class FilterIndex:
    """All of them, by filter. Filters that begin with a wildcard have none."""

    __slots__ = (
        "_begin", "_by_pattern", "_clock", "_leaving", "_routes", "_seen", "_timer", "_topics", "ends", "entries", "firsts",
    )  # fmt: skip

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._by_pattern: dict[str, FilterMatches] = {}
        self._routes: SubscriberRoutes[FilterMatches, list[FilterMatches]] = SubscriberRoutes(list)
        self._topics: dict[str, dict[FilterMatches, None]] = {}
        self._seen: dict[str, int] = {}
        self._begin: dict[str, dict[Place, int]] = {}
        self._leaving: deque[tuple[int, list[str]]] = deque()
        self._timer: Timer | None = None
        self.firsts: dict[Place, int] = {}
        self.ends: dict[Place, int] = {}
        self.entries = 0

    def __len__(self) -> int:
        return len(self._by_pattern)

    # Which there are

    def hold(self, interests: Iterable[Interest]) -> None:
        """A session with these filters is away from now on."""
        for pattern in _patterns(interests):
            light = self._by_pattern.get(pattern)
            if light is None:
                name = topic_of_filter(pattern)
                light = FilterMatches(pattern, self._ends_of(name), self._seen.get(name, 0))
                self._by_pattern[pattern] = light
                self._topics.setdefault(name, {})[light] = None
                self._routes.insert(pattern, light)
            light.users += 1

    def _ends_of(self, name: str) -> dict[Place, int]:
        """Where the queues of a topic end; one dictionary for all who ask before something comes."""
        found = self._begin.get(name)
        if found is None:
            found = self._begin[name] = {place: end for place, end in self.ends.items() if place[0] == name}
        return found

    def release(self, interests: Iterable[Interest]) -> None:
        """It has returned, or ended: its light queues stay for a while, and then go unless somebody else needs them."""
        patterns = _patterns(interests)
        if patterns:
            self._leaving.append((self._clock.monotonic_ns() + GRACE_NS, patterns))
            if self._timer is None:
                self._timer = self._clock.call_at(self._leaving[0][0], self._leave)

    def _leave(self) -> None:
        now = self._clock.monotonic_ns()
        while self._leaving and self._leaving[0][0] <= now:
            for pattern in self._leaving.popleft()[1]:
                light = self._by_pattern[pattern]
                light.users -= 1
                if light.users == 0:
                    self._drop(light)
        self._timer = self._clock.call_at(self._leaving[0][0], self._leave) if self._leaving else None

    def _drop(self, light: FilterMatches) -> None:
        self._give_up(light)
        del self._by_pattern[light.pattern]
        self._routes.remove(light.pattern, light)
        name = topic_of_filter(light.pattern)
        del self._topics[name][light]
        if not self._topics[name]:
            del self._topics[name]
            self._seen.pop(name, None)
            self._begin.pop(name, None)
            for place in [place for place in self.ends if place[0] == name]:
                del self.ends[place]
                self.firsts.pop(place, None)

    def _give_up(self, light: FilterMatches) -> None:
        self.entries -= light.count
        light.entries.clear()
        light.count = 0
        light.dense = True

    # What comes

    def follows(self, topic: str) -> bool:
        """True when some filter has matches in `topic`."""
        return topic in self._topics

    def arrived(self, topic: str, queue_id: int, records: Sequence[bytes]) -> None:
        """These have become readable."""
        if not records or topic not in self._topics:
            return
        place = (topic, queue_id)
        first = int.from_bytes(records[0][20:28], "big")
        end = self.ends.get(place)
        if end != first:
            if end is not None:
                # It has begun anew: nothing is known of what was before.
                self._forget(place)
            self.firsts[place] = first
        self._begin.pop(topic, None)
        self.ends[place] = first + len(records)
        self._seen[topic] = self._seen.get(topic, 0) + len(records)
        for offset, data in enumerate(records, first):
            for light in self.wanting(topic, data):
                if not light.dense:
                    self._add(light, place, offset)

    def wanting(self, topic: str, data: bytes) -> list[FilterMatches]:
        """Light queues that a record of `topic` belongs to."""
        return self._routes.of(topic, properties.find(Record(data).properties, b"originMqttTopic"))[1]

    def _forget(self, place: Place) -> None:
        for light in self.of(place[0]):
            light.since.pop(place, None)
            self._shrink(light, place, len(light.entries.get(place, ())))

    def _shrink(self, light: FilterMatches, place: Place, count: int) -> None:
        if count:
            offsets = light.entries[place]
            del offsets[:count]
            light.count -= count
            self.entries -= count

    def _add(self, light: FilterMatches, place: Place, offset: int) -> None:
        offsets = light.entries.get(place)
        if offsets is None:
            offsets = light.entries[place] = array("Q")
        offsets.append(offset)
        light.count += 1
        self.entries += 1
        if light.count & (light.count - 1) == 0:
            self._look_at(light, place[0])

    def _look_at(self, light: FilterMatches, topic: str) -> None:
        """Give it up when it has too much of its topic; when there is too much in all, give up the fullest."""
        if light.count >= DENSE_MIN and 4 * light.count > self._seen.get(topic, 0) - light.seen_before:
            self._give_up(light)
        if self.entries > ENTRIES_MAX:
            self._give_up(max(self._by_pattern.values(), key=lambda each: each.count))

    # What was there before

    def of(self, topic: str) -> list[FilterMatches]:
        """Those that have matches in `topic`."""
        return list(self._topics.get(topic, ()))

    def begin_here(self, topic: str) -> None:
        """The log is about to be read up to here: what has come to `topic` in this run is found once more by that."""
        begun = [(place, end) for place, end in self.ends.items() if place[0] == topic]
        if not begun:
            return
        for place, end in begun:
            self._seen[topic] = self._seen.get(topic, 0) - end + self.firsts.get(place, end)
            self.firsts[place] = end
        self._begin.pop(topic, None)
        nothing: dict[Place, int] = {}
        for light in self.of(topic):
            if not light.dense:
                self.entries -= light.count
                light.entries.clear()
                light.count = 0
            light.since = nothing
            light.seen_before = 0

    def complete(
        self, place: Place, begin: int, end: int, wanted: dict[FilterMatches, None], found: dict[FilterMatches, array[int]]
    ) -> None:
        """The log was read from `begin` to `end`, where the arrivals of this run begin; what it looked for, and found."""
        first = self.firsts.get(place)
        if first is None:
            self.ends[place] = end
        elif first != end:
            return
        self.firsts[place] = begin
        topic = place[0]
        self._begin.pop(topic, None)
        self._seen[topic] = self._seen.get(topic, 0) + end - begin
        for light in reversed(self._topics.get(topic, {})):
            # The youngest stand last.
            if light in wanted:
                break
            if place not in light.since:
                light.since = {**light.since, place: end}
        for light, offsets in found.items():
            if not light.dense:
                light.entries[place] = offsets + light.entries.get(place, array("Q"))
                light.count += len(offsets)
                self.entries += len(offsets)
                self._look_at(light, topic)

    def trim(self, interests: Iterable[Interest], place: Place, first: int) -> None:
        """The log has nothing of `place` below `first` any more."""
        for interest in interests:
            light = self._by_pattern.get(interest.pattern)
            if light is not None and place in light.entries and light.entries[place][:1] < array("Q", (first,)):
                self._shrink(light, place, bisect_left(light.entries[place], first))

    # What is asked

    def following(self, interests: Iterable[Interest], place: Place, offset: int, most: int) -> tuple[int, int]:
        """(where the next match for any of `interests` is from `offset` on, how many messages to read from there).

        (offset, 0): this is not known, and the log has to be read.
        """
        end = self.ends.get(place)
        if end is None or offset >= end:
            return offset, 0
        near: list[int] = []
        for interest in interests:
            name = topic_of_filter(interest.pattern)
            if interest.level == AT_MOST_ONCE or (name and name != place[0]):
                continue
            light = self._by_pattern.get(interest.pattern)
            if light is None or light.dense or light.since.get(place, self.firsts.get(place, end)) > offset:
                return offset, 0
            offsets = light.entries.get(place)
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


def _patterns(interests: Iterable[Interest]) -> list[str]:
    """Filters that a light queue can be for."""
    return [each.pattern for each in interests if each.level > AT_MOST_ONCE and topic_of_filter(each.pattern)]
