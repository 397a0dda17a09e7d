"""What a group has before it, seen without taking anything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Outlook(Protocol):
    """Asked of the leases in memory; answers at once."""

    def places(self) -> Sequence[tuple[str, str, int]]:
        """(group, topic, queue id) of every queue on which a group has a position, lite queues left out."""

    def can_lease(self, group: str, topic: str, queue_id: int, ordered: bool, attempt_id: str) -> bool:
        """Whether a Receive would find something, with the fields as in AwaitMessages. A filter may not want what there is."""

    def delivered_below(self, group: str, topic: str, queue_id: int) -> int:
        """The offset below which all has been given to the group, or 0: what lies behind its position is being worked on."""
