"""Topics that were deleted: an event that is delivered to one of them is refused, and does not make the topic again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, final

from domain.errors import Failure
from domain.ports import Clock
from domain.store.store_ports import State
from gateway.usecase.topics_and_groups.followed_space import FollowedSpace

SPACE: Final = "deleted-topic"
"""State space: name -> epoch ms at which it was deleted, 8 bytes."""
KEPT_MAX: Final = 10_000
"""Names that are kept; those that were deleted first are forgotten."""


@final
class DeletedTopics:
    """Names that have no topic any more. A topic that is made again is forgotten here."""

    def __init__(self, state: State, clock: Clock) -> None:
        self._clock = clock
        self._space = FollowedSpace(state, SPACE, _decode)

    def __contains__(self, name: str) -> bool:
        return name.encode() in self._space.values

    def remember(self, name: str, done: Callable[[None | Failure], None]) -> None:
        """Remember that a topic was deleted. `done` is called when every later delivery to its name is refused.

        After a crash before that, or a Failure (as `State.put`), the name counts as one that never had a topic.
        """
        known = self._space.values
        changes: dict[bytes, bytes | None] = {}
        if len(known) >= KEPT_MAX:
            changes[min(known, key=known.__getitem__)] = None
        changes[name.encode()] = self._clock.wall_ms().to_bytes(8, "big")
        self._space.put(changes, done)

    def forget(self, name: str) -> None:
        """There is a topic of this name again."""
        key = name.encode()
        if key in self._space.values:
            self._space.put({key: None}, None)


def _decode(value: bytes) -> int:
    return int.from_bytes(value, "big")
