"""Lags of groups at a gateway before Apache RocketMQ, queried from the brokers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import final

from domain.ports import Clock
from domain.store.outlook import LagWalk
from gateway.apache.lag.group_topics import GroupTopics
from gateway.apache.lag.walk import ClusterLagWalk
from gateway.brokers.broker_links import Brokers
from gateway.brokers.cluster_map import ClusterMap


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
