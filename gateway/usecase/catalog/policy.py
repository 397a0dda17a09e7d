"""What the node does unasked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

STRATEGY: Final = "share.strategy"
"""Attribute of a group: how its messages are shared out among sessions that are members, one of STRATEGIES."""
LEAST: Final = "least-inflight"
STICKY: Final = "sticky"
ROUND_ROBIN: Final = "round-robin"
STRATEGIES: Final = (LEAST, STICKY, ROUND_ROBIN)
PERMISSIONS: Final = (2, 4, 6)
SHARES: Final = 100
"""What shares of receives are of."""


@dataclass(slots=True)
class NodePolicy:
    """Creation on first use, rights, bounds. One object for the node: who acts by it looks at it each time, tools change it.

    create_topics, create_groups   make what a client names and nobody made; off: refused as not found
    queues                         of a topic made that way
    permission                     of this broker: 2 write, 4 read, 6 both (RocketMQ: brokerPermission). Routes have no more;
                                   without read nobody receives for a group, without write ordered topics take nothing and
                                   nothing is sent back
    latest_max, latest_bytes_max   latest (retained) values that are kept, and bytes of them with their paths; one more is
                                   refused, removing one and putting a smaller one in its place never is
    lite_subscriptions_max         lite topics that all clients together may subscribe to; one more is refused
    lite_syncs_per_s               requests of all clients together that add lite topics, a second's worth at once; 0: no bound
                                   (ProxyConfig.maxSyncLiteSubscriptionRate)
    share_strategy                 how shared subscriptions share out where the group does not say: one of STRATEGIES
    priority_order_ascending       of a topic whose queues are priorities, the one with the highest number is read first; off:
                                   queue 0
    priority_again_first_percent   of its receives, so many (0 to 100) look first at what comes again, the others last
    """

    create_topics: bool = True
    create_groups: bool = True
    queues: int = 8
    permission: int = 6
    latest_max: int = 1_000_000
    latest_bytes_max: int = 1024 * 1024 * 1024
    lite_subscriptions_max: int = 100_000
    lite_syncs_per_s: int = 5_000
    share_strategy: str = LEAST
    priority_order_ascending: bool = True
    priority_again_first_percent: int = 0
