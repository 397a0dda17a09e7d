"""Requests of the client: their codes, and which replies are tried again (RocketMQ's RequestCode, ResponseCode)."""

from __future__ import annotations

from typing import Final

from gateway.client.answer import SYSTEM_ERROR, QueueRoute

SYSTEM_BUSY: Final = 2
SERVICE_NOT_AVAILABLE: Final = 14
FLOW_CONTROL: Final = 215
GO_AWAY: Final = 1500
NOT_SUPPORTED: Final = 3
POLLING_FULL: Final = 209
POLLING_TIMEOUT: Final = 210
NOT_LEADER: Final = 501
RETRIED_CODES = frozenset(
    {
        SYSTEM_ERROR, SYSTEM_BUSY, SERVICE_NOT_AVAILABLE, POLLING_FULL, POLLING_TIMEOUT, FLOW_CONTROL, NOT_LEADER, GO_AWAY,
        # RPC errors of a broker that forwards to another one (RocketMQ's ResponseCode 900 to 906).
        *range(900, 907),
    }
)  # fmt: skip
"""Replies that a later attempt, perhaps at another address, may not get."""
STORED_CODES = frozenset({0, 10, 11, 12})

PULL: Final = 11
SEARCH: Final = 29
MAX_OFFSET: Final = 30
MIN_OFFSET: Final = 31
EARLIEST: Final = 32
ROUTE: Final = 105
TOPICS: Final = 206
SEND: Final = 310
TOPIC_BOUNDS: Final = 30000
HOLD_QUEUES: Final = 30001
HELD_QUEUES_MAX: Final = 1_000

_SUBSCRIPTION_FLAG: Final = 4
PIPELINED_MAX: Final = 500
"""Requests in one write: their replies fit the socket buffer while the rest of the requests is being sent."""
READER_GROUP: Final = "TOOLS_CONSUMER"
"""The consumer group in pulls of this client. Every RocketMQ broker knows it; no position is stored for it."""


def pull_fields(queue: QueueRoute, offset: int, limit: int, max_bytes: int, epoch: int) -> dict[str, str]:
    return {
        "consumerGroup": READER_GROUP, "topic": queue.topic, "queueId": str(queue.queue_id), "queueOffset": str(offset),
        "maxMsgNums": str(limit), "sysFlag": str(_SUBSCRIPTION_FLAG), "commitOffset": "0", "suspendTimeoutMillis": "0",
        "subscription": "*", "subVersion": "0", "expressionType": "TAG", "maxMsgBytes": str(max_bytes), "bname": queue.broker,
        "hgOrigin": "true", "hgEpoch": str(epoch),
    }  # fmt: skip
