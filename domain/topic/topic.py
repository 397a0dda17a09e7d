"""Configuration of topics and consumer groups."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Final

from domain.delivery.retry import DEFAULT, RetryPolicy

PERM_WRITE: Final = 2
PERM_READ: Final = 4
PERM_READ_WRITE: Final = 6


class Durability(enum.Enum):
    """The promise of an acknowledgement. A node that is not replicated is its own only replica.

    PAGE                 the message is in the operating system's page cache
    FLUSHED              the message is on the disk (fdatasync)
    REPLICATED           it is in the page cache of the leader and of every member of the SyncStateSet
    REPLICATED_FLUSHED   it is on the disks of all of them
    """

    PAGE = "page"
    FLUSHED = "flushed"
    REPLICATED = "replicated"
    REPLICATED_FLUSHED = "replicated+flushed"

    @property
    def waits_for_sync(self) -> bool:
        """True when the message is on the disk before the answer."""
        return self in (Durability.FLUSHED, Durability.REPLICATED_FLUSHED)

    @property
    def waits_for_replicas(self) -> bool:
        """True when the other members of the SyncStateSet have the message before the answer."""
        return self in (Durability.REPLICATED, Durability.REPLICATED_FLUSHED)

    @property
    def survives(self) -> str:
        """The failures that a message survives at this durability, in words."""
        return {
            Durability.PAGE: "kill -9 of the server",
            Durability.FLUSHED: "kill -9 and power loss",
            Durability.REPLICATED: "kill -9, and the loss of nodes as long as one replica in sync is left",
            Durability.REPLICATED_FLUSHED: "kill -9, power loss of all nodes, and the loss of nodes as long as one replica in "
            "sync is left",
        }[self]


@dataclass(frozen=True, slots=True)
class Topic:
    """One topic.

    read_queues      queues that consumers read
    write_queues     queues that producers write
    perm             PERM_READ, PERM_WRITE or both
    type             NORMAL, FIFO, DELAY, TRANSACTION, PRIORITY, LITE or MIXED (RocketMQ's message.type)
    durability       of its messages when they are acknowledged
    retention_ms     age at which messages are deleted; 0: the store's default
    retention_bytes  size above which the oldest messages are deleted; 0: no bound
    order            kept for clients
    sys_flag         kept for clients
    attributes       further attributes as text (domain.topic.attribute)
    created_ms       epoch milliseconds; 0: created by the node at its start. It is also the topic's epoch: a topic that is
                     deleted and created again has another one, and offsets from 0 again
    """

    name: str
    read_queues: int = 8
    write_queues: int = 8
    perm: int = PERM_READ_WRITE
    type: str = "NORMAL"
    durability: Durability = Durability.FLUSHED
    retention_ms: int = 0
    retention_bytes: int = 0
    order: bool = False
    sys_flag: int = 0
    attributes: dict[str, str] = field(default_factory=dict)
    created_ms: int = 0


PRIORITY_FACTOR: Final = "priority.factor"
"""Attribute of a group: receives of a hundred from a PRIORITY topic that read the highest priority first. Default: 100."""


@dataclass(frozen=True, slots=True)
class Group:
    """One consumer group.

    orderly           True: messages of an ordering key are delivered in order
    consume_enable    False: the group may not consume
    consume_from_min  kept for clients
    broadcast_enable  False: its members may not consume in model BROADCASTING
    retry_max         redeliveries after the first delivery, before the dead-letter topic
    retry_queues      queues of its retry topic when that is created; 0: messages that consumers send back are dropped
    attributes        further attributes as text (domain.topic.attribute)
    retry             how long a message waits before its next delivery
    notify            True: members are notified when the members of the group change
    """

    name: str
    orderly: bool = False
    consume_enable: bool = True
    consume_from_min: bool = True
    broadcast_enable: bool = True
    retry_max: int = 16
    retry_queues: int = 1
    attributes: dict[str, str] = field(default_factory=dict)
    created_ms: int = 0
    retry: RetryPolicy = DEFAULT
    notify: bool = True

    @property
    def attempts_max(self) -> int:
        """Deliveries of a message, after which it becomes a dead letter."""
        return self.retry_max + 1
