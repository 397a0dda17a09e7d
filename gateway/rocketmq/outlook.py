"""What groups could receive, as far as a gateway before Apache RocketMQ knows: the brokers know it, and mqadmin tells it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from domain.store_ports import GroupLag, LagWalk


@final
class NoLags:
    """`LagWalk` over nothing."""

    passed = 0
    total = 0

    def step(self, cost: int) -> bool:
        """LagWalk.step."""
        return True

    def result(self) -> tuple[list[GroupLag], GroupLag | None]:
        """LagWalk.result."""
        return [], None


@final
class RocketmqOutlook:
    """`Outlook`. Positions and lag of groups are told by the brokers, to tools that ask them through the remoting port."""

    def places(self) -> Sequence[tuple[str, str, int]]:
        """Outlook.places: none."""
        return ()

    def places_after(self, place: tuple[str, str, int] | None, limit: int) -> Sequence[tuple[str, str, int]]:
        """Outlook.places_after: none."""
        return ()

    def lags(self, most: int) -> LagWalk:
        """Outlook.lags: none."""
        return NoLags()

    def can_lease(self, group: str, topic: str, queue_id: int, ordered: bool, attempt_id: str) -> bool:
        """Outlook.can_lease: True, a Receive finds out."""
        return True

    def delivered_below(self, group: str, topic: str, queue_id: int) -> int:
        """Outlook.delivered_below: 0."""
        return 0
