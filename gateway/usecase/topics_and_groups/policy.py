"""The policy of the node: creation of topics and groups on first use, permissions, and bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal

from msgspec import Meta

STRATEGY: Final = "share.strategy"
"""Attribute of a group: how its messages are distributed among MQTT sessions that are members, one of STRATEGIES."""
LEAST: Final = "least-inflight"
STICKY: Final = "sticky"
ROUND_ROBIN: Final = "round-robin"
STRATEGIES: Final = (LEAST, STICKY, ROUND_ROBIN)
PERMISSIONS: Final = (2, 4, 6)
"""Write, read, both."""
SHARES: Final = 100
"""Shares of receives are per cent."""


@dataclass(slots=True)
class NodePolicy:
    """The node has one policy object. Use cases read it at each use, so that tools can change it.

    create_topics                  create a topic when a client first names it; off: refused as not found
    create_groups                  create a group when a client first names it; off: refused as not found
    queues                         queues of a topic that is created on first use
    permission                     of this broker: 2 write, 4 read, 6 both (RocketMQ: brokerPermission), also in routes.
                                   Without read no group receives; without write ordered topics take no messages, and no
                                   message is sent back
    latest_max                     latest (retained) values that are stored; one more is refused
    latest_bytes_max               bytes of latest values with their paths; beyond it only removals and smaller values are taken
    lite_subscriptions_max         lite topics that all clients together may subscribe to; one more is refused
    lite_syncs_per_s               requests a second, of all clients, that add lite topics; 0: no bound
                                   (ProxyConfig.maxSyncLiteSubscriptionRate)
    share_strategy                 distribution of shared subscriptions whose group has no attribute for it: one of STRATEGIES
    priority_order_ascending       in a topic of type PRIORITY the queue with the highest number is read first; off: queue 0
    priority_again_first_percent   share of its receives, 0 to 100, that read the retry topic first; the others read it last
    """

    create_topics: bool = True
    create_groups: bool = True
    queues: int = 8
    permission: Literal[2, 4, 6] = 6
    latest_max: int = 1_000_000
    latest_bytes_max: int = 1024 * 1024 * 1024
    lite_subscriptions_max: int = 100_000
    lite_syncs_per_s: int = 5_000
    share_strategy: Literal["least-inflight", "sticky", "round-robin"] = LEAST
    priority_order_ascending: bool = True
    priority_again_first_percent: Annotated[int, Meta(ge=0, le=SHARES)] = 0
