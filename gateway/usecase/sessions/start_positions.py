"""Start positions of a consumer group that a shared subscription creates: the end of each existing topic.

In topics that are created later the group starts at the first message, as any group without a position does. To tell these
topics apart when another member subscribes, even after a restart, two kinds of markers are stored as positions:

    a topic that does not exist   position 0 in its queue 0: the group has subscribed before the topic existed
    ANY_TOPIC                     wall clock in milliseconds of the first subscription that begins with a wildcard
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, final

from domain.errors import Failure
from domain.ports import Clock
from domain.store_ports import GroupPositions, MessageLog, Metadata

ANY_TOPIC: Final = "+"
"""No topic can have this name."""
Then = Callable[[Failure | None], None]
Ends = list[tuple[str, int, int]]


@final
class StartPositions:
    """Sets a group's positions to the end of topics that are older than its subscription and where it has no position."""

    __slots__ = ("_clock", "_log", "_metadata", "_positions")

    def __init__(self, log: MessageLog, positions: GroupPositions, metadata: Metadata, clock: Clock) -> None:
        self._log = log
        self._positions = positions
        self._metadata = metadata
        self._clock = clock

    def begin(self, group: str, name: str, names: Iterable[str], done: Then) -> None:
        """Set the start positions in `names`, which are existing topics.

        name   topic of the filter; "": the filter begins with a wildcard
        done   called with None, or with the store's failure
        """

        def since(result: int | Failure) -> None:
            """`result`: since when the group has subscribed to every new topic, in milliseconds; a Failure: it has not."""
            ends: Ends = []
            if name == "" and isinstance(result, Failure):
                ends.append((ANY_TOPIC, 0, self._clock.wall_ms()))
            older = [each for each in names if isinstance(result, Failure) or not self._is_younger(each, result)]
            self._collect(group, name, older, ends, done)

        self._positions.offset(group, ANY_TOPIC, 0, since)

    def _is_younger(self, name: str, wall_ms: int) -> bool:
        topic = self._metadata.topic(name)
        return topic is not None and topic.created_ms >= wall_ms

    def _collect(self, group: str, name: str, names: Iterable[str], ends: Ends, done: Then) -> None:
        left = [1]

        def one_less() -> None:
            left[0] -= 1
            if left[0] == 0:
                if ends:
                    self._positions.commit(group, ends, done)
                else:
                    done(None)

        def take(found: Ends | None) -> None:
            ends.extend(found or ())
            one_less()

        if name and self._metadata.topic(name) is None:
            left[0] += 1
            self._positions.offset(group, name, 0, lambda result: take([(name, 0, 0)] if isinstance(result, Failure) else None))
        for each in names:
            topic = self._metadata.topic(each)
            if topic is not None:
                left[0] += 1
                self._ends(group, each, max(topic.read_queues, topic.write_queues), take)
        one_less()

    def _ends(self, group: str, topic: str, queues: int, done: Callable[[Ends | None], None]) -> None:
        """Call `done` with (topic, queue, end) of each queue of a topic; with None when the group has a position there."""
        ends: Ends = []
        left = [queues]
        known = [False]

        def look(queue_id: int) -> None:
            def position(result: int | Failure) -> None:
                known[0] = known[0] or not isinstance(result, Failure)
                self._log.bounds(topic, queue_id, bounds)

            def bounds(result: tuple[int, int] | Failure) -> None:
                if not isinstance(result, Failure):
                    ends.append((topic, queue_id, result[1]))
                left[0] -= 1
                if left[0] == 0:
                    done(None if known[0] else ends)

            self._positions.offset(group, topic, queue_id, position)

        for queue_id in range(queues):
            look(queue_id)
