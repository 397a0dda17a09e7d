"""Lag of consumer groups, read from the store."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final, final

from domain.address import is_system_topic
from domain.errors import Failure
from domain.store_ports import GroupPositions, MessageLog, Metadata
from domain.topic import Topic

QUEUES_PER_REFRESH: Final = 4_096
"""Queues read in one refresh, so that it takes milliseconds however many groups and topics there are."""
ROWS_MAX: Final = 10_000


@final
class Lags:
    """Lag by (group, topic): messages after the group's position, summed over the queues where it has a position.

    A refresh reads up to QUEUES_PER_REFRESH queues and the next one continues there: values of other queues are older.
    """

    def __init__(self, log: MessageLog, positions: GroupPositions, metadata: Metadata) -> None:
        self._log = log
        self._positions = positions
        self._metadata = metadata
        self._behind: dict[tuple[str, str], dict[int, int]] = {}
        self._remaining: Iterator[tuple[str, str, int]] = iter(())

    def refresh(self) -> list[tuple[str, str, int]]:
        """Read some queues again. Returns (group, topic, messages), sorted, at most ROWS_MAX."""
        asked = self._ask(QUEUES_PER_REFRESH)
        if asked < QUEUES_PER_REFRESH:
            self._forget()
            self._remaining = self._queues()
            self._ask(QUEUES_PER_REFRESH - asked)
        rows = [(group, topic, sum(queues.values())) for (group, topic), queues in self._behind.items()]
        return sorted(rows)[:ROWS_MAX]

    def _ask(self, most: int) -> int:
        asked = 0
        for group, topic, queue_id in islice(self._remaining, most):
            asked += 1
            self._positions.offset(group, topic, queue_id, self._positioned(group, topic, queue_id))
        return asked

    def _queues(self) -> Iterator[tuple[str, str, int]]:
        topics = [topic for topic in self._metadata.topics() if not is_system_topic(topic.name)]
        for group in self._metadata.groups():
            for topic in topics:
                for queue_id in range(queues_of(topic)):
                    yield group.name, topic.name, queue_id

    def _forget(self) -> None:
        """Drop groups and topics that have been deleted."""
        self._behind = {
            (group, topic): queues
            for (group, topic), queues in self._behind.items()
            if self._metadata.group(group) is not None and self._metadata.topic(topic) is not None
        }

    def _positioned(self, group: str, topic: str, queue_id: int) -> Callable[[int | Failure], None]:
        def positioned(position: int | Failure) -> None:
            if isinstance(position, Failure):
                self._behind.get((group, topic), {}).pop(queue_id, None)
                return

            def bounded(bounds: tuple[int, int] | Failure) -> None:
                if not isinstance(bounds, Failure):
                    self._behind.setdefault((group, topic), {})[queue_id] = max(0, bounds[1] - position)

            self._log.bounds(topic, queue_id, bounded)

        return positioned


def queues_of(topic: Topic) -> int:
    """Queues that a topic may have messages in."""
    return max(topic.read_queues, topic.write_queues)
