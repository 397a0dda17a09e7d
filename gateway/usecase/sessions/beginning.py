"""Where a consumer group begins that a session makes by subscribing: at the end of what there is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import final

from domain.errors import Failure
from domain.ports import MessageStore, Metadata

Then = Callable[[Failure | None], None]
Ends = list[tuple[str, int, int]]


@final
class Beginning:
    """Puts groups at the end of topics in which they have no position at all."""

    __slots__ = ("_metadata", "_store")

    def __init__(self, store: MessageStore, metadata: Metadata) -> None:
        self._store = store
        self._metadata = metadata

    def begin(self, group: str, names: Iterable[str], done: Then) -> None:
        """All of `names`; what the store refused."""
        ends: Ends = []
        left = [1]

        def one_less() -> None:
            left[0] -= 1
            if left[0] == 0:
                if ends:
                    self._store.commit(group, ends, done)
                else:
                    done(None)

        def take(found: Ends | None) -> None:
            ends.extend(found or ())
            one_less()

        for name in names:
            topic = self._metadata.topic(name)
            if topic is not None:
                left[0] += 1
                self._ends(group, name, max(topic.read_queues, topic.write_queues), take)
        one_less()

    def _ends(self, group: str, topic: str, queues: int, done: Callable[[Ends | None], None]) -> None:
        """(topic, queue, end) of every queue of a topic; None when the group has a position there already."""
        ends: Ends = []
        left = [queues]
        known = [False]

        def look(queue_id: int) -> None:
            def position(result: int | Failure) -> None:
                known[0] = known[0] or not isinstance(result, Failure)
                self._store.bounds(topic, queue_id, bounds)

            def bounds(result: tuple[int, int] | Failure) -> None:
                if not isinstance(result, Failure):
                    ends.append((topic, queue_id, result[1]))
                left[0] -= 1
                if left[0] == 0:
                    done(None if known[0] else ends)

            self._store.offset(group, topic, queue_id, position)

        for queue_id in range(queues):
            look(queue_id)
